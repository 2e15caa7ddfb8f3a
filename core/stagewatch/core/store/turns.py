"""Turns in the store: written by the assembler, read by scorer and API.

A turn's row is replaceable: the highest `revision` of a key wins. The key holds the minute the
turn started in, so when late spans move the start, the row under the old key is retired.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from stagewatch.core.clock import clamped
from stagewatch.core.codec import from_json, to_text
from stagewatch.core.errors import InvalidInputError
from stagewatch.core.model import Turn
from stagewatch.core.store.client import Store, query

TOTAL_CAP = 10_000
"""Totals of lists are counted up to here; beyond it they are said to be inexact."""


def _row(turn: Turn, assembled_at: datetime, revision: int, replaced_by: str) -> dict[str, Any]:
    chunks = [chunk for retrieval in turn.retrievals for chunk in retrieval.chunks]
    return {
        "project": turn.project,
        "turn_id": turn.turn_id,
        "trace_id": turn.trace_id,
        "started_at": turn.started_at,
        "duration_ms": turn.duration_ms,
        "service": turn.service,
        "environment": turn.environment or "",
        "release": turn.release or "",
        "index_version": turn.index_version or "",
        "prompt_version": turn.prompt_version or "",
        "model": turn.model or "",
        "conversation_id": turn.conversation_id or "",
        "turn_index": turn.turn_index,
        "user_id": turn.user_id or "",
        "question": turn.question or "",
        "rewritten_query": turn.rewritten_query or "",
        "answer": turn.answer or "",
        "refused": turn.refused,
        "error": turn.error or "",
        "tags": turn.tags,
        "chunk_ids": [chunk.chunk_id or "" for chunk in chunks],
        "document_ids": [chunk.document_id or "" for chunk in chunks],
        "versions": [chunk.version or "" for chunk in chunks],
        "input_tokens": turn.usage.input_tokens,
        "output_tokens": turn.usage.output_tokens,
        "cost_usd": turn.usage.cost_usd,
        "conventions": list(turn.conventions),
        "missing": [f"{item.field}: {item.why}" for item in turn.missing],
        "complete": turn.complete,
        "probe": turn.probe,
        "replaced_by": replaced_by,
        "assembled_at": assembled_at,
        "revision": revision,
        "body": to_text(turn),
    }


def put_turns(
    store: Store, turns: Sequence[Turn], *, assembled_at: datetime, revision: int
) -> None:
    """Store `turns`; rows of the same turn with a lower `revision` are replaced."""
    store.put("turns", [_row(turn, assembled_at, revision, "") for turn in turns])


def retire_turns(
    store: Store,
    turns: Sequence[Turn],
    *,
    replaced_by: str,
    assembled_at: datetime,
    revision: int,
) -> None:
    """Leave a tombstone for `turns` that late spans moved or split; reads skip them."""
    store.put("turns", [_row(turn, assembled_at, revision, replaced_by) for turn in turns])


def get_turn(store: Store, turn_id: str, project: str | None = None) -> Turn | None:
    """The newest revision of a turn, whatever its project unless one is given."""
    found = store.row(
        """SELECT body FROM turns WHERE turn_id = {turn_id:String}
           AND ({project:String} = '' OR project = {project:String}) AND replaced_by = ''
           ORDER BY revision DESC LIMIT 1""",
        {"turn_id": turn_id, "project": project or ""},
    )
    return from_json(Turn, found["body"]) if found else None


def turns_of_trace(store: Store, trace_id: str, project: str | None = None) -> list[Turn]:
    """The turns of a trace in the order they started."""
    found = store.rows(
        """SELECT body FROM (
             SELECT body, turn_id, started_at, replaced_by FROM turns
             WHERE trace_id = {trace_id:String}
               AND ({project:String} = '' OR project = {project:String})
             ORDER BY revision DESC LIMIT 1 BY turn_id)
           WHERE replaced_by = '' ORDER BY started_at, turn_id""",
        {"trace_id": trace_id, "project": project or ""},
    )
    return [from_json(Turn, row["body"]) for row in found]


def turns_of_conversation(
    store: Store, project: str, conversation_id: str, limit: int = 100
) -> list[Turn]:
    """The turns of a conversation in the order they started, at most `limit`."""
    found = store.rows(
        """SELECT body FROM turns FINAL
           WHERE project = {project:String} AND conversation_id = {id:String} AND replaced_by = ''
           ORDER BY started_at, turn_id LIMIT {limit:UInt32}""",
        {"project": project, "id": conversation_id, "limit": limit},
    )
    return [from_json(Turn, row["body"]) for row in found]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFilter:
    """What a list of turns is narrowed by; None or "" leaves a field open.

    `metric` with `below` keeps turns whose newest score of that metric is under the value.
    `q` is words that must all stand in the question or all in the answer, case-blind.
    """

    project: str = "default"
    since: datetime | None = None
    until: datetime | None = None
    service: str | None = None
    release: str | None = None
    index_version: str | None = None
    flagged: bool | None = None
    diagnosis: str | None = None
    metric: str | None = None
    below: float | None = None
    q: str | None = None
    conversation_id: str | None = None
    chunk_id: str | None = None
    probe: bool = False


TEXT_CUT = 500
"""Characters of question and answer in a list; a single one may be megabytes long."""

SUMMARY_COLUMNS = (
    "turn_id, trace_id, project, service, release, index_version, prompt_version, model, "
    "conversation_id, turn_index, started_at, duration_ms, "
    f"leftUTF8(question, {TEXT_CUT}) AS question_start, "
    f"lengthUTF8(question) > {TEXT_CUT} AS question_cut, "
    f"leftUTF8(answer, {TEXT_CUT}) AS answer_start, "
    f"lengthUTF8(answer) > {TEXT_CUT} AS answer_cut, "
    f"refused, leftUTF8(error, {TEXT_CUT}) AS error_start, "
    "complete, length(chunk_ids) AS chunk_count"
)

_FLAGGED = "(SELECT turn_id FROM flags FINAL WHERE project = {project:String} AND state = 'open')"
_DIAGNOSED = (
    "(SELECT turn_id FROM diagnoses FINAL WHERE project = {project:String} "
    "AND stage = {diagnosis:String})"
)
_BELOW = (
    "(SELECT turn_id FROM (SELECT turn_id, value FROM scores FINAL "
    "WHERE project = {project:String} AND metric = {metric:String} AND status = 'scored' "
    "ORDER BY revision DESC, stratum = 'first_pass', at DESC LIMIT 1 BY turn_id) "
    "WHERE value < {below:Float64} - 1e-9)"
)


def _where(wanted: TurnFilter) -> tuple[str, dict[str, Any]]:
    params: dict[str, Any] = {"project": wanted.project, "probe": wanted.probe}
    parts = ["project = {project:String}", "replaced_by = ''", "probe = {probe:Bool}"]
    for name in ("service", "release", "index_version", "conversation_id"):
        value = getattr(wanted, name)
        if value:
            parts.append(f"{name} = {{{name}:String}}")
            params[name] = value
    if wanted.since:
        parts.append("started_at >= {since:DateTime64(6, 'UTC')}")
        params["since"] = wanted.since.astimezone(UTC)
    if wanted.until:
        parts.append("started_at < {until:DateTime64(6, 'UTC')}")
        params["until"] = wanted.until.astimezone(UTC)
    if wanted.flagged is not None:
        parts.append(f"turn_id {'IN' if wanted.flagged else 'NOT IN'} {_FLAGGED}")
    if wanted.diagnosis:
        parts.append(f"turn_id IN {_DIAGNOSED}")
        params["diagnosis"] = wanted.diagnosis
    if wanted.metric and wanted.below is not None:
        parts.append(f"turn_id IN {_BELOW}")
        params |= {"metric": wanted.metric, "below": wanted.below}
    if wanted.chunk_id:
        parts.append("has(chunk_ids, {chunk_id:String})")
        params["chunk_id"] = wanted.chunk_id
    if wanted.q and wanted.q.strip():
        parts.append(
            "(hasAllTokens(lower(question), {q:String}) OR hasAllTokens(lower(answer), {q:String}))"
        )
        params["q"] = wanted.q.lower()
    return " AND ".join(parts), params


def encode_cursor(row: Mapping[str, Any]) -> str:
    """An opaque mark of where a page ended: the start time and id of its last turn."""
    at: datetime = row["started_at"]
    text = f"{at.replace(tzinfo=UTC).isoformat()}|{row['turn_id']}"
    return base64.urlsafe_b64encode(text.encode()).decode()


def decode_cursor(cursor: str) -> tuple[datetime, str]:
    """The start time and turn id inside a cursor.

    Raises:
        InvalidInputError: the cursor was not made by `encode_cursor`.
    """
    try:
        at, turn_id = base64.urlsafe_b64decode(cursor.encode()).decode().split("|", 1)
        return clamped(datetime.fromisoformat(at).replace(tzinfo=UTC)), turn_id
    except (ValueError, binascii.Error, UnicodeError):
        raise InvalidInputError("cursor: not one that this API gave out") from None


def list_turns(
    store: Store, wanted: TurnFilter, *, limit: int = 50, cursor: str | None = None
) -> tuple[list[dict[str, Any]], str | None]:
    """A page of turn summaries, newest first, and the cursor of the next page (None at the end).

    `question` and `answer` are cut to `TEXT_CUT` characters and an ellipsis, and `question_cut`
    and `answer_cut` say so.
    """
    where, params = _where(wanted)
    if cursor:
        at, turn_id = decode_cursor(cursor)
        where += (
            " AND (started_at, turn_id) < ({cursor_at:DateTime64(6, 'UTC')}, {cursor_id:String})"
        )
        params |= {"cursor_at": at, "cursor_id": turn_id}
    found = store.rows(
        f"SELECT {SUMMARY_COLUMNS} FROM turns FINAL WHERE {where} "
        "ORDER BY started_at DESC, turn_id DESC LIMIT {limit:UInt32}",
        {**params, "limit": limit + 1},
    )
    page = [_summary(row) for row in found[:limit]]
    return page, (encode_cursor(page[-1]) if len(found) > limit else None)


def _summary(row: Mapping[str, Any]) -> dict[str, Any]:
    item: dict[str, Any] = {}
    for name, value in row.items():
        if not name.endswith("_start"):
            item[name] = bool(value) if name.endswith("_cut") else value
            continue
        field = name.removesuffix("_start")
        item[field] = f"{value}…" if row.get(f"{field}_cut") else value
    return item


def question_starts(store: Store, turn_ids: Iterable[str], length: int = 60) -> dict[str, str]:
    """Turn id → the first `length` characters of its question; ids not there are left out."""
    ids = sorted(set(turn_ids))
    if not ids:
        return {}
    found = store.rows(
        """SELECT turn_id, leftUTF8(question, {length:UInt32} + 1) AS start FROM turns
           WHERE turn_id IN {ids:Array(String)} ORDER BY revision DESC LIMIT 1 BY turn_id""",
        {"ids": ids, "length": length},
    )
    return {
        row["turn_id"]: row["start"] if len(row["start"]) <= length else f"{row['start'][:length]}…"
        for row in found
    }


def number_of_turns(store: Store, wanted: TurnFilter) -> int:
    """How many turns match, counted to the end."""
    where, params = _where(wanted)
    return int(store.value(f"SELECT count() FROM turns FINAL WHERE {where}", params))


def count_turns(store: Store, wanted: TurnFilter) -> tuple[int, bool]:
    """How many turns match, counted up to `TOTAL_CAP`, and whether the number is exact."""
    where, params = _where(wanted)
    n = store.value(
        f"SELECT count() FROM (SELECT 1 FROM turns FINAL WHERE {where} LIMIT {TOTAL_CAP + 1})",
        params,
    )
    return min(int(n), TOTAL_CAP), int(n) <= TOTAL_CAP


def full_turns(store: Store, wanted: TurnFilter, *, limit: int = 1000) -> list[Turn]:
    """Whole turns that match, newest first; for scans such as corpus search and drift lists."""
    where, params = _where(wanted)
    found = store.rows(
        f"SELECT body FROM turns FINAL WHERE {where} "
        "ORDER BY started_at DESC, turn_id DESC LIMIT {limit:UInt32}",
        {**params, "limit": limit},
    )
    return [from_json(Turn, row["body"]) for row in found]


def turns_by_id(store: Store, turn_ids: Iterable[str]) -> dict[str, Turn]:
    """The newest revisions of these turns; ids that are not there are left out."""
    ids = list(turn_ids)
    if not ids:
        return {}
    found = store.rows(
        """SELECT turn_id, body, replaced_by FROM turns WHERE turn_id IN {ids:Array(String)}
           ORDER BY revision DESC LIMIT 1 BY turn_id""",
        {"ids": ids},
    )
    return {r["turn_id"]: from_json(Turn, r["body"]) for r in found if not r["replaced_by"]}


@dataclass(frozen=True, slots=True)
class Pending:
    """A finished turn that has no decision at its present revision."""

    turn: Turn
    revision: int
    assembled_at: datetime


@dataclass(frozen=True, slots=True)
class Share:
    """Which undecided turns are one scorer's: the `index`th of `count` by a hash of the turn id
    (not the sampling hash), but for those that a living scorer of `others` has in hand.

    `fresh` leaves out turns that wait already: their judge cannot be reached.
    """

    index: int = 0
    count: int = 1
    others: tuple[str, ...] = ()
    fresh: bool = False


def undecided_turns(
    store: Store,
    *,
    assembled_after: datetime,
    limit: int,
    now: datetime,
    share: Share | None = None,
    after: tuple[datetime, str] | None = None,
) -> list[Pending]:
    """Turns assembled after the given time without a decision at their revision, oldest first.

    Partitions are pruned by a start time at most 31 days before the watermark: late turns older
    than that are not eligible for live scoring. `after` is the (assembled_at, turn_id) of the
    last turn of the page before.
    """
    horizon = min(assembled_after, now) - timedelta(days=31)
    mine = share or Share()
    at, turn_id = after or (assembled_after, "")
    found = store.rows(
        query("undecided_turns"),
        {
            "after": max(assembled_after, at),
            "turn": turn_id,
            "horizon": horizon,
            "limit": limit,
            "index": mine.index,
            "count": mine.count,
            "others": list(mine.others),
            "settled": [] if mine.fresh else ["pending"],
        },
    )
    return [
        Pending(
            from_json(Turn, row["body"]),
            row["revision"],
            row["assembled_at"].replace(tzinfo=UTC),
        )
        for row in found
    ]


def oldest_undecided(store: Store) -> datetime | None:
    """From when on a scorer that starts must look: the earliest turn that still waits, or else
    the newest decision; None where there is no decision at all.
    """
    row = store.row(
        """SELECT count() AS n, minIf(started_at, outcome = 'pending') AS waiting,
                  countIf(outcome = 'pending') AS pending, max(at) AS newest
           FROM decisions FINAL"""
    )
    if row is None or not row["n"]:
        return None
    found: datetime = min(row["waiting"], row["newest"]) if row["pending"] else row["newest"]
    return found.replace(tzinfo=UTC)


def release_counts(store: Store, since: datetime) -> dict[tuple[str, str], int]:
    """(project, release) → turns started since then; turns without a release are left out."""
    found = store.rows(
        """SELECT project, release, uniqExact(turn_id) AS n FROM turns
           WHERE started_at >= {since:DateTime64(6, 'UTC')} AND release != '' AND replaced_by = ''
           GROUP BY project, release""",
        {"since": since},
    )
    return {(row["project"], row["release"]): int(row["n"]) for row in found}
