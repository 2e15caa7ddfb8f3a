"""The answer of one turn: its claims against the window, then against question and expectation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stagewatch.core.model import Claim, ClaimLabel, Turn
from stagewatch.scorer.judges.embedded import supports
from stagewatch.scorer.judges.guard import Finding, check_text
from stagewatch.scorer.judges.protocol import ClaimReading, Judge
from stagewatch.scorer.metrics.answer import answer_precision, answer_relevancy
from stagewatch.scorer.metrics.faithfulness import faithfulness
from stagewatch.scorer.metrics.hygiene import (
    answered_from_superseded,
    stale_context,
    version_conflict,
)
from stagewatch.scorer.metrics.recall import context_recall_claims
from stagewatch.scorer.results import NotApplicable, Unscored
from stagewatch.scorer.stages.book import Book
from stagewatch.scorer.stages.gaps import answer_gap, window_gap
from stagewatch.scorer.text.passages import read_passages


@dataclass(frozen=True, slots=True)
class GenerationOutcome:
    """Claims after the guard, and whether the answer refused; `refused` None when unread."""

    claims: tuple[Claim, ...] = ()
    refused: bool | None = None


def score_answer(
    turn: Turn, question: str, judge: Judge, book: Book, *, unanswerable: bool
) -> GenerationOutcome:
    """Faithfulness with its claims, and relevancy."""
    gap = answer_gap(turn)
    if gap is not None:
        book.add("faithfulness", gap, "judge")
        book.add("answer_relevancy", gap, "judge")
        return GenerationOutcome()
    answer = turn.answer or ""
    if not answer.strip():
        book.add("faithfulness", NotApplicable("empty_answer"), "judge")
        book.add("answer_relevancy", NotApplicable("empty_answer"), "judge")
        return GenerationOutcome()
    outcome = _score_faithfulness(turn, question, judge, book, unanswerable=unanswerable)
    if outcome.refused:
        book.add("answer_relevancy", NotApplicable("refusal"), "judge")
        return outcome
    reading = judge.relevancy(question, answer)
    if isinstance(reading, Unscored):
        book.add("answer_relevancy", reading, "judge")
    else:
        note = "" if reading.sure else "by rule, low confidence"
        book.add(
            "answer_relevancy", answer_relevancy(reading.asked, reading.addressed), "judge",
            note=note,
        )  # fmt: skip
    return outcome


def _score_faithfulness(
    turn: Turn, question: str, judge: Judge, book: Book, *, unanswerable: bool
) -> GenerationOutcome:
    gap = window_gap(turn)
    if gap is not None:
        book.add("faithfulness", gap, "judge")
        return GenerationOutcome(refused=turn.refused)
    texts = [chunk.content for chunk in turn.window]
    reading = judge.faithfulness(question, turn.answer or "", texts)
    if isinstance(reading, Unscored):
        book.add("faithfulness", reading, "judge")
        return GenerationOutcome(refused=turn.refused)
    claims = tuple(guarded(reading.claims, texts))
    refused = reading.refused or (turn.refused is True and not claims)
    labels: list[ClaimLabel] = [claim.label for claim in claims]
    result = faithfulness(labels, refused=refused, unanswerable=unanswerable)
    book.add("faithfulness", result, "judge")
    return GenerationOutcome(claims, refused)


def guarded(readings: Sequence[ClaimReading], window: Sequence[str]) -> list[Claim]:
    """Claims with the guard's word over every SUPPORTED label."""
    passages = read_passages(window)
    claims = []
    for reading in readings:
        finding = check_text(reading.judged, passages) if reading.label == "SUPPORTED" else None
        place = reading.passage
        evidence = reading.evidence
        if finding is not None and finding.sentence is not None:
            sentence = passages.sentences[finding.sentence]
            place, evidence = sentence.passage, sentence.words.text
        claims.append(_claim(reading, finding, place, evidence))
    return claims


def _claim(
    reading: ClaimReading, finding: Finding | None, place: int | None, evidence: str
) -> Claim:
    return Claim(
        text=reading.text,
        start=reading.start,
        end=reading.end,
        label=finding.label if finding is not None else reading.label,
        judge_label=reading.label,
        guard=f"{finding.kind}: {finding.reason}" if finding is not None else None,
        disputed=finding is not None and finding.disputed,
        chunk_rank=place + 1 if place is not None else None,
        evidence=evidence,
        probability=_after_guard(reading, finding),
    )


_GUARD_FACTOR: dict[ClaimLabel, float] = {"CONTRADICTED": 0.02, "ABSENT": 0.5, "SUPPORTED": 1.0}


def _after_guard(reading: ClaimReading, finding: Finding | None) -> float | None:
    """The probability of SUPPORTED once the guard has spoken."""
    if reading.probability is None or finding is None:
        return reading.probability
    return reading.probability * _GUARD_FACTOR[finding.label]


def score_hygiene(
    turn: Turn, claims: Sequence[Claim], superseded: Sequence[bool], book: Book
) -> None:
    """The three index rules over the window."""
    gap = window_gap(turn)
    if gap is not None and not turn.window:
        for metric in ("version_conflict", "stale_context", "answered_from_superseded"):
            book.add(metric, gap, "rule")
        return
    book.add("version_conflict", version_conflict(turn.window), "rule")
    book.add("stale_context", stale_context(superseded), "rule")
    supported = [claim for claim in claims if claim.label == "SUPPORTED"]
    # Which other chunks hold a claim only matters when one of them is old.
    positions = [_positions(turn, claim) for claim in supported] if any(superseded) else []
    book.add("answered_from_superseded", answered_from_superseded(positions, superseded), "rule")


def _positions(turn: Turn, claim: Claim) -> list[int]:
    """Window positions of all chunks that hold the claim; the judge's evidence when none does."""
    found = [
        position
        for position, chunk in enumerate(turn.window, start=1)
        if supports(claim.text, chunk.content)
    ]
    return found or ([claim.chunk_rank] if claim.chunk_rank is not None else [])


def score_expectation(turn: Turn, expected: Sequence[str], judge: Judge, book: Book) -> None:
    """The expected facts against the answer, and against the window."""
    if not expected:
        return
    window = window_gap(turn)
    if window is not None:
        book.add("context_recall_claims", window, "judge")
    else:
        held = _labels(judge, expected, [chunk.content for chunk in turn.window])
        result = held if isinstance(held, Unscored) else context_recall_claims(held)
        # The needs of the row decide recall where it has some; this shows which facts were there.
        decides = not any(score.metric == "context_recall" for score in book.scores)
        book.add("context_recall_claims", result, "judge", decides=decides)
    gap = answer_gap(turn)
    if gap is not None:
        book.add("answer_precision", gap, "judge")
        return
    stated = _labels(judge, expected, [turn.answer or ""])
    result = stated if isinstance(stated, Unscored) else answer_precision(stated)
    book.add("answer_precision", result, "judge")


def _labels(
    judge: Judge, statements: Sequence[str], passages: Sequence[str]
) -> list[ClaimLabel] | Unscored:
    texts = [text for text in passages if text.strip()]
    if not texts:
        return ["ABSENT" for _ in statements]
    readings = judge.statements(statements, texts)
    if isinstance(readings, Unscored):
        return readings
    return [claim.label for claim in guarded(readings, texts)]
