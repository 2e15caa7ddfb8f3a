"""What every judge can be asked. A judge that cannot answer returns `Unscored`, never a guess.

Positions are indexes from 0 into the lists the caller passed; probabilities are in [0, 1] and
None where a judge has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from stagewatch.core.model import ClaimLabel, Message
from stagewatch.scorer.metrics.relevance import Mark
from stagewatch.scorer.metrics.rewrite import ConstraintState
from stagewatch.scorer.metrics.sufficiency import SufficiencyLevel
from stagewatch.scorer.results import Unscored


@dataclass(frozen=True, slots=True)
class ClaimReading:
    """One claim of an answer (`text` is `answer[start:end]`), its label and what shows it.

    `judged` is the statement the label is about: `text` without bullets and tone words, or the
    judge's own wording. `passage` is the index of the evidence, `sure` False in the abstain band.
    """

    text: str
    start: int
    end: int
    judged: str
    label: ClaimLabel
    passage: int | None = None
    evidence: str = ""
    probability: float | None = None
    sure: bool = True


@dataclass(frozen=True, slots=True)
class FaithfulnessReading:
    """The claims of an answer. A plain refusal has none and sets `refused`."""

    claims: tuple[ClaimReading, ...]
    refused: bool


@dataclass(frozen=True, slots=True)
class RelevanceReading:
    """One mark a chunk, in the order given; None is a chunk the judge left out."""

    marks: tuple[Mark, ...]
    probabilities: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class SufficiencyReading:
    """Whether the window holds what the question needs; `probability` is that of sufficient."""

    level: SufficiencyLevel
    probability: float | None = None
    sure: bool = True


@dataclass(frozen=True, slots=True)
class RelevancyReading:
    """How many things were asked, how many of them the answer addresses."""

    asked: int
    addressed: int
    probability: float | None = None
    sure: bool = True


@dataclass(frozen=True, slots=True)
class Constraint:
    """One thing the conversation asked for and what the rewritten query did with it."""

    text: str
    state: ConstraintState


@dataclass(frozen=True, slots=True)
class RewriteReading:
    """The constraints of the conversation; `hints` are for a person and decide nothing."""

    constraints: tuple[Constraint, ...]
    hints: tuple[str, ...] = ()


class Judge(Protocol):
    """Reads texts and labels them. Implementations are safe to call from several threads."""

    @property
    def name(self) -> str:
        """Short name shown beside every score: `embedded`, `openai`."""
        ...

    @property
    def fingerprint(self) -> str:
        """Everything that can change a label: name, version, model, prompts, parameters, parser,
        sentence splitter, guard. Two fingerprints never share a series.
        """
        ...

    def faithfulness(
        self, question: str, answer: str, window: Sequence[str]
    ) -> FaithfulnessReading | Unscored:
        """Label every claim of `answer` against `window` alone, before the guard."""
        ...

    def relevance(self, question: str, chunks: Sequence[str]) -> RelevanceReading | Unscored:
        """Mark every chunk relevant to `question` or not."""
        ...

    def sufficiency(self, question: str, window: Sequence[str]) -> SufficiencyReading | Unscored:
        """Whether `window` holds everything needed to answer `question`."""
        ...

    def relevancy(self, question: str, answer: str) -> RelevancyReading | Unscored:
        """How much of what was asked `answer` addresses, right or wrong."""
        ...

    def rewrite(
        self, history: Sequence[Message], question: str, rewritten: str, standalone: str | None
    ) -> RewriteReading | Unscored:
        """What the rewritten query kept; `standalone` is the gold rewrite where a row has one."""
        ...

    def statements(
        self, statements: Sequence[str], passages: Sequence[str]
    ) -> tuple[ClaimReading, ...] | Unscored:
        """Label whole statements (expected facts) against passages; start and end are 0, len."""
        ...
