"""The default judge: rules over words, offline, deterministic, at no cost.

It sees whether an answer is made of what the window says, with numbers, units, dates, negation
and names checked exactly. It does not understand: a contradiction in other words, an inference
over two passages and irony are beyond it (docs/method.md has the measured limits).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from stagewatch.core.model import ClaimLabel, Message
from stagewatch.scorer.judges import guard
from stagewatch.scorer.judges.coverage import Coverage, measure_text
from stagewatch.scorer.judges.likeness import SHARE, likeness
from stagewatch.scorer.judges.protocol import (
    ClaimReading,
    FaithfulnessReading,
    RelevanceReading,
    RelevancyReading,
    RewriteReading,
    SufficiencyReading,
)
from stagewatch.scorer.judges.relevancy import read_relevancy
from stagewatch.scorer.judges.rewriting import read_rewrite
from stagewatch.scorer.judges.topic import Match, match_passages, read_topic
from stagewatch.scorer.judges.vectors import Vectors
from stagewatch.scorer.metrics.relevance import Mark
from stagewatch.scorer.results import Unscored
from stagewatch.scorer.text.claims import plain, read_answer
from stagewatch.scorer.text.passages import Passages, read_passages
from stagewatch.scorer.text.sentences import VERSION as SPLITTER

VERSION = "1"

_MIDPOINT, _SLOPE = 0.34, 10.0

_SURER = 0.5

SUPPORTED_AT = 0.5
"""Probability from which a claim is called SUPPORTED before the guard."""
UNSURE = (0.30, 0.62)
"""Abstain band of the probability: a configured judge is asked first here."""

RELEVANT_AT = 0.45
RELATIVE_TO_BEST = 0.6
"""A chunk must meet this share of the topic, and this share of what the best chunk meets."""

SUFFICIENT_AT = 0.62
SUFFICIENT_BY_VECTORS = 0.55
PARTIAL_AT = 0.40
_NO_VALUE = 0.75
"""Credit of a passage without the kind of value that the question asks for."""


class EmbeddedJudge:
    """See the module; safe from any thread.

    With `vectors` relevance and sufficiency also see passages that say it in other words;
    faithfulness is the same with and without: vectors do not tell a 14 from a 30.
    """

    name = "embedded"

    def __init__(self, vectors: Vectors | None = None) -> None:
        self._vectors = vectors
        self.fingerprint = f"embedded-{VERSION}/{SPLITTER}/{guard.VERSION}"
        if vectors is not None:
            self.fingerprint += f"/{vectors.fingerprint}"

    def faithfulness(
        self, question: str, answer: str, window: Sequence[str]
    ) -> FaithfulnessReading | Unscored:
        """Claims by clause; support by weighted word coverage of the best sentences."""
        del question
        reading = read_answer(answer)
        passages = read_passages(window)
        claims = tuple(
            _read_claim(span.text, span.start, span.end, span.judged, passages)
            for span in reading.claims
        )
        return FaithfulnessReading(claims, reading.refused)

    def relevance(self, question: str, chunks: Sequence[str]) -> RelevanceReading | Unscored:
        """A chunk is relevant when it speaks of enough of the question's subject."""
        passages = read_passages(chunks)
        matches = match_passages(read_topic(question, passages), passages)
        values = _mixed(self._alike(question, passages), [_meets(match) for match in matches])
        limit = max(RELEVANT_AT, RELATIVE_TO_BEST * max(values, default=0.0))
        marks: tuple[Mark, ...] = tuple(value >= limit for value in values)
        return RelevanceReading(marks, tuple(values))

    def sufficiency(self, question: str, window: Sequence[str]) -> SufficiencyReading | Unscored:
        """Three levels by how much of the question's subject one place of the window holds."""
        passages = read_passages(window)
        matches = match_passages(read_topic(question, passages), passages)
        if not matches:
            return SufficiencyReading("insufficient", 0.0)
        held = [match.sentences * (1.0 if match.answers else _NO_VALUE) for match in matches]
        alike = self._alike(question, passages)
        best = max(_mixed(alike, held))
        spoken = _mixed(alike, [match.sentences for match in matches])
        value = 0.75 * best + 0.25 * math.fsum(spoken) / len(spoken)
        enough = SUFFICIENT_AT if self._vectors is None else SUFFICIENT_BY_VECTORS
        sure = not PARTIAL_AT <= value < enough
        if value >= enough:
            return SufficiencyReading("sufficient", value, sure)
        level = "partial" if value >= PARTIAL_AT else "insufficient"
        return SufficiencyReading("partial" if level == "partial" else "insufficient", value, sure)

    def _alike(self, question: str, passages: Passages) -> list[float] | None:
        """How alike the passages are to the question by vectors; None without them."""
        if self._vectors is None or not passages.texts or not question.strip():
            return None
        return likeness(self._vectors, question, passages)

    def relevancy(self, question: str, answer: str) -> RelevancyReading | Unscored:
        """Rules with low confidence: the answer names the subject and gives the kind asked for."""
        return read_relevancy(question, answer)

    def rewrite(
        self, history: Sequence[Message], question: str, rewritten: str, standalone: str | None
    ) -> RewriteReading | Unscored:
        """Subject, numbers, names and negations kept, by rule."""
        return read_rewrite(history, question, rewritten, standalone)

    def statements(
        self, statements: Sequence[str], passages: Sequence[str]
    ) -> tuple[ClaimReading, ...] | Unscored:
        """Each statement as one claim; the guard has spoken, since nobody else will be asked."""
        read = read_passages(passages)
        return tuple(_read_claim(text, 0, len(text), plain(text), read) for text in statements)


def _mixed(alike: Sequence[float] | None, by_words: Sequence[float]) -> list[float]:
    if alike is None:
        return list(by_words)
    return [SHARE * a + (1 - SHARE) * b for a, b in zip(alike, by_words, strict=True)]


def _meets(match: Match) -> float:
    value = 0.5 * match.passage + 0.5 * match.sentences
    return value if match.answers else value * _NO_VALUE


def _read_claim(text: str, start: int, end: int, judged: str, passages: Passages) -> ClaimReading:
    found = measure_text(judged, passages)
    words, cover = found.words, found.coverage
    probability = support_probability(cover)
    label: ClaimLabel = "SUPPORTED" if probability >= SUPPORTED_AT else "ABSENT"
    if label == "ABSENT" and guard.check(words, passages, cover) is not None:
        # The guard speaks over SUPPORTED labels alone; here it only makes an absence surer.
        probability *= _SURER
    place = passages.sentences[cover.best[0]] if cover.best else None
    return ClaimReading(
        text=text,
        start=start,
        end=end,
        judged=judged,
        label=label,
        passage=place.passage if place is not None else None,
        evidence=place.words.text if place is not None else "",
        probability=probability,
        sure=not UNSURE[0] <= probability <= UNSURE[1],
    )


def supports(claim: str, passage: str) -> bool:
    """True when the passage alone carries the claim: words enough, and nothing for the guard."""
    passages = read_passages([passage])
    found = measure_text(plain(claim), passages)
    if support_probability(found.coverage) < SUPPORTED_AT:
        return False
    return guard.check(found.words, passages, found.coverage) is None


def support_score(cover: Coverage) -> float:
    """Weighted word coverage in [0, 1]: words, their neighbourhood, figures and names.

    The weights are round numbers on a wide plateau: on the labelled sets any mixture with most
    of its weight on the single sentence ranks within a point of this one (docs/method.md).
    """
    body = (
        0.50 * cover.sentence
        + 0.15 * cover.pair
        + 0.10 * cover.passage
        + 0.10 * cover.window
        + 0.15 * cover.order
    )
    return body * (0.5 + 0.2 * cover.figures + 0.3 * cover.names)


def support_probability(cover: Coverage) -> float:
    """`support_score` on a probability scale: logistic, one half at a score of 0.34."""
    return 1.0 / (1.0 + math.exp(-_SLOPE * (support_score(cover) - _MIDPOINT)))
