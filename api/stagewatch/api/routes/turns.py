"""Turns and traces: lists, one whole turn, the spans behind it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response

from stagewatch.api.checks import CLOCK_SLACK, Moment
from stagewatch.api.deps import ContextDep, Reader
from stagewatch.api.views import load_turn_view, page_json, summaries
from stagewatch.core.auth import ANY_PROJECT
from stagewatch.core.codec import to_json, to_plain
from stagewatch.core.errors import InvalidInputError, NotFoundError
from stagewatch.core.model import SpanRow, Turn
from stagewatch.core.store.client import Store
from stagewatch.core.store.spans import trace_spans
from stagewatch.core.store.turns import (
    TurnFilter,
    count_turns,
    get_turn,
    list_turns,
    turns_of_trace,
)

router = APIRouter(tags=["turns"])

Limit = Annotated[int, Query(ge=1, le=500, description="Rows a page.")]


def json_response(body: bytes, status: int = 200) -> Response:
    """Bytes that are JSON already."""
    return Response(body, status, media_type="application/json")


@router.get("/turns")
def get_turns(
    context: ContextDep,
    caller: Reader,
    since: Moment | None = None,
    until: Moment | None = None,
    service: str | None = None,
    release: str | None = None,
    index_version: str | None = None,
    flagged: bool | None = None,  # noqa: FBT001 - a query parameter
    diagnosis: str | None = None,
    metric: str | None = None,
    below: float | None = None,
    q: Annotated[str | None, Query(max_length=500)] = None,
    conversation_id: str | None = None,
    chunk_id: str | None = None,
    probe: bool = False,  # noqa: FBT001 - a query parameter
    future: bool = False,  # noqa: FBT001 - a query parameter
    limit: Limit = 50,
    cursor: str | None = None,
) -> Response:
    """Turn summaries with their scores, newest first; `future_total` turns carry a time to come.

    Unless `until` or `future` says otherwise the list ends ten minutes from now. Question and
    answer are cut to 500 characters, and `question_cut` and `answer_cut` say so.
    """
    if (metric is None) != (below is None):
        raise InvalidInputError("metric and below go together: metric=faithfulness&below=0.7")
    asked = TurnFilter(
        project=caller.project,
        since=since,
        until=until,
        service=service,
        release=release,
        index_version=index_version,
        flagged=flagged,
        diagnosis=diagnosis,
        metric=metric,
        below=below,
        q=q,
        conversation_id=conversation_id,
        chunk_id=chunk_id,
        probe=probe,
    )
    wanted, ahead = split_future(asked, context.clock.now(), future=future)
    rows, following = list_turns(context.store, wanted, limit=limit, cursor=cursor)
    total, exact = count_turns(context.store, wanted)
    items = summaries(context.store, rows)
    body = page_json(
        items,
        next_cursor=following,
        total=total,
        total_exact=exact,
        future_total=count_turns(context.store, ahead)[0],
    )
    return json_response(body)


def split_future(
    asked: TurnFilter, now: datetime, *, future: bool
) -> tuple[TurnFilter, TurnFilter]:
    """(what to list, the turns among it that carry a time in the future).

    A list without an end of its own ends at `now` and the clocks' slack; with `future` it holds
    only what lies beyond.
    """
    edge = now + CLOCK_SLACK
    ahead = replace(asked, since=max(asked.since or edge, edge))
    if future:
        return ahead, ahead
    return (asked if asked.until else replace(asked, until=edge)), ahead


def find_turn(store: Store, turn_id: str, project: str, *, any_project: bool = False) -> Turn:
    """The turn, if the caller's project holds it.

    Raises:
        NotFoundError: no such turn in this project; a turn of another project looks the same.
    """
    turn = get_turn(store, turn_id, None if any_project else project)
    if turn is None:
        raise NotFoundError("no turn with this id (not assembled yet, expired, or another project)")
    return turn


@router.get("/turns/{turn_id}")
def get_one_turn(context: ContextDep, caller: Reader, turn_id: str) -> Response:
    """The whole turn with scores, claims, diagnosis, decision, feedback and flags."""
    anywhere = caller.principal.project == ANY_PROJECT
    turn = find_turn(context.store, turn_id, caller.project, any_project=anywhere)
    return json_response(to_json(load_turn_view(context.store, turn).as_plain()))


def tree_order(spans: list[SpanRow]) -> list[tuple[int, SpanRow]]:
    """(depth, span) in tree order: roots and spans without a known parent first, by start time.

    Cycles and self-parents cannot loop: a span is listed once, what is left over comes last.
    """
    known = {span.span_id for span in spans}
    children: dict[str, list[SpanRow]] = {}
    for span in sorted(spans, key=lambda s: (s.start_ns, s.span_id)):
        orphan = span.parent_id not in known or span.parent_id == span.span_id
        children.setdefault("" if orphan else span.parent_id, []).append(span)
    ordered: list[tuple[int, SpanRow]] = []
    seen: set[str] = set()
    stack = [(0, span) for span in reversed(children.get("", []))]
    while stack:
        depth, span = stack.pop()
        if span.span_id in seen:
            continue
        seen.add(span.span_id)
        ordered.append((depth, span))
        stack += [(depth + 1, child) for child in reversed(children.get(span.span_id, []))]
    return ordered + [(0, span) for span in spans if span.span_id not in seen]


def span_json(depth: int, span: SpanRow) -> dict[str, Any]:
    """A span as the API shows it."""
    body: dict[str, Any] = to_plain(span)
    body["depth"] = depth
    body["duration_ms"] = max(0, span.end_ns - span.start_ns) / 1e6
    return body


@router.get("/traces/{trace_id}")
def get_trace(context: ContextDep, caller: Reader, trace_id: str) -> Response:
    """The spans of a trace in tree order, and its turns."""
    spans = trace_spans(context.store, caller.project, trace_id)
    turns = turns_of_trace(context.store, trace_id, caller.project)
    if not spans and not turns:
        raise NotFoundError("no trace with this id in this project")
    body = {
        "trace_id": trace_id,
        "spans": [span_json(depth, span) for depth, span in tree_order(spans)],
        "turns": [load_turn_view(context.store, turn).as_plain() for turn in turns],
    }
    return json_response(to_json(body))
