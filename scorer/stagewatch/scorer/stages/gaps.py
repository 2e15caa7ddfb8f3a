"""What the telemetry of a turn does not hold, as the reason a metric gives for having no value."""

from __future__ import annotations

from collections.abc import Sequence

from stagewatch.core.model import Chunk, Turn
from stagewatch.scorer.results import Unscored, UnscoredReason

_REASONS: dict[str, UnscoredReason] = {
    "not_captured": "not_captured",
    "truncated": "truncated",
    "redacted": "redacted",
    "dropped": "not_captured",
}


def missing_field(turn: Turn, *names: str) -> Unscored | None:
    """Unscored with the reason the assembler gave for the first of `names` (or a part of it)."""
    for item in turn.missing:
        if any(
            item.field == name or item.field.startswith((f"{name}.", f"{name}[")) for name in names
        ):
            return Unscored(_REASONS.get(item.why.replace(" ", "_"), "not_captured"), item.field)
    return None


def question_gap(turn: Turn) -> Unscored | None:
    """Why the question cannot be read, or None."""
    if turn.question and turn.question.strip():
        return None
    return missing_field(turn, "question") or Unscored("not_captured", "question")


def answer_gap(turn: Turn) -> Unscored | None:
    """Why the answer cannot be read, or None; an empty answer that was captured is no gap."""
    if turn.answer is None:
        return missing_field(turn, "answer") or Unscored("not_captured", "answer")
    return missing_field(turn, "answer")


def window_gap(turn: Turn) -> Unscored | None:
    """Why the window cannot be read, or None; a retrieval that found nothing is no gap."""
    if not turn.window and not turn.retrievals and turn.reranked is None:
        return missing_field(turn, "window", "retrievals") or Unscored("not_captured", "window")
    return content_gap(turn, turn.window)


def content_gap(turn: Turn, chunks: Sequence[Chunk]) -> Unscored | None:
    """Why some of `chunks` have no readable text, or None."""
    if all(chunk.content.strip() for chunk in chunks):
        cut = missing_field(turn, "window", "retrievals", "chunks")
        return cut if cut is not None and cut.reason in {"truncated", "redacted"} else None
    return missing_field(turn, "window", "retrievals", "chunks") or Unscored(
        "not_captured", "chunk content"
    )
