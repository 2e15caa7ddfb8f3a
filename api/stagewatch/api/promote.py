"""A dataset row from a turn, already filled in from scores, feedback and diagnosis. Pure.

A person promotes with one key and edits later, so every field gets the best guess there is, and
what cannot be guessed is left empty rather than made up.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from stagewatch.api.views import TurnView
from stagewatch.core.model import (
    TRAP_KINDS,
    Chunk,
    DatasetRow,
    Need,
    Passage,
    Provenance,
    RowKind,
    RowStatus,
    Stage,
    Turn,
)
from stagewatch.scorer.metrics.hygiene import compare_versions

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[^\s])")
_NAMESPACE = uuid.UUID("6f1d0c1e-5b0e-4d0a-9a3e-2f6f0d9b7a11")
_MAX_NEED_PASSAGES = 5


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the person said instead of the guess; None keeps the guess."""

    kind: RowKind | None = None
    failure: Stage | None = None
    needs: tuple[Need, ...] | None = None
    expected_output: tuple[str, ...] | None = None
    standalone_question: str | None = None
    note: str | None = None
    tags: tuple[str, ...] = ()


def row_id_of(dataset: str, turn_id: str) -> str:
    """The id of the row a turn becomes in a dataset: the same turn gives the same row."""
    return uuid.uuid5(_NAMESPACE, f"{dataset}/{turn_id}").hex


def all_chunks(turn: Turn) -> list[Chunk]:
    """Every distinct chunk of a turn: retrieved in rank order, then what only the window has."""
    found: dict[tuple[str, str], Chunk] = {}
    for retrieval in turn.retrievals:
        for chunk in retrieval.chunks:
            found.setdefault((chunk.chunk_id or "", chunk.content), chunk)
    for chunk in turn.window:
        found.setdefault((chunk.chunk_id or "", chunk.content), chunk)
    return list(found.values())


def suggest_kind(view: TurnView) -> RowKind:
    """The kind of trap this turn fell into, as far as the trace shows it.

    A superseded version in play → `stale_policy`; a bad rewrite → `rewrite`; a sibling passage of
    the right document ranked above the right one → `near_miss`; a refusal with an insufficient
    window → `unanswerable`; else `happy_path`.
    """
    stage = view.diagnosis.stage if view.diagnosis else "unknown"
    chunks = all_chunks(view.turn)
    disputed = any(item.kind in {"disputed", "corrected"} for item in view.feedback)
    if stage == "stale_source" or (
        disputed and any(chunk.superseded for chunk in view.turn.window)
    ):
        return "stale_policy"
    if stage == "rewrite":
        return "rewrite"
    if _sibling_above(chunks):
        return "near_miss"
    if view.turn.refused and _insufficient(view):
        return "unanswerable"
    return "happy_path"


_KIND_WHY: dict[RowKind, str] = {
    "stale_policy": "a superseded version of a source was in play",
    "rewrite": "the rewritten query lost or changed something",
    "near_miss": "a sibling passage of the right document stood above the right one",
    "unanswerable": "the window did not hold the answer, and the app declined",
    "happy_path": "nothing in the turn was a trap",
}


def kind_why(view: TurnView) -> str:
    """Why `suggest_kind` says what it says, for the person who may choose another."""
    kind = suggest_kind(view)
    stage = view.diagnosis.stage if view.diagnosis else "unknown"
    if kind == "happy_path" and stage in {"generation", "evasion"}:
        return (
            "an ordinary question: the right passage was there, the answer went wrong all the "
            "same, and the row checks that it stays right"
        )
    return _KIND_WHY[kind]


def _sibling_above(chunks: Sequence[Chunk]) -> bool:
    first = next((chunk for chunk in chunks if chunk.relevant and not chunk.superseded), None)
    if first is None or first.document_id is None:
        return False
    above = [chunk for chunk in chunks if chunk.rank < first.rank]
    return any(
        chunk.document_id == first.document_id and not chunk.relevant and not chunk.superseded
        for chunk in above
    )


def _insufficient(view: TurnView) -> bool:
    found = next((s for s in view.scores if s.metric == "context_sufficiency"), None)
    return found is not None and found.value is not None and found.value < 0.5


def suggest_failure(view: TurnView) -> Stage:
    """The diagnosed stage; a disputed turn whose stages all look well is `label_or_corpus`."""
    stage: Stage = view.diagnosis.stage if view.diagnosis else "unknown"
    disputed = any(item.kind in {"disputed", "corrected"} for item in view.feedback)
    return "label_or_corpus" if stage == "ok" and disputed else stage


def suggest_needs(view: TurnView) -> tuple[Need, ...]:
    """One need met by any current passage that was judged relevant; () when none was.

    For a stale answer the passage named is the newest version of the document seen in the turn.
    """
    chunks = all_chunks(view.turn)
    relevant = [chunk for chunk in chunks if chunk.relevant]
    current = [_newest(chunk, chunks) for chunk in relevant]
    passages: dict[Passage, None] = {}
    for chunk in current:
        if chunk.superseded:
            continue
        passage = Passage(chunk.chunk_id, chunk.document_id, chunk.version)
        if passage != Passage():
            passages.setdefault(passage, None)
    kept = tuple(passages)[:_MAX_NEED_PASSAGES]
    return (Need(kept),) if kept else ()


def _newest(chunk: Chunk, chunks: Sequence[Chunk]) -> Chunk:
    best = chunk
    for other in chunks:
        if not chunk.document_id or other.document_id != chunk.document_id:
            continue
        if best.version and other.version and compare_versions(best.version, other.version) == -1:
            best = other
    return best


def suggest_expected(view: TurnView) -> tuple[str, ...]:
    """The corrected answer's sentences as facts; () when nobody has corrected it."""
    for item in reversed(view.feedback):
        if item.corrected_answer:
            parts = _SENTENCE_END.split(item.corrected_answer.strip())
            return tuple(part.strip() for part in parts if part.strip())
    return ()


def build_row(
    view: TurnView,
    dataset: str,
    *,
    version: int,
    by: str,
    chosen: Overrides | None = None,
) -> DatasetRow:
    """The row this turn becomes. Trap kinds wait for a second person (`needs_review`)."""
    said = chosen or Overrides()
    turn = view.turn
    kind = said.kind or suggest_kind(view)
    status: RowStatus = "needs_review" if kind in TRAP_KINDS else "confirmed"
    return DatasetRow(
        row_id=row_id_of(dataset, turn.turn_id),
        dataset=dataset,
        version_added=version,
        kind=kind,
        failure=said.failure or suggest_failure(view),
        question=turn.question or "",
        history=turn.history,
        standalone_question=said.standalone_question or turn.rewritten_query,
        needs=said.needs if said.needs is not None else suggest_needs(view),
        expected_output=(
            said.expected_output if said.expected_output is not None else suggest_expected(view)
        ),
        status=status,
        tags=said.tags,
        provenance=Provenance(
            turn_id=turn.turn_id,
            trace_id=turn.trace_id,
            feedback=tuple(item.feedback_id for item in view.feedback),
            promoted_by=by,
            note=said.note,
        ),
        turn=turn,
    )
