"""A probe's readings as a stream that drift can be looked for in. Pure.

A probe asks the same rows again and again, in one order, and some rows fail every time. Taken as
they come, those that stand side by side would look like a fall in each pass. So readings are
taken in rounds, in which every row comes once, and the rows of a round in an order of chance: a
round is then a draw of the same rows without replacement. Its runs of failures are shorter than
those of independent readings (Hoeffding 1963, theorem 4: the expectation of a convex function of
the sum is no larger), which is what the drift test's wealth is bounded for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import xxhash

from stagewatch.core.store.scores import Reading

CHOSEN_BY = 2
"""Rounds that tell which rows are watched."""

_WHOLE = 0.95
"""A last round that has so much of the rows of the one before is complete: single rows err."""


def watched(readings: Sequence[Reading], versions: Sequence[int]) -> list[Reading]:
    """What is watched of a probe's readings, in the order in which it is watched.

    Args:
        readings: of one metric, oldest first, `turn_id` being the row.
        versions: of the dataset, for each reading.

    Returns:
        Scored readings by labels, of the newest dataset version: other rows are another
        yardstick. Of these the rows that passed in one of the first rounds, from the round after
        on: where a row always fails, nothing can get worse, and what a row was chosen by is no
        part of its reference. A reading's time is when its round began.
    """
    now = versions[-1] if versions else 0
    own = [
        reading
        for reading, version in zip(readings, versions, strict=True)
        if version == now and reading.status == "scored" and reading.basis == "gold"
    ]
    rounds = list(_rounds(own))
    chosen = {r.turn_id for found in rounds[:CHOSEN_BY] for r in found if r.verdict == "pass"}
    stream: list[Reading] = []
    for found in rounds[CHOSEN_BY:]:
        begun = found[0].at
        mixed = sorted(found, key=lambda r: _chance(f"{begun.isoformat()}/{r.turn_id}"))
        stream += [
            replace(reading, at=begun, stratum="uniform", inclusion=1.0)
            for reading in mixed
            if reading.turn_id in chosen
        ]
    return stream


def _rounds(readings: Sequence[Reading]) -> Iterator[list[Reading]]:
    """Complete rounds; one ends where a row comes again."""
    current: dict[str, Reading] = {}
    size = 0
    for reading in readings:
        if reading.turn_id in current:
            yield list(current.values())
            size, current = len(current), {}
        current[reading.turn_id] = reading
    if current and len(current) >= _WHOLE * size:
        yield list(current.values())


def _chance(key: str) -> int:
    return xxhash.xxh3_64_intdigest(key.encode())
