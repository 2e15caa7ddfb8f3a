"""Prediction-powered estimates: a cheap judge on every turn helps a strong judge's sample along.

The strong judge's mean over its sample is corrected by what the cheap judge says of all turns and
of the sample: `mean_s(y) + factor * (mean_all(f) - mean_s(f))`. Whatever the cheap judge is worth,
this aims at the strong judge's mean; the factor is the one that makes the interval shortest (power
tuning), and is 0 where the cheap judge knows nothing. With n sampled of n + N turns and
correlation r between the judges the width is sqrt(1 - r^2 N / (N + n)) of the plain one.

Sources: Angelopoulos, Bates et al., *Prediction-powered inference* (2023); Angelopoulos, Duchi &
Zrnic, *PPI++* (2023) for the tuning; Särndal, Swensson & Wretman, *Model Assisted Survey Sampling*
(1992) 6.4 for the weighted form; `estimate` for clusters and small counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from stagewatch.scorer.estimate import (
    FEW_FAILURES,
    Estimate,
    cluster_numbers,
    mean_estimate,
    t_of,
    wilson,
)

Floats = NDArray[np.float64]

MIN_SAMPLE = 50
"""Sampled clusters below which the correction is not tried: its factor would be guesswork."""


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Powered:
    """A corrected estimate beside the plain one of the same sample.

    `factor` is how much of the cheap judge was used (0: none, the two are the same), `correlation`
    that of the judges on the sample, `covered` the number of turns the cheap judge read.
    """

    estimate: Estimate
    plain: Estimate
    factor: float
    correlation: float
    covered: int

    @property
    def narrower(self) -> float:
        """By which share the interval got shorter: 0.18 is 18 %; never negative."""
        width = self.plain.high - self.plain.low
        if width <= 0:
            return 0.0
        return max(0.0, 1 - (self.estimate.high - self.estimate.low) / width)


def powered_mean(
    cheap: Sequence[float],
    strong: Sequence[float | None],
    inclusion: Sequence[float],
    conversations: Sequence[str],
    *,
    confidence: float = 0.95,
) -> Powered | None:
    """The strong judge's mean over all turns, by the help of the cheap judge.

    Args:
        cheap: shape (n,): what the cheap judge said of every turn, in [0, 1].
        strong: shape (n,): what the strong judge said of the sampled ones, in [0, 1]; else None.
        inclusion: shape (n,), each in (0, 1]: the chance with which a turn was to be sampled.
        conversations: shape (n,): cluster key; "" is a cluster of its own.
        confidence: coverage aimed at.

    Returns:
        None when nothing was sampled. Where fewer than `MIN_SAMPLE` clusters were, or few failures
        (or passes) are expected, or it would not help, the plain estimate stands, factor 0.

    Raises:
        ValueError: shapes differ, or an inclusion probability is outside (0, 1].
    """
    if not len(cheap) == len(strong) == len(inclusion) == len(conversations):
        raise ValueError("cheap, strong, inclusion and conversations must have one length")
    sampled = np.array([value is not None for value in strong], dtype=bool)
    y = [value for value in strong if value is not None]
    plain = mean_estimate(
        y, _kept(inclusion, sampled), _kept(conversations, sampled), confidence=confidence
    )
    if plain is None:
        return None
    f = np.asarray(cheap, dtype=np.float64)
    clusters, _ = cluster_numbers(conversations)
    weights = np.where(sampled, 1.0 / np.asarray(inclusion, dtype=np.float64), 0.0)
    weights /= weights.sum()
    full = np.zeros(len(f))
    full[sampled] = y
    correlation = _correlation(full[sampled], f[sampled], weights[sampled])
    found = _corrected(full, f, weights, clusters, confidence, n=len(y))
    if found is None or plain.wide:
        return Powered(plain, plain, 0.0, correlation, len(f))
    estimate, factor = found
    if estimate.high - estimate.low >= plain.high - plain.low:
        return Powered(plain, plain, 0.0, correlation, len(f))
    return Powered(estimate, plain, factor, correlation, len(f))


def _kept(items: Sequence[T], sampled: NDArray[np.bool_]) -> list[T]:
    return [item for item, keep in zip(items, sampled, strict=True) if keep]


def _correlation(y: Floats, f: Floats, weights: Floats) -> float:
    w = weights / weights.sum()
    dy, df = y - w @ y, f - w @ f
    spread = math.sqrt(float(w @ dy**2) * float(w @ df**2))
    return float(w @ (dy * df)) / spread if spread > 0 else 0.0


def _corrected(
    y: Floats,
    f: Floats,
    weights: Floats,
    clusters: NDArray[np.intp],
    confidence: float,
    *,
    n: int,
) -> tuple[Estimate, float] | None:
    """(estimate, factor); None when the sample is too small or tells nothing of the cheap judge.

    The mean is a sum of one term a turn; terms of one cluster are added before squaring, so the
    variance is `estimate`'s, linear in the factor inside the square.
    """
    m = int(clusters.max()) + 1
    held = np.bincount(clusters, weights, minlength=m)
    # Kish's size: of clusters that weigh unevenly, how many equal ones they are worth.
    worth = float(held.sum() ** 2 / (held @ held))
    if worth < MIN_SAMPLE:
        return None
    mean_y, mean_f, mean_fs = float(weights @ y), float(f.mean()), float(weights @ f)
    own = np.bincount(clusters, weights * (y - mean_y), minlength=m)
    told = np.bincount(clusters, weights * (f - mean_fs), minlength=m)
    of_all = np.bincount(clusters, (f - mean_f) / len(f), minlength=m)
    # The sample is a part of the turns that the cheap judge read, so the best factor is the slope
    # of one judge on the other, whatever the sizes are.
    size = float(told @ told)
    factor = max(0.0, float(own @ told) / size) if size > 0 else 0.0
    if factor == 0.0:
        return None
    value = min(1.0, max(0.0, mean_y + factor * (mean_f - mean_fs)))
    # A cluster that pulls the slope towards itself looks better explained than it is (HC3).
    left = (own - factor * told) / (1 - np.minimum(told**2 / size, 0.9))
    variance = float(np.sum((left + factor * of_all) ** 2)) * worth / (worth - 1)
    spread = value * (1 - value)
    if variance <= 0 or spread <= 0:
        return None
    n_eff = spread / variance
    turns = 1.0 / float(weights @ weights)
    rare = min(value, 1 - value)
    # The slope rests on the rare ones too, and on those that weigh most: twice as many are wanted.
    if n_eff * rare < FEW_FAILURES or turns * rare < 2 * FEW_FAILURES:
        return None
    low, high = wilson(value, n_eff, z=t_of(confidence, worth - 2))
    return Estimate(n, n_eff, value, low, high, wide=False), factor
