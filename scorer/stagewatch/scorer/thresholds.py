"""From values to verdicts: one threshold a metric, and one verdict for a turn or row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from stagewatch.core.model import Score, Verdict
from stagewatch.scorer.metrics.rank import Miss, Rank
from stagewatch.scorer.results import Result, Scored

TOLERANCE = 1e-9
"""Values are sums of floats: 0.7 computed as 0.6999999999 still passes 0.7."""

RowVerdict = Literal["pass", "fail", "errored"]


@dataclass(frozen=True, slots=True)
class Threshold:
    """Where a metric passes: at or above `limit`, or at or below it when `lower_is_better`."""

    limit: float
    lower_is_better: bool = False


DEFAULT_THRESHOLDS: Mapping[str, Threshold] = {
    "retrieved_recall": Threshold(0.7),
    "context_recall": Threshold(0.7),
    "context_recall_claims": Threshold(0.7),
    "context_sufficiency": Threshold(0.7),
    "context_precision_at_k": Threshold(0.7),
    "first_relevant_rank": Threshold(3, lower_is_better=True),
    "faithfulness": Threshold(0.7),
    "answer_relevancy": Threshold(0.7),
    "answer_precision": Threshold(0.7),
    "rewrite_fidelity": Threshold(0.7),
    "refusal": Threshold(1.0),
    "answered_from_superseded": Threshold(0, lower_is_better=True),
}
"""Metrics that are not here (set precision, reciprocal rank, context_relevancy, version_conflict,
stale_context) are reported and decide nothing alone."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The thresholds in force; a project may replace single ones."""

    table: Mapping[str, Threshold] = field(default_factory=lambda: DEFAULT_THRESHOLDS)

    def of(self, metric: str) -> Threshold | None:
        """The threshold of `metric`, None when it takes no part in verdicts."""
        return self.table.get(metric)

    def verdict(self, metric: str, result: Result) -> Verdict | None:
        """`pass` or `fail` of a scored result; None when unscored or without a threshold.

        A hard fail fails whatever the value and the threshold.
        """
        if not isinstance(result, Scored):
            return None
        if result.hard_fail:
            return "fail"
        threshold = self.of(metric)
        return None if threshold is None else _passes(threshold, result.value)

    def rank_verdict(self, rank: Rank) -> Verdict | None:
        """A rank passes at or before the limit (default 3); a miss fails."""
        threshold = self.of("first_relevant_rank")
        if threshold is None or not isinstance(rank, (int, Miss)):
            return None
        return "fail" if isinstance(rank, Miss) else _passes(threshold, float(rank))


def _passes(threshold: Threshold, value: float) -> Verdict:
    if threshold.lower_is_better:
        return "pass" if value <= threshold.limit + TOLERANCE else "fail"
    return "pass" if value >= threshold.limit - TOLERANCE else "fail"


def row_verdict(scores: Iterable[Score], thresholds: Thresholds | None = None) -> RowVerdict:
    """Any metric fails → `fail`; else any metric of the table unscored → `errored`; else `pass`.

    `not_applicable` metrics, and those without a threshold, take no part.
    """
    table = thresholds or Thresholds()
    items = list(scores)
    if any(score.verdict == "fail" for score in items):
        return "fail"
    if any(score.status == "unscored" and table.of(score.metric) is not None for score in items):
        return "errored"
    return "pass"
