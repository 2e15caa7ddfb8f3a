"""Estimates over sampled live traffic, with intervals that mean what they say. Pure.

Turns are sampled with a known inclusion probability, so the mean is the Hájek
(inverse-probability weighted) mean. The target is the process that produces turns, not the
finite set seen, so the variance includes the turns themselves; turns of one conversation
resemble each other, so it is clustered by conversation.

Sources: Hájek (1971); Lumley, *Complex Surveys* (2010) 2.3 for the linearised variance; Kish
(1965) for the effective size; Wilson (1927); Woodruff (1952) for quantiles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FEW_FAILURES = 10.0
"""With fewer failures (or passes) expected than this, the normal interval is too short."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate with its 95 % interval (by default) and how it was made.

    `n` is the number of readings, `n_eff` how many independent ones they are worth. `wide` is
    True when the small-count interval was used. All are None-free; with n 0 there is no
    Estimate at all.
    """

    n: int
    n_eff: float
    value: float
    low: float
    high: float
    wide: bool


_SIDES: dict[str, tuple[str, str]] = {
    "pass_rate": ("passes", "failures"),
    "hard_fail_rate": ("hard fails", "turns without one"),
    "miss_rate": ("misses", "hits"),
    "mean": ("high values", "low values"),
}
"""What the ones and the zeros behind a share are called."""

_QUANTILE_TAIL = {"median": 0.5, "p90": 0.1}


def few_of(stat: str, estimate: Estimate) -> str:
    """What there are few of, where that is why the interval is wide; "" when it is not wide.

    Fewer than `FEW_FAILURES` on one side of a share is "few failures" however many turns there
    are; on both sides it is "few turns". Wide with enough of both, the readings lean together
    or weigh unevenly: "few conversations".
    """
    if stat in _QUANTILE_TAIL:
        return "few turns" if estimate.n * _QUANTILE_TAIL[stat] < FEW_FAILURES else ""
    if not estimate.wide:
        return ""
    ones, zeros = estimate.n * estimate.value, estimate.n * (1 - estimate.value)
    if estimate.n < 2 * FEW_FAILURES:
        return "few turns"
    if zeros < FEW_FAILURES:
        return f"few {_SIDES[stat][1]}"
    if ones < FEW_FAILURES:
        return f"few {_SIDES[stat][0]}"
    return "few conversations"


def z_of(confidence: float) -> float:
    """The two-sided standard normal quantile, 1.96 for 0.95."""
    return NormalDist().inv_cdf(0.5 + confidence / 2)


def t_of(confidence: float, df: float) -> float:
    """Student's t quantile by the Cornish-Fisher expansion (Abramowitz & Stegun 26.7.5).

    Within 0.5 % of the exact value from df 5 on; df below 1 is taken as 1.
    """
    z = z_of(confidence)
    v = max(df, 1.0)
    z3, z5, z7 = z**3, z**5, z**7
    g1 = (z3 + z) / 4
    g2 = (5 * z5 + 16 * z3 + 3 * z) / 96
    g3 = (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / 384
    return z + g1 / v + g2 / v**2 + g3 / v**3


def wilson(
    p: float, n: float, confidence: float = 0.95, *, z: float | None = None
) -> tuple[float, float]:
    """Wilson's score interval of a proportion `p` seen in `n` (effective, > 0) trials.

    `z` replaces the normal quantile of `confidence`.
    """
    z = z_of(confidence) if z is None else z
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    # The interval always holds `p`; rounding alone would put an end past it, near 0 and 1.
    low = max(0.0, min(p, centre - half))
    high = min(1.0, max(p, centre + half))
    return low, high


def cluster_numbers(keys: Sequence[str]) -> tuple[NDArray[np.intp], int]:
    """Cluster number of each reading, and how many there are; "" is a cluster of its own."""
    index: dict[str, int] = {}
    numbers = np.empty(len(keys), dtype=np.intp)
    for i, key in enumerate(keys):
        name = key or f"\0{i}"
        numbers[i] = index.setdefault(name, len(index))
    return numbers, len(index)


def _linearised(
    values: Floats, weights: Floats, clusters: NDArray[np.intp], m: int, mean: float
) -> float:
    """Cluster-robust variance of the Hájek mean, with the m/(m-1) correction."""
    totals = np.bincount(clusters, weights * (values - mean), minlength=m)
    scale = m / (m - 1) if m > 1 else 1.0
    return float(scale * np.sum(totals**2) / np.sum(weights) ** 2)


def mean_estimate(
    values: Sequence[float],
    inclusion: Sequence[float],
    conversations: Sequence[str],
    *,
    confidence: float = 0.95,
) -> Estimate | None:
    """Weighted mean of values in [0, 1] with its interval; None without values.

    Args:
        values: shape (n,), each in [0, 1]: a score, or 1/0 for pass/fail.
        inclusion: shape (n,), each in (0, 1]: the probability with which the turn was sampled.
        conversations: shape (n,): cluster key; "" is a cluster of its own.
        confidence: coverage aimed at.

    Raises:
        ValueError: shapes differ, or an inclusion probability is outside (0, 1].
    """
    x, w = _arrays(values, inclusion)
    if len(conversations) != len(x):
        raise ValueError("values, inclusion and conversations must have one length")
    if len(x) == 0:
        return None
    clusters, m = cluster_numbers(conversations)
    mean = min(1.0, max(0.0, float(np.sum(w * x) / np.sum(w))))
    variance = _linearised(x, w, clusters, m, mean)
    cluster_weights = np.bincount(clusters, w, minlength=m)
    kish = float(np.sum(cluster_weights) ** 2 / np.sum(cluster_weights**2))
    # Between 0 and 1 a variable of this mean varies at most like a coin of this mean.
    spread = mean * (1 - mean)
    # A mean that rounds to 0 or 1 leaves no spread; what is left of the variance is rounding too.
    linear = spread / variance if variance > 0 and spread > 0 else math.inf
    n_eff = min(kish, linear)
    rare = min(mean, 1 - mean)
    # The linearised size sees clustering but is itself unsure where a few heavy turns carry the
    # failures: Kish's size of the weights bounds it.
    kish_turns = float(np.sum(w) ** 2 / np.sum(w**2))
    few = rare == 0 or min(linear, kish_turns) * rare < FEW_FAILURES
    if few or m < 2:
        low, high = wilson(mean, n_eff, confidence)
        return Estimate(len(x), n_eff, mean, low, high, wide=True)
    # Wilson's form on the linearised size: where the mean is in the middle it is the normal
    # interval, towards the ends it does not reach beyond 0 and 1.
    low, high = wilson(mean, linear, z=t_of(confidence, min(kish, m) - 1))
    return Estimate(len(x), n_eff, mean, low, high, wide=False)


def _arrays(values: Sequence[float], inclusion: Sequence[float]) -> tuple[Floats, Floats]:
    x = np.asarray(values, dtype=np.float64)
    p = np.asarray(inclusion, dtype=np.float64)
    if x.shape != p.shape or x.ndim != 1:
        raise ValueError("values and inclusion must be flat and of one length")
    if len(p) and not (np.all(p > 0) and np.all(p <= 1)):
        raise ValueError("inclusion probabilities must be in (0, 1]")
    return x, 1.0 / p if len(p) else p


def quantile_estimate(
    values: Sequence[float],
    inclusion: Sequence[float],
    conversations: Sequence[str],
    q: float,
    *,
    confidence: float = 0.95,
) -> Estimate | None:
    """Weighted `q` quantile of any real values, with Woodruff's interval; None without values.

    The interval is the quantiles at the ends of the interval of the share at or below the
    estimate (Woodruff 1952), so it is always made of values that were seen.
    """
    x, w = _arrays(values, inclusion)
    if len(x) == 0:
        return None
    order = np.argsort(x, kind="stable")
    cumulative = np.cumsum(w[order]) / np.sum(w)
    ordered = x[order]

    def at(share: float) -> float:
        position = int(np.searchsorted(cumulative, share - 1e-12))
        return float(ordered[min(position, len(ordered) - 1)])

    value = at(q)
    # The indicator's own mean differs from q where values tie; its spread is taken at q.
    below = [1.0 if v <= value else 0.0 for v in x]
    share = mean_estimate(below, list(inclusion), list(conversations), confidence=confidence)
    if share is None:
        return None
    n_eff = max(share.n_eff if math.isfinite(share.n_eff) else len(x), 1.0)
    low, high = wilson(q, n_eff, confidence)
    return Estimate(len(x), n_eff, value, at(low), at(high), wide=share.wide)


def worst_case(
    estimate: Estimate, unscored_weight: float, scored_weight: float
) -> tuple[float, float]:
    """Bounds of the mean if every unscored turn were 0, or 1.

    An outage of the judge must not look like an improvement: these bounds widen with it.
    """
    total = scored_weight + unscored_weight
    share = scored_weight / total if total else 0.0
    return estimate.value * share, estimate.value * share + (1 - share)
