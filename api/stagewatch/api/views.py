"""The JSON shapes of the HTTP contract, composed from stored parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stagewatch.api.scoring import scoring_words
from stagewatch.core.codec import to_json, to_plain
from stagewatch.core.model import Chunk, Claim, Decision, Diagnosis, Feedback, Score, Turn
from stagewatch.core.store.client import Store
from stagewatch.core.store.feedback import Flag, feedback_of_trace, flags_of
from stagewatch.core.store.scores import (
    Diagnosed,
    claims_of,
    decisions_of,
    diagnoses_of,
    scores_of,
)
from stagewatch.scorer.metrics.hygiene import superseded_flags


@dataclass(frozen=True, slots=True)
class TurnView:
    """A turn with everything known of it."""

    turn: Turn
    scores: list[Score]
    claims: list[Claim]
    diagnosis: Diagnosis | None
    passed: bool | None
    decision: Decision | None
    feedback: list[Feedback]
    flags: list[Flag]

    @property
    def scoring(self) -> str:
        """Why the turn was or was not scored, in words."""
        return scoring_words(self.decision, self.scores)

    def as_plain(self) -> dict[str, Any]:
        """The contract's JSON: the turn's fields on top, the rest beside them."""
        body: dict[str, Any] = to_plain(self.turn)
        body["scores"] = to_plain(self.scores)
        body["claims"] = to_plain(self.claims)
        body["diagnosis"] = to_plain(self.diagnosis) if self.diagnosis else None
        body["passed"] = self.passed
        body["decision"] = to_plain(self.decision) if self.decision else None
        body["scoring"] = self.scoring
        body["feedback"] = to_plain(self.feedback)
        body["flags"] = to_plain(self.flags)
        return body


def load_turn_view(store: Store, turn: Turn) -> TurnView:
    """Read what is stored beside a turn."""
    ids = [turn.turn_id]
    diagnosed = diagnoses_of(store, ids).get(turn.turn_id)
    said = feedback_of_trace(store, turn.project, turn.trace_id)
    return TurnView(
        turn=marked(turn, diagnosed),
        scores=scores_of(store, ids).get(turn.turn_id, []),
        claims=claims_of(store, turn.turn_id),
        diagnosis=diagnosed.diagnosis if diagnosed else None,
        passed=diagnosed.passed if diagnosed else None,
        decision=decisions_of(store, ids).get(turn.turn_id),
        feedback=[item for item in said if item.turn_id in {None, turn.turn_id}],
        flags=flags_of(store, ids).get(turn.turn_id, []),
    )


def marked(turn: Turn, diagnosed: Diagnosed | None) -> Turn:
    """The turn with `relevant` (the scorer's marks) and `superseded` filled in on its chunks."""
    everything = [chunk for retrieval in turn.retrievals for chunk in retrieval.chunks]
    relevance = _relevance(turn, diagnosed.relevance if diagnosed else ())

    def follow(chunks: Sequence[Chunk]) -> tuple[Chunk, ...]:
        old = superseded_flags(chunks, turn.started_at, among=everything)
        return tuple(
            replace(chunk, relevant=relevance.get(_key(chunk), chunk.relevant), superseded=flag)
            for chunk, flag in zip(chunks, old, strict=True)
        )

    return replace(
        turn,
        retrievals=tuple(replace(item, chunks=follow(item.chunks)) for item in turn.retrievals),
        reranked=follow(turn.reranked) if turn.reranked is not None else None,
        window=follow(turn.window),
    )


def _relevance(turn: Turn, marks: Sequence[int]) -> dict[tuple[str, str], bool]:
    """Chunk → relevant or not, from the marks of the first retrieved list; -1 is not judged."""
    if not turn.retrievals:
        return {}
    chunks = turn.retrievals[0].chunks
    pairs = zip(chunks, marks, strict=False)
    return {_key(chunk): bool(mark) for chunk, mark in pairs if mark >= 0}


def _key(chunk: Chunk) -> tuple[str, str]:
    return (chunk.chunk_id or "", chunk.content)


def summaries(store: Store, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Turn summaries with their scores, diagnosis and flags: one query each for the page."""
    ids = [row["turn_id"] for row in rows]
    scores = scores_of(store, ids)
    diagnoses = diagnoses_of(store, ids)
    flags = flags_of(store, ids)
    page = []
    for row in rows:
        turn_id = row["turn_id"]
        diagnosed = diagnoses.get(turn_id)
        item = {name: (value if value != "" else None) for name, value in row.items()}
        item["question"], item["answer"] = row["question"], row["answer"]
        item["scores"] = scores.get(turn_id, [])
        item["diagnosis"] = diagnosed.diagnosis if diagnosed else None
        item["passed"] = diagnosed.passed if diagnosed else None
        # A fingerprint begins with the judge's name.
        item["judge"] = diagnosed.fingerprint.partition("-")[0] if diagnosed else None
        item["flags"] = [f.reason for f in flags.get(turn_id, []) if f.state == "open"]
        page.append(item)
    return page


def page_json(
    items: Sequence[object],
    *,
    next_cursor: str | None = None,
    total: int | None = None,
    total_exact: bool = True,
    **more: object,
) -> bytes:
    """The list envelope of the contract; `more` stands beside it."""
    return to_json(
        {
            "items": items,
            "next_cursor": next_cursor,
            "total": len(items) if total is None else total,
            "total_exact": total_exact,
            **more,
        }
    )
