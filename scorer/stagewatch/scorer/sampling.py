"""Which turns are read: by a hash of the turn id, so retries and restarts choose the same ones."""

from __future__ import annotations

import xxhash

_SPAN = float(1 << 64)


def position(turn_id: str) -> float:
    """The turn's fixed place in [0, 1), even over ids: XXH3-64 of the id over 2^64."""
    return xxhash.xxh3_64_intdigest(turn_id.encode()) / _SPAN


def is_sampled(turn_id: str, rate: float) -> bool:
    """True for the share `rate` (0 to 1) of turns.

    Nested: whoever is in the sample at 5 % is in it at 20 % too, so raising the rate only adds.
    """
    return position(turn_id) < rate
