"""A judge that is asked only what the plan's metrics need: other questions would cost money."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from stagewatch.core.model import DatasetRow, Message
from stagewatch.scorer.judges.protocol import (
    ClaimReading,
    FaithfulnessReading,
    Judge,
    RelevanceReading,
    RelevancyReading,
    RewriteReading,
    SufficiencyReading,
)
from stagewatch.scorer.results import Unscored

TASK_METRICS: Mapping[str, frozenset[str]] = {
    "faithfulness": frozenset({"faithfulness", "answered_from_superseded", "refusal"}),
    "relevance": frozenset(
        {
            "retrieved_recall",
            "first_relevant_rank",
            "reciprocal_rank",
            "context_precision",
            "context_precision_at_k",
        }
    ),
    "sufficiency": frozenset({"context_sufficiency"}),
    "relevancy": frozenset({"answer_relevancy"}),
    "rewrite": frozenset({"rewrite_fidelity"}),
    "statements": frozenset({"answer_precision", "context_recall_claims"}),
}
"""The judge's tasks and the metrics that rest on each."""

_NOT_ASKED = Unscored("judge_abstained", "no metric of the plan needs it")


def tasks_of(metrics: Collection[str]) -> frozenset[str]:
    """The tasks that `metrics` need."""
    return frozenset(task for task, served in TASK_METRICS.items() if served & set(metrics))


def calls_of(row: DatasetRow, tasks: Collection[str]) -> int:
    """How many questions to the judge this row is likely to take (each may be batched or cached).

    A row with needs is marked by its labels; one with expected facts asks about them twice, of
    the window and of the answer.
    """
    gold = bool(row.needs) or row.kind == "unanswerable"
    calls = sum(task in tasks for task in ("faithfulness", "relevancy"))
    calls += 0 if gold else sum(task in tasks for task in ("relevance", "sufficiency"))
    calls += 2 if row.expected_output and "statements" in tasks else 0
    asks_rewrite = bool(row.history or row.standalone_question)
    return calls + (1 if asks_rewrite and "rewrite" in tasks else 0)


class SelectiveJudge:
    """`judge`, abstaining from every task that is not in `tasks`. Thread-safe as `judge` is."""

    def __init__(self, judge: Judge, tasks: Collection[str]) -> None:
        self._judge = judge
        self._tasks = frozenset(tasks)
        self.name = judge.name
        self.fingerprint = judge.fingerprint

    def faithfulness(
        self, question: str, answer: str, window: Sequence[str]
    ) -> FaithfulnessReading | Unscored:
        """As the judge says."""
        if "faithfulness" not in self._tasks:
            return _NOT_ASKED
        return self._judge.faithfulness(question, answer, window)

    def relevance(self, question: str, chunks: Sequence[str]) -> RelevanceReading | Unscored:
        """As the judge says."""
        if "relevance" not in self._tasks:
            return _NOT_ASKED
        return self._judge.relevance(question, chunks)

    def sufficiency(self, question: str, window: Sequence[str]) -> SufficiencyReading | Unscored:
        """As the judge says."""
        if "sufficiency" not in self._tasks:
            return _NOT_ASKED
        return self._judge.sufficiency(question, window)

    def relevancy(self, question: str, answer: str) -> RelevancyReading | Unscored:
        """As the judge says."""
        if "relevancy" not in self._tasks:
            return _NOT_ASKED
        return self._judge.relevancy(question, answer)

    def rewrite(
        self, history: Sequence[Message], question: str, rewritten: str, standalone: str | None
    ) -> RewriteReading | Unscored:
        """As the judge says."""
        if "rewrite" not in self._tasks:
            return _NOT_ASKED
        return self._judge.rewrite(history, question, rewritten, standalone)

    def statements(
        self, statements: Sequence[str], passages: Sequence[str]
    ) -> tuple[ClaimReading, ...] | Unscored:
        """As the judge says."""
        if "statements" not in self._tasks:
            return _NOT_ASKED
        return self._judge.statements(statements, passages)
