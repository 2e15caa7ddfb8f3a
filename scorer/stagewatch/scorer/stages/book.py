"""The scores of one turn as they come in, with basis, judge, threshold and verdict filled in."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

from stagewatch.core.model import Basis, Score, Status, Verdict
from stagewatch.scorer.diagnosis import Level
from stagewatch.scorer.judges.protocol import Judge
from stagewatch.scorer.metrics.rank import Miss, Rank
from stagewatch.scorer.results import Result, Scored, Unscored
from stagewatch.scorer.thresholds import Thresholds

RULE_FINGERPRINT = "rule-1"
GOLD_FINGERPRINT = "gold-1"


@dataclass(slots=True)
class Book:
    """Collects scores of one turn; `at` is the time written on them."""

    judge: Judge
    thresholds: Thresholds
    at: datetime | None = None
    scores: list[Score] = field(default_factory=list)

    def add(
        self, metric: str, result: Result, basis: Basis, *, decides: bool = True, note: str = ""
    ) -> Score:
        """Write one result down. With `decides` False it is reported and takes no part in the
        verdict. `note` overrides the result's own.
        """
        threshold = self.thresholds.of(metric) if decides else None
        verdict = self.thresholds.verdict(metric, result) if decides else None
        return self._write(
            metric, result, basis, verdict, threshold.limit if threshold else None, note
        )

    def add_rank(self, rank: Rank, basis: Basis) -> Score:
        """Write `first_relevant_rank`: a miss is scored without a value and fails."""
        threshold = self.thresholds.of("first_relevant_rank")
        result: Result
        if isinstance(rank, Unscored):
            result = rank
        elif isinstance(rank, Miss):
            result = Scored(0.0, note=f"missed at depth {rank.depth}")
        else:
            result = Scored(float(rank))
        score = self._write(
            "first_relevant_rank", result, basis, self.thresholds.rank_verdict(rank),
            threshold.limit if threshold else None, "",
        )  # fmt: skip
        if isinstance(rank, Miss):
            # A miss has no rank: a number here would be averaged by someone.
            score = replace(score, value=None)
            self.scores[-1] = score
        return score

    def _write(
        self,
        metric: str,
        result: Result,
        basis: Basis,
        verdict: Verdict | None,
        limit: float | None,
        note: str,
    ) -> Score:
        judged = basis == "judge"
        score = Score(
            metric=metric,
            status=_status(result),
            value=result.value if isinstance(result, Scored) else None,
            verdict=verdict,
            hard_fail=isinstance(result, Scored) and result.hard_fail,
            basis=basis,
            judge=self.judge.name if judged else None,
            fingerprint=self.judge.fingerprint if judged else _fingerprint(basis),
            reason=note or _reason(result),
            at=self.at,
            threshold=limit,
        )
        self.scores.append(score)
        return score

    def level(self, metric: str) -> Level:
        """`high`, `low` or `unknown` of the newest score of `metric`, by its verdict."""
        for score in reversed(self.scores):
            if score.metric == metric:
                return level_of(score.verdict)
        return "unknown"


def level_of(verdict: Verdict | None) -> Level:
    """A verdict as the diagnosis table reads it."""
    if verdict is None:
        return "unknown"
    return "high" if verdict == "pass" else "low"


def _status(result: Result) -> Status:
    if isinstance(result, Scored):
        return "scored"
    return "unscored" if isinstance(result, Unscored) else "not_applicable"


def _reason(result: Result) -> str:
    if isinstance(result, Scored):
        return result.note
    return f"{result.reason}: {result.note}" if result.note else result.reason


def _fingerprint(basis: Basis) -> str:
    return GOLD_FINGERPRINT if basis == "gold" else RULE_FINGERPRINT
