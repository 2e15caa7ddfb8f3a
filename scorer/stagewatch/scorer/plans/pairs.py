"""Two readings of the same rows: how the mean and the pass rate moved, with intervals. Pure.

The rows are the same in both runs, so the interval is of the differences: row difficulty
cancels out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stagewatch.scorer.estimate import t_of, z_of

Floats = NDArray[np.float64]

_RESAMPLES = 4000
_MANY = 400
_FEW_VALUES = 64
_NEGLIGIBLE = 1e-17


@dataclass(frozen=True, slots=True)
class Change:
    """From `before` to `after` over `n` rows that have both; `low` and `high` bound `change`."""

    n: int
    before: float
    after: float
    change: float
    low: float
    high: float

    @property
    def clear(self) -> bool:
        """Whether the interval leaves out "no change"."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, slots=True)
class Flips:
    """Pass and fail of the same rows: `mended` fail → pass, `broken` pass → fail.

    `p` is McNemar's exact two-sided probability of a split at least this uneven.
    """

    n: int
    mended: int
    broken: int
    change: float
    low: float
    high: float
    p: float


def mean_change(
    before: Sequence[float] | Floats,
    after: Sequence[float] | Floats,
    *,
    seed: int = 0,
    confidence: float = 0.95,
) -> Change | None:
    """The mean of `after - before` with its interval; None without rows.

    Percentile bootstrap of the paired differences (Efron & Tibshirani 1993, ch. 13): exact
    multinomial draws when the differences take few values, draws of rows up to 400 rows, Student's
    t beyond. When all differences are equal the bootstrap has nothing to draw: the interval is
    then the "rule of three", 3/n to each side.

    Args:
        before: shape (n,), values in [0, 1].
        after: shape (n,), the same rows.
        seed: of the resampling.
        confidence: coverage aimed at.
    """
    x, y = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
    if not len(x):
        return None
    d = y - x
    low, high = _interval(d, seed, confidence)
    low, high = max(-1.0, low), min(1.0, high)
    return Change(len(d), float(x.mean()), float(y.mean()), float(d.mean()), low, high)


def _interval(d: Floats, seed: int, confidence: float) -> tuple[float, float]:
    n = len(d)
    values, counts = np.unique(d, return_counts=True)
    mean = float(d.mean())
    if len(values) == 1:
        half = min(1.0, 3.0 / n)
        return mean - half, mean + half
    rng = np.random.default_rng(seed)
    tail = (1 - confidence) / 2
    if len(values) <= _FEW_VALUES:
        means = rng.multinomial(n, counts / n, size=_RESAMPLES) @ values / n
    elif n <= _MANY:
        means = d[rng.integers(0, n, size=(_RESAMPLES, n))].mean(axis=1)
    else:
        half = t_of(confidence, n - 1) * float(d.std(ddof=1)) / math.sqrt(n)
        return mean - half, mean + half
    return float(np.quantile(means, tail)), float(np.quantile(means, 1 - tail))


def pass_change(n: int, mended: int, broken: int) -> Flips | None:
    """How the pass rate of `n` rows moved when `mended` and `broken` of them flipped; None
    without rows.

    Interval: Wald's for paired proportions after adding half a row to each cell, which covers
    well down to a handful of rows (Agresti & Min 2005, Statistics in Medicine 24:729). `p`:
    McNemar's exact test, the binomial of the flipped rows (McNemar 1947).
    """
    if not n:
        return None
    up, down, size = mended + 0.5, broken + 0.5, n + 2.0
    centre = (up - down) / size
    half = z_of(0.95) * math.sqrt(max(0.0, up + down - (up - down) ** 2 / size)) / size
    return Flips(
        n, mended, broken, (mended - broken) / n,
        max(-1.0, centre - half), min(1.0, centre + half), mcnemar(mended, broken),
    )  # fmt: skip


def mcnemar(mended: int, broken: int) -> float:
    """Exact two-sided probability in (0, 1]; 1 when nothing flipped.

    The largest term is taken in log space, so thousands of flips do not overflow.
    """
    n, small = mended + broken, min(mended, broken)
    if n == 0:
        return 1.0
    # From the largest term downwards each is the one before times k / (n - k + 1).
    top = math.lgamma(n + 1) - math.lgamma(small + 1) - math.lgamma(n - small + 1)
    term, total = 1.0, 1.0
    for k in range(small, 0, -1):
        term *= k / (n - k + 1)
        total += term
        if term < total * _NEGLIGIBLE:
            break
    return min(1.0, 2 * math.exp(top - n * math.log(2)) * total)
