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
    """Unscored with the reason the assembler gave for the first of `names` (or a part of it).

    The query of a retrieval is no part of what it returned.
    """
    for item in turn.missing:
        if item.field.endswith("].query"):
            continue
        if any(
            item.field == name or item.field.startswith((f"{name}.", f"{name}[")) for name in names
        ):
            return Unscored(_reason(item.why), item.field)
    return None


def _reason(why: str) -> UnscoredReason:
    return _REASONS.get(why.replace(" ", "_"), "not_captured")


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
    """Why the window cannot be read, or None; a window known to be empty is no gap."""
    if turn.window:
        return content_gap(turn, turn.window, "window")
    if _known_empty(turn):
        return None
    return missing_field(turn, "window", "retrievals") or Unscored("not_captured", "window")


def _known_empty(turn: Turn) -> bool:
    """Whether the trace shows that the model was given no passage.

    The app said so (`window_source`), or every retrieval was seen to return nothing. An empty
    window beside a list that holds passages only means that nobody saw what was passed on.
    """
    if turn.window_source is not None:
        return True
    fetched = any(item.chunks for item in turn.retrievals) or bool(turn.reranked)
    return bool(turn.retrievals) and not fetched and lists_gap(turn) is None


def lists_gap(turn: Turn) -> Unscored | None:
    """Why a retrieved list that reads as empty may have held something, or None."""
    for at, item in enumerate(turn.retrievals):
        if item.chunks:
            continue
        for missing in turn.missing:
            if missing.field in {f"retrievals[{at}]", f"retrievals[{at}].chunks", "retrievals"}:
                return Unscored(_reason(missing.why), missing.field)
    return None


def content_gap(turn: Turn, chunks: Sequence[Chunk], *fields: str) -> Unscored | None:
    """Why some of `chunks` have no readable text, or None; `fields` are where they come from."""
    cut = missing_field(turn, *fields, "retrievals", "chunks")
    if all(chunk.content.strip() for chunk in chunks):
        return cut if cut is not None and cut.reason in {"truncated", "redacted"} else None
    return cut or Unscored("not_captured", "chunk content")
