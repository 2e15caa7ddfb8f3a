"""Feedback from a file: a preview first, then the same call stores it."""

from __future__ import annotations

import hashlib
from datetime import UTC
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import ValidationError

from stagewatch.api.deps import Caller, ContextDep, Writer, note
from stagewatch.api.routes.feedback import FeedbackIn, accept_feedback
from stagewatch.api.routes.turns import json_response
from stagewatch.api.tickets import (
    Candidate,
    Ticket,
    match_ticket,
    parse_mapping,
    read_lines,
    read_tickets,
    same_question,
)
from stagewatch.core.codec import to_json
from stagewatch.core.errors import InvalidInputError, NotFoundError
from stagewatch.core.service import Context

router = APIRouter(tags=["feedback"])

MAX_BYTES = 16 * 1024 * 1024
_PREVIEWED = 200


@router.post("/feedback/import")
async def post_feedback_file(
    request: Request,
    context: ContextDep,
    caller: Writer,
    mapping: Annotated[str, Query(max_length=4000)],
    file_format: Annotated[Literal["csv", "jsonl"], Query(alias="format")] = "csv",
    source: Annotated[str, Query(min_length=1, max_length=100)] = "import",
    preview: bool = True,  # noqa: FBT001 - a query parameter
) -> Response:
    """Match every line of a file to a turn; with `preview=false` store it as feedback.

    `mapping` is JSON, target → column: trace_id, turn_id, question, at, kind, comment,
    corrected_answer, external_id; "=disputed" is a fixed value. A repeat stores nothing twice.
    """
    from anyio.to_thread import run_sync  # noqa: PLC0415 - only here is a body read by hand

    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BYTES:
            raise InvalidInputError(f"file larger than {MAX_BYTES >> 20} MiB: split it")
    return await run_sync(
        _import, context, caller, bytes(body), file_format, parse_mapping(mapping), source, preview
    )


def _import(
    context: Context,
    caller: Caller,
    body: bytes,
    kind: str,
    mapping: dict[str, str],
    source: str,
    preview: bool,  # noqa: FBT001 - positions are what run_sync passes
) -> Response:
    tickets = read_tickets(read_lines(body, kind), mapping)
    items = locate(context, caller.project, tickets)
    stored = 0
    if not preview:
        for ticket, item in zip(tickets, items, strict=True):
            if item["trace_id"] and not item["problem"]:
                item["problem"] = store_ticket(context, caller, ticket, item, source)
                stored += not item["problem"]
        note(context, caller, "feedback.import", source, stored=stored)
    usable = sum(not item["problem"] for item in items)
    told = {"lines": len(items), "usable": usable, "stored": stored, "preview": preview,
            "items": items[:_PREVIEWED]}  # fmt: skip
    return json_response(to_json(told))


def locate(context: Context, project: str, tickets: list[Ticket]) -> list[dict[str, Any]]:
    """What each ticket is about: trace and turn, or the problem that keeps it from being stored."""
    candidates = _candidates(context, project, tickets)
    return [_item(ticket, candidates) for ticket in tickets]


def _candidates(context: Context, project: str, tickets: list[Ticket]) -> list[Candidate]:
    """Turns whose question is one of the tickets', white space and case aside."""
    wanted = sorted({same_question(t.question) for t in tickets if t.question and not t.trace_id})
    if not wanted:
        return []
    rows = context.store.rows(
        """SELECT turn_id, trace_id, question, started_at FROM turns FINAL
           WHERE project = {project:String} AND replaced_by = ''
             AND trim(TRAILING ' ?!.' FROM replaceRegexpAll(lowerUTF8(question), '\\\\s+', ' '))
                 IN {wanted:Array(String)}""",
        {"project": project, "wanted": wanted},
    )
    return [
        Candidate(r["turn_id"], r["trace_id"], r["question"], r["started_at"].replace(tzinfo=UTC))
        for r in rows
    ]


def _item(ticket: Ticket, candidates: list[Candidate]) -> dict[str, Any]:
    item = {
        "line": ticket.number, "kind": ticket.kind, "trace_id": ticket.trace_id,
        "turn_id": ticket.turn_id, "problem": ticket.problem,
    }  # fmt: skip
    if ticket.problem or ticket.trace_id:
        return item
    found = match_ticket(ticket, candidates)
    if isinstance(found, str):
        return {**item, "problem": found}
    return {**item, "trace_id": found.trace_id, "turn_id": found.turn_id}


def store_ticket(
    context: Context, caller: Caller, ticket: Ticket, item: dict[str, Any], source: str
) -> str:
    """Store one ticket; "" or why it could not be."""
    content = to_json((ticket.trace_id, ticket.question, ticket.at, ticket.kind, ticket.comment,
                       ticket.corrected_answer))  # fmt: skip
    external = ticket.external_id or hashlib.sha256(content).hexdigest()[:32]
    try:
        sent = FeedbackIn(
            trace_id=item["trace_id"], kind=ticket.kind,  # type: ignore[arg-type] # checked when read
            turn_id=item["turn_id"] or None, comment=ticket.comment or None,
            corrected_answer=ticket.corrected_answer or None, source=source,
            external_id=external[:200],
        )  # fmt: skip
        accept_feedback(context, caller.project, caller.name, sent)
    except ValidationError as error:
        return f"{error.errors()[0]['loc'][0]} does not fit"
    except (InvalidInputError, NotFoundError) as error:
        return str(error)
    return ""
