"""Did the judge move? Two readings of the same texts, compared item by item. Pure.

An item moves up or down when its share of supported claims (or of passages marked relevant)
changes. A judge that only wavers moves as many items up as down, so the number up among those
that moved is a fair coin: the exact sign test (for labels that are yes or no it is McNemar's).
The set is read again and again, so each reading may use a part of the chance of a false alarm:
half of it is shared out as 1 / (k (k + 1)), which favours the first ones, half evenly over a year
of daily readings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

ALPHA = 0.01
"""Chance that a judge that does not move is said to have within `YEAR` readings; split over the
kinds of label. Each further `YEAR` adds half of it.
"""

YEAR = 365

KINDS = ("faithfulness", "chunk_relevance")
READABLE = 0.8
"""Share of the items that both readings need; with fewer nothing is decided."""

_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Move:
    """One kind of label between two readings: mean shares before and after over the `n` items
    that both have, how many moved up and down, the chance of that under no change.
    """

    kind: str
    n: int
    before: float
    after: float
    low: float
    high: float
    up: int
    down: int
    chance: float
    allowed: float

    @property
    def moved(self) -> bool:
        """Whether that is more than wavering."""
        return self.chance < self.allowed


def allowed_at(reading: int) -> float:
    """What the `reading`th comparison (1 is the first) may use, for one kind of label."""
    return ALPHA / len(KINDS) / 2 * (1 / (reading * (reading + 1)) + 1 / YEAR)


def sign_test(up: int, down: int) -> float:
    """Two-sided exact chance of a split at least as uneven among `up + down` fair coins."""
    n, k = up + down, min(up, down)
    if n == 0:
        return 1.0
    return min(1.0, 2 * sum(math.comb(n, i) for i in range(k + 1)) / (1 << n))


def move_of(
    kind: str, first: Mapping[str, float], second: Mapping[str, float], *, size: int, reading: int
) -> Move | None:
    """The move of one kind of label; None when too few items can be compared.

    Args:
        kind: one of `KINDS`.
        first: item → share at the baseline.
        second: item → share now.
        size: items in the set that have this label at all.
        reading: number of this comparison since the baseline, 1 for the first.
    """
    shared = sorted(first.keys() & second.keys())
    if not shared or len(shared) < READABLE * size:
        return None
    changes = [second[item] - first[item] for item in shared]
    up = sum(change > _TOLERANCE for change in changes)
    down = sum(change < -_TOLERANCE for change in changes)
    n = len(shared)
    before = math.fsum(first[item] for item in shared) / n
    after = math.fsum(second[item] for item in shared) / n
    mean = after - before
    spread = math.sqrt(math.fsum((c - mean) ** 2 for c in changes) / max(1, n - 1) / n)
    return Move(
        kind, n, before, after,
        max(0.0, after - 1.96 * spread), min(1.0, after + 1.96 * spread),
        up, down, sign_test(up, down), allowed_at(reading),
    )  # fmt: skip
