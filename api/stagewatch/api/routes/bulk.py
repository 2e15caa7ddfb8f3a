"""Bulk promotion: every turn that a filter finds, shown first, then made rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from stagewatch.api.bulk import Candidate, candidates, counted
from stagewatch.api.checks import CLOCK_SLACK, Moment
from stagewatch.api.deps import Caller, ContextDep, Writer
from stagewatch.api.promote import Overrides
from stagewatch.api.routes.review import DatasetName
from stagewatch.api.routes.turns import json_response
from stagewatch.core.codec import to_json
from stagewatch.core.errors import InvalidInputError
from stagewatch.core.model import RowKind
from stagewatch.core.service import Context
from stagewatch.core.store.datasets import ensure_dataset, put_rows
from stagewatch.core.store.documents import audit
from stagewatch.core.store.feedback import Flag, flags_of, put_flags
from stagewatch.core.store.turns import TurnFilter, count_turns, full_turns

router = APIRouter(tags=["review"])

MOST = 500
"""Turns one call looks at: whole turns are read and copied into the rows."""
Word = Annotated[str, Field(max_length=500)]


class BulkIn(BaseModel):
    """Body of POST /promote: the filter of GET /turns, the dataset, and how many at most."""

    model_config = ConfigDict(extra="forbid")

    dataset: DatasetName
    limit: Annotated[int, Field(ge=1, le=MOST)] = 100
    dry_run: bool = False
    with_duplicates: bool = False
    kind: RowKind | None = None
    note: Annotated[str, Field(max_length=20_000)] | None = None
    tags: Annotated[list[str], Field(max_length=50)] = []

    since: Moment | None = None
    until: Moment | None = None
    service: Word | None = None
    release: Word | None = None
    index_version: Word | None = None
    flagged: bool | None = None
    diagnosis: Word | None = None
    metric: Word | None = None
    below: float | None = None
    q: Word | None = None
    conversation_id: Word | None = None
    chunk_id: Word | None = None
    probe: bool = False


_FILTER = (
    "since", "until", "service", "release", "index_version", "flagged", "diagnosis", "metric",
    "below", "q", "conversation_id", "chunk_id", "probe",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Bulk:
    """What a bulk promotion finds: `matched` turns, of which the newest were looked at."""

    dataset: str
    matched: int
    matched_exact: bool
    found: list[Candidate]

    def as_plain(self) -> dict[str, Any]:
        """The API's shape."""
        return {
            "dataset": self.dataset,
            "matched": self.matched,
            "matched_exact": self.matched_exact,
            "looked_at": len(self.found),
            **counted(self.found),
            "items": [item.as_plain() for item in self.found],
        }


def wanted_turns(sent: BulkIn, context: Context, project: str) -> TurnFilter:
    """The turns meant; like every list it ends at the present.

    Raises:
        InvalidInputError: `metric` without `below`, or the other way round.
    """
    if (sent.metric is None) != (sent.below is None):
        raise InvalidInputError("metric and below go together")
    chosen = {name: getattr(sent, name) for name in _FILTER}
    chosen["until"] = sent.until or context.clock.now() + CLOCK_SLACK
    return TurnFilter(project=project, **chosen)


def look(context: Context, project: str, by: str, sent: BulkIn) -> Bulk:
    """What the promotion would do; nothing is written."""
    wanted = wanted_turns(sent, context, project)
    matched, exact = count_turns(context.store, wanted)
    turns = full_turns(context.store, wanted, limit=sent.limit)
    chosen = Overrides(kind=sent.kind, note=sent.note, tags=tuple(sent.tags))
    found = candidates(
        context.store,
        project,
        sent.dataset,
        turns,
        by=by,
        chosen=chosen,
        with_duplicates=sent.with_duplicates,
    )
    return Bulk(sent.dataset, matched, exact, found)


@router.post("/promote")
def post_bulk(context: ContextDep, caller: Writer, sent: BulkIn) -> Response:
    """Promote every turn the filter finds, newest first; with `dry_run` only say what would come.

    Each item says its outcome: `promote`, `already` (its row is there), `retired` (its row was
    taken out by a person), `duplicate` (a row of its kind asks the same thing) or `no_question`.
    A repeat promotes nothing twice.
    """
    bulk = look(context, caller.project, caller.name, sent)
    if not sent.dry_run:
        _store(context, caller, sent, bulk)
    return json_response(to_json({"dry_run": sent.dry_run, **bulk.as_plain()}))


def _store(context: Context, caller: Caller, sent: BulkIn, bulk: Bulk) -> None:
    """Write the rows, close the flags of their turns, and leave one line in the audit log."""
    store, project, now = context.store, caller.project, context.clock.now()
    rows = [item.row for item in bulk.found if item.row]
    done = [i.turn.turn_id for i in bulk.found if i.outcome in {"promote", "already"}]
    if rows:
        ensure_dataset(store, project, sent.dataset, at=now)
        put_rows(store, project, rows, at=now)
    closed = [
        Flag(project, flag.turn_id, flag.reason, "promoted", now, by=caller.name)
        for flags in flags_of(store, done).values()
        for flag in flags
        if flag.state == "open"
    ]
    if closed:
        put_flags(store, closed)
    asked = sent.model_dump(mode="json", exclude={"dry_run", "q", "note"}, exclude_defaults=True)
    audit(
        store,
        project=project,
        by=caller.name,
        action="promote.bulk",
        subject=sent.dataset,
        at=now,
        detail={"asked": asked, "row_ids": [row.row_id for row in rows]},
    )
