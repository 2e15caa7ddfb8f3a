"""A run in numbers: pass rates, distributions and kinds, one metric at a time. Pure.

There is no headline score: a metric is shown with its own threshold, and rows without a value
are counted beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from stagewatch.scorer.estimate import wilson
from stagewatch.scorer.plans.plan import KNOWN_METRICS, LOWER_IS_BETTER
from stagewatch.scorer.plans.results import RowSummary, ScoreLine
from stagewatch.scorer.thresholds import Thresholds

_RANKS = 10


@dataclass(frozen=True, slots=True)
class Bin:
    """One bar of a distribution: its label, its rows, and whether values there pass."""

    label: str
    n: int
    passes: bool | None


@dataclass(frozen=True, slots=True)
class MetricTally:
    """One metric over a run. `passed` of `judged` rows pass, with Wilson's 95 % interval.

    `mean` is None for ranks (a miss has no number) and without values. `threshold` None: the
    metric is reported and decides nothing.
    """

    metric: str
    bases: tuple[str, ...]
    threshold: float | None
    lower_is_better: bool
    judged: int
    passed: int
    low: float | None
    high: float | None
    mean: float | None
    unscored: int
    not_applicable: int
    hard_fails: int
    bins: tuple[Bin, ...]
    by_kind: Mapping[str, tuple[int, int]]

    @property
    def pass_rate(self) -> float | None:
        """Share of judged rows that pass."""
        return self.passed / self.judged if self.judged else None


@dataclass(frozen=True, slots=True)
class KindTally:
    """Rows of one kind by verdict; `waiting` need a second person before they count in gates."""

    kind: str
    rows: int
    passed: int
    failed: int
    errored: int
    waiting: int


def tally_metrics(rows: Sequence[RowSummary], limits: Thresholds) -> list[MetricTally]:
    """Every metric that the run has, in the order of the stages."""
    seen = {name for row in rows for name in row.scores}
    return [
        _metric(name, [(row.kind, row.scores[name]) for row in rows if name in row.scores], limits)
        for name in KNOWN_METRICS
        if name in seen
    ]


def _metric(metric: str, lines: Sequence[tuple[str, ScoreLine]], limits: Thresholds) -> MetricTally:
    scored = [line for _, line in lines if line.status == "scored"]
    judged = [(kind, line.verdict == "pass") for kind, line in lines if line.verdict]
    passed = sum(ok for _, ok in judged)
    low, high = wilson(passed / len(judged), len(judged)) if judged else (None, None)
    values = [line.value for line in scored if line.value is not None]
    threshold = limits.of(metric)
    kinds: dict[str, tuple[int, int]] = {}
    for kind, ok in judged:
        good, total = kinds.get(kind, (0, 0))
        kinds[kind] = (good + ok, total + 1)
    rank = metric == "first_relevant_rank"
    return MetricTally(
        metric=metric,
        bases=tuple(sorted({line.basis for line in scored})),
        threshold=threshold.limit if threshold else None,
        lower_is_better=metric in LOWER_IS_BETTER,
        judged=len(judged),
        passed=passed,
        low=low,
        high=high,
        mean=None if rank or not values else sum(values) / len(values),
        unscored=sum(line.status == "unscored" for _, line in lines),
        not_applicable=sum(line.status == "not_applicable" for _, line in lines),
        hard_fails=sum(line.hard_fail for line in scored),
        bins=tuple(
            _rank_bins(scored, threshold.limit if threshold else None)
            if rank
            else _share_bins(metric, values, threshold.limit if threshold else None)
        ),
        by_kind=dict(sorted(kinds.items())),
    )


def _share_bins(metric: str, values: Sequence[float], limit: float | None) -> Iterable[Bin]:
    counts = Counter(min(9, max(0, int(value * 10 + 1e-9))) for value in values)
    for tenth in range(10):
        low = tenth / 10
        if limit is None:
            passes = None
        else:
            passes = low <= limit if metric in LOWER_IS_BETTER else low + 0.05 >= limit
        yield Bin(f"{tenth / 10:.1f}", counts.get(tenth, 0), passes)


def _rank_bins(scored: Sequence[ScoreLine], limit: float | None) -> Iterable[Bin]:
    ranks = Counter(
        min(int(line.value), _RANKS + 1) if line.value is not None else 0 for line in scored
    )
    for rank in range(1, _RANKS + 1):
        yield Bin(str(rank), ranks.get(rank, 0), None if limit is None else rank <= limit)
    yield Bin(f">{_RANKS}", ranks.get(_RANKS + 1, 0), None if limit is None else False)
    yield Bin("miss", ranks.get(0, 0), None if limit is None else False)


def tally_kinds(rows: Sequence[RowSummary]) -> list[KindTally]:
    """Rows by kind and verdict, the largest kind first."""
    kinds = Counter(row.kind for row in rows)
    return [
        KindTally(
            kind,
            total,
            sum(row.kind == kind and row.verdict == "pass" for row in rows),
            sum(row.kind == kind and row.verdict == "fail" for row in rows),
            sum(row.kind == kind and row.verdict == "errored" for row in rows),
            sum(row.kind == kind and not row.counts for row in rows),
        )
        for kind, total in kinds.most_common()
    ]


def median_latency(rows: Sequence[RowSummary]) -> float | None:
    """The app's median answer time over rows that it answered, milliseconds."""
    found = [row.latency_ms for row in rows if row.scores]
    return median(found) if found else None
