"""What operators ask for: the audit trail, and events as they happen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

from anyio.to_thread import run_sync
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response, StreamingResponse

from stagewatch.api.deps import Admin, ContextDep, Reader
from stagewatch.api.routes.turns import json_response
from stagewatch.api.views import page_json
from stagewatch.core.codec import to_json
from stagewatch.core.store.client import Store

router = APIRouter(tags=["operations"])

_EVENT_SECONDS = 2.0


@router.get("/audit")
def get_audit(
    context: ContextDep,
    caller: Admin,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """Who did what, newest first."""
    rows = context.store.rows(
        """SELECT at, by, action, subject, detail FROM audit
           WHERE project = {project:String} ORDER BY at DESC LIMIT {limit:UInt32}""",
        {"project": caller.project, "limit": limit},
    )
    return json_response(page_json(rows))


def _counts(store: Store, project: str) -> dict[str, int]:
    row = store.row(
        """SELECT (SELECT count() FROM turns WHERE project = {project:String}) AS turns,
                  (SELECT uniqExact(turn_id) FROM decisions
                   WHERE project = {project:String} AND outcome = 'scored') AS scored,
                  (SELECT uniqExact(turn_id) FROM flags FINAL
                   WHERE project = {project:String} AND state = 'open') AS flagged""",
        {"project": project},
    )
    return {name: int(value) for name, value in (row or {}).items()}


@router.get("/events")
async def get_events(request: Request, context: ContextDep, caller: Reader) -> Response:
    """Server-sent events: counts of turns, scored and flagged, whenever they change."""

    async def stream() -> AsyncIterator[bytes]:
        last: dict[str, int] = {}
        while not await request.is_disconnected():
            now = await run_sync(_counts, context.store, caller.project)
            if now != last:
                last = now
                yield b"event: counts\ndata: " + to_json(now) + b"\n\n"
            else:
                yield b": still here\n\n"
            await asyncio.sleep(_EVENT_SECONDS)

    return StreamingResponse(stream(), media_type="text/event-stream")
