"""What is odd about a dataset, what it covers, and what changed between two versions."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response

from stagewatch.api.deps import ContextDep, Reader
from stagewatch.api.likeness import Live, coverage_of, duplicate_pairs
from stagewatch.api.routes.datasets import read_rows
from stagewatch.api.routes.turns import json_response
from stagewatch.api.rows import check_row
from stagewatch.api.views import page_json
from stagewatch.core.codec import to_json, to_plain
from stagewatch.core.model import DatasetRow, Passage
from stagewatch.core.store.client import Store
from stagewatch.core.store.passages import search_passages

router = APIRouter(tags=["datasets"])

Days = Annotated[int, Query(ge=1, le=365)]
_LIVE_QUESTIONS = 2000


def unseen_needs(store: Store, project: str, rows: list[DatasetRow]) -> dict[str, list[str]]:
    """Row id → passages its needs name that no turn in the store has ever fetched.

    A need named by document alone is looked up by document and version.
    """
    passages = {p for row in rows for need in row.needs for p in need.any_of}
    ids = sorted({p.chunk_id for p in passages if p.chunk_id})
    documents = sorted({p.document_id for p in passages if p.document_id and not p.chunk_id})
    seen_ids = _seen(store, project, "chunk_ids", ids)
    seen_documents = _seen(store, project, "document_ids", documents)

    def unseen(passage: Passage) -> bool:
        if passage.chunk_id:
            return passage.chunk_id not in seen_ids
        return bool(passage.document_id) and passage.document_id not in seen_documents

    found: dict[str, list[str]] = {}
    for row in rows:
        named = [
            p.chunk_id or p.document_id or ""
            for need in row.needs
            for p in need.any_of
            if unseen(p)
        ]
        if named:
            found[row.row_id] = named
    return found


def _seen(store: Store, project: str, column: str, wanted: list[str]) -> set[str]:
    if not wanted:
        return set()
    rows = store.rows(
        f"""SELECT DISTINCT arrayJoin(arrayIntersect({column}, {{wanted:Array(String)}})) AS id
            FROM turns WHERE project = {{project:String}}
              AND hasAny({column}, {{wanted:Array(String)}})""",
        {"project": project, "wanted": wanted},
    )
    return {row["id"] for row in rows}


def check_dataset(store: Store, project: str, rows: list[DatasetRow]) -> dict[str, Any]:
    """What is odd about each row, and pairs of rows that ask the same thing."""
    unseen = unseen_needs(store, project, rows)
    items: list[dict[str, Any]] = []
    for row in rows:
        said = check_row(row)
        if row.row_id in unseen:
            said.append(
                f"needs name passages never seen in traffic: {', '.join(unseen[row.row_id])}"
            )
        if said:
            items.append({"row_id": row.row_id, "kind": row.kind, "question": row.question,
                          "warnings": said})  # fmt: skip
    return {"items": items, "total": len(items), "rows": len(rows),
            "duplicates": duplicate_pairs(rows)}  # fmt: skip


@router.get("/datasets/{name}/check")
def get_check(
    context: ContextDep, caller: Reader, name: str, version: int | None = None
) -> Response:
    """What is odd about each row, passages no turn has fetched, and near-duplicates."""
    rows = read_rows(context, caller, name, version)
    return json_response(to_json(check_dataset(context.store, caller.project, rows)))


def live_questions(store: Store, project: str, since: datetime) -> list[Live]:
    """What people asked since then, most asked first, at most 2000 different questions."""
    found = store.rows(
        """SELECT question, any(turn_id) AS example, uniqExact(turn_id) AS times FROM turns FINAL
           WHERE project = {project:String} AND question != '' AND replaced_by = '' AND NOT probe
             AND started_at >= {since:DateTime64(3, 'UTC')}
           GROUP BY question ORDER BY times DESC, question LIMIT {limit:UInt32}""",
        {"project": project, "since": since, "limit": _LIVE_QUESTIONS},
    )
    return [Live(row["question"], row["example"], row["times"]) for row in found]


@router.get("/datasets/{name}/coverage")
def get_coverage(
    context: ContextDep, caller: Reader, name: str, version: int | None = None, days: Days = 7
) -> Response:
    """What people asked in the last days, by kind of the nearest row, and what no row is about."""
    rows = read_rows(context, caller, name, version)
    since = context.clock.now() - timedelta(days=days)
    live = live_questions(context.store, caller.project, since)
    return json_response(to_json(coverage_of(live, rows)))


@router.get("/datasets/{name}/diff")
def get_version_diff(
    context: ContextDep, caller: Reader, name: str, old: int, new: int | None = None
) -> Response:
    """Rows added, removed and changed from version `old` to `new` (default: the working copy)."""
    before = {row.row_id: row for row in read_rows(context, caller, name, old)}
    after = {row.row_id: row for row in read_rows(context, caller, name, new)}
    items = [
        change
        for row_id in sorted(before.keys() | after.keys())
        if (change := _change(row_id, before.get(row_id), after.get(row_id))) is not None
    ]
    return json_response(page_json(items))


def _change(row_id: str, old: DatasetRow | None, new: DatasetRow | None) -> dict[str, Any] | None:
    row = new or old
    if row is None or old == new:
        return None
    what = "added" if old is None else "removed" if new is None else "changed"
    fields: list[str] = []
    if old is not None and new is not None:
        a, b = to_plain(old), to_plain(new)
        fields = sorted(key for key in b if a[key] != b[key])
    return {"row_id": row_id, "what": what, "kind": row.kind, "question": row.question,
            "fields": fields}  # fmt: skip


@router.get("/passages")
def get_passages(
    context: ContextDep,
    caller: Reader,
    q: Annotated[str, Query(min_length=2, max_length=500, description="Words of the passage.")],
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> Response:
    """Passages seen in traffic that hold all the words: for needs that a turn never fetched."""
    return json_response(page_json(search_passages(context.store, caller.project, q, limit=limit)))
