"""Rank: where the first relevant chunk stands. Recall can stay flat while this slides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from stagewatch.scorer.metrics.relevance import Mark
from stagewatch.scorer.results import Result, Scored, Unscored


@dataclass(frozen=True, slots=True)
class Miss:
    """No relevant chunk down to `depth`: a miss has no rank and never enters a mean as a number."""

    depth: int


Rank = int | Miss | Unscored


def first_relevant_rank(marks: Sequence[Mark], *, ordered: bool = True) -> Rank:
    """1-based position of the first relevant chunk, a `Miss`, or unscored.

    A missing mark before the first relevant chunk leaves the rank unknown. An empty list is a
    miss at depth 0.
    """
    if not ordered:
        return Unscored("unordered")
    for position, mark in enumerate(marks, start=1):
        if mark is None:
            return Unscored("judge_incomplete")
        if mark:
            return position
    return Miss(len(marks))


def best_rank(ranks: Sequence[Rank]) -> Rank:
    """The best rank over several lists that fed one window.

    A rank wins over a miss; an unscored list only matters when no other list has rank 1, since
    it might hold a better one.
    """
    if not ranks:
        return Unscored("not_captured")
    found = [rank for rank in ranks if isinstance(rank, int)]
    if found and min(found) == 1:
        return 1
    unknown = [rank for rank in ranks if isinstance(rank, Unscored)]
    if unknown:
        return unknown[0]
    if found:
        return min(found)
    return Miss(max(rank.depth for rank in ranks if isinstance(rank, Miss)))


def reciprocal_rank(rank: Rank) -> Result:
    """1 / first relevant rank, 0 for a miss, in [0, 1]; its mean is MRR."""
    if isinstance(rank, Unscored):
        return rank
    if isinstance(rank, Miss):
        return Scored(0.0, note=f"missed at depth {rank.depth}")
    return Scored(1.0 / rank)


@dataclass(frozen=True, slots=True)
class CutPoint:
    """What a window of the first `top_k` retrieved chunks would have had."""

    top_k: int
    recall: float
    precision: float


def top_k_curve(marks: Sequence[bool]) -> list[CutPoint]:
    """The "what if top_k = n" curve, n from 1 to the depth of the list.

    Recall here is relative to the relevant chunks found in the list (1.0 at full depth when
    there is one, 0.0 throughout when there is none); it never falls as n grows.
    """
    total = sum(marks)
    points = []
    so_far = 0
    for top_k, mark in enumerate(marks, start=1):
        so_far += mark
        points.append(CutPoint(top_k, so_far / total if total else 0.0, so_far / top_k))
    return points


@dataclass(frozen=True, slots=True)
class RankSummary:
    """A series of first relevant ranks. Median and p90 are over the `found` ones alone."""

    found: int
    missed: int
    unscored: int
    median: float | None
    p90: float | None
    miss_rate: float | None
    mrr: float | None


def rank_summary(ranks: Sequence[Rank]) -> RankSummary:
    """Median, 90th percentile (nearest rank), miss rate and MRR; None where nothing was known."""
    found = sorted(rank for rank in ranks if isinstance(rank, int))
    missed = sum(isinstance(rank, Miss) for rank in ranks)
    known = len(found) + missed
    middle = len(found) // 2
    median = None
    if found:
        median = float(found[middle])
        if len(found) % 2 == 0:
            median = (found[middle - 1] + found[middle]) / 2
    return RankSummary(
        found=len(found),
        missed=missed,
        unscored=len(ranks) - known,
        median=median,
        p90=float(found[math.ceil(0.9 * len(found)) - 1]) if found else None,
        miss_rate=missed / known if known else None,
        mrr=math.fsum(1 / rank for rank in found) / known if known else None,
    )
