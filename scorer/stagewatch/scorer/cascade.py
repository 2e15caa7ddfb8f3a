"""The first pass: the embedded judge reads every turn for nothing, and says of which it is unsure.

Unsure means its calibrated band of doubt (`judges.embedded`): a claim that is neither clearly
supported nor clearly absent, or a window that is neither clearly sufficient nor clearly not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from stagewatch.core.model import Message, Turn
from stagewatch.scorer.evaluate import Evaluation, ScoreConfig, evaluate_turn
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


class Doubting:
    """`judge`, remembering whether it was unsure of anything; one instance a turn."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.name = judge.name
        self.fingerprint = judge.fingerprint
        self.unsure = False

    def faithfulness(
        self, question: str, answer: str, window: Sequence[str]
    ) -> FaithfulnessReading | Unscored:
        """As the judge says."""
        found = self._judge.faithfulness(question, answer, window)
        if not isinstance(found, Unscored):
            self.unsure |= any(not claim.sure for claim in found.claims)
        return found

    def relevance(self, question: str, chunks: Sequence[str]) -> RelevanceReading | Unscored:
        """As the judge says."""
        return self._judge.relevance(question, chunks)

    def sufficiency(self, question: str, window: Sequence[str]) -> SufficiencyReading | Unscored:
        """As the judge says."""
        found = self._judge.sufficiency(question, window)
        if not isinstance(found, Unscored):
            self.unsure |= not found.sure
        return found

    def relevancy(self, question: str, answer: str) -> RelevancyReading | Unscored:
        """As the judge says; its doubt is not counted, since the embedded judge always has it."""
        return self._judge.relevancy(question, answer)

    def rewrite(
        self, history: Sequence[Message], question: str, rewritten: str, standalone: str | None
    ) -> RewriteReading | Unscored:
        """As the judge says."""
        return self._judge.rewrite(history, question, rewritten, standalone)

    def statements(
        self, statements: Sequence[str], passages: Sequence[str]
    ) -> tuple[ClaimReading, ...] | Unscored:
        """As the judge says."""
        return self._judge.statements(statements, passages)


@dataclass(frozen=True, slots=True)
class FirstReading:
    """What the embedded judge says of a turn. `failed` is None when a stage has no value."""

    evaluation: Evaluation
    failed: bool | None
    unsure: bool


def first_reading(
    turn: Turn,
    free: Judge,
    *,
    feedback_low: bool | None = None,
    config: ScoreConfig | None = None,
    at: datetime | None = None,
) -> FirstReading:
    """Have the embedded judge `free` read `turn`; the other arguments as of `evaluate_turn`."""
    judge = Doubting(free)
    found = evaluate_turn(turn, judge, feedback_low=feedback_low, config=config, at=at)
    failed = None if found.passed is None else not found.passed
    return FirstReading(found, failed, judge.unsure)
