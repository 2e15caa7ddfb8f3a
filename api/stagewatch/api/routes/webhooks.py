"""Feedback by webhook: no key, a signature instead; sources are made by an administrator."""

from __future__ import annotations

import secrets
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from stagewatch.api.deps import Admin, Caller, ContextDep, note
from stagewatch.api.hooks import (
    SIGNATURE_HEADER,
    Hook,
    check_mapping,
    check_signature,
    ticket_of,
)
from stagewatch.api.routes.feedback_import import locate, store_ticket
from stagewatch.api.routes.turns import json_response
from stagewatch.api.views import page_json
from stagewatch.core.auth import Principal
from stagewatch.core.clock import rfc3339
from stagewatch.core.codec import from_plain, to_json, to_plain
from stagewatch.core.errors import InvalidInputError, NotFoundError, UnauthorizedError
from stagewatch.core.service import Context
from stagewatch.core.store.documents import (
    delete_document,
    get_document,
    list_documents,
    put_document,
)
from stagewatch.core.store.feedback import find_feedback

router = APIRouter(tags=["feedback"])

MAX_BYTES = 1024 * 1024
COLLECTION = "webhooks"
Source = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
Project = Annotated[str, Query(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]


class HookIn(BaseModel):
    """Body of PUT /feedback/webhooks/{source}."""

    model_config = ConfigDict(extra="forbid")

    mapping: dict[str, Annotated[str, Field(min_length=1, max_length=500)]]
    header: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,80}$")] = SIGNATURE_HEADER


@router.put("/feedback/webhooks/{source}", status_code=201)
def put_hook(context: ContextDep, caller: Admin, source: Source, sent: HookIn) -> Response:
    """Make a source, or give it a new secret and mapping; the secret is shown this once.

    `mapping` is target → JSON path (`$.ticket.id`), or "=disputed" for a fixed value. Targets are
    those of the file import; external_id is needed.
    """
    check_mapping(sent.mapping)
    now = context.clock.now()
    hook = Hook(
        source,
        secrets.token_urlsafe(32),
        sent.header.lower(),
        dict(sent.mapping),
        caller.name,
        rfc3339(now),
    )
    put_document(context.store, COLLECTION, source, to_plain(hook), at=now, project=caller.project)
    note(context, caller, "webhook.create", source)
    path = f"/api/v1/feedback/webhook/{source}?project={caller.project}"
    return json_response(to_json({**hook.shown(), "secret": hook.secret, "path": path}), 201)


@router.get("/feedback/webhooks")
def get_hooks(context: ContextDep, caller: Admin) -> Response:
    """Every source of the project, without its secret."""
    found = list_documents(context.store, COLLECTION, project=caller.project)
    return json_response(page_json([from_plain(Hook, body).shown() for body in found]))


@router.delete("/feedback/webhooks/{source}")
def delete_hook(context: ContextDep, caller: Admin, source: Source) -> Response:
    """Forget a source: what it posts from now on is refused."""
    if get_document(context.store, COLLECTION, source, project=caller.project) is None:
        raise NotFoundError(f"no webhook {source!r} in project {caller.project!r}")
    now = context.clock.now()
    delete_document(context.store, COLLECTION, source, at=now, project=caller.project)
    note(context, caller, "webhook.delete", source)
    return json_response(to_json({"deleted": source}))


@router.post("/feedback/webhook/{source}", status_code=201)
async def post_delivery(
    request: Request, context: ContextDep, source: Source, project: Project = "default"
) -> Response:
    """One complaint from another system: 201 stored, 202 stored before its trace has come, 200 when
    its external id is known already: then nothing changes, so a replay does no harm.
    """
    from anyio.to_thread import run_sync  # noqa: PLC0415 - only here is a body read by hand

    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BYTES:
            raise InvalidInputError(f"delivery larger than {MAX_BYTES >> 20} MiB")
    headers = dict(request.headers.items())
    return await run_sync(_deliver, context, project, source, headers, bytes(body))


def _deliver(
    context: Context, project: str, source: str, headers: dict[str, str], body: bytes
) -> Response:
    found = get_document(context.store, COLLECTION, source, project=project)
    # An unknown source looks like a wrong signature: nobody can find out which ones there are.
    hook = from_plain(Hook, found) if found else None
    header = headers.get(hook.header if hook else SIGNATURE_HEADER)
    check_signature(hook.secret if hook else secrets.token_urlsafe(32), body, header)
    if hook is None:
        raise UnauthorizedError("the signature does not fit")
    ticket = ticket_of(body, hook.mapping)
    external = ticket.external_id[:200]
    before = find_feedback(context.store, project, source, external)
    if before is not None:
        return json_response(_told(before.feedback_id, before.turn_id, repeat=True))
    caller = Caller(Principal(f"webhook {source}", project, frozenset({"ingest"})), project)
    item = locate(context, project, [ticket])[0]
    why = item["problem"] or store_ticket(context, caller, ticket, item, source)
    if why:
        raise InvalidInputError(why)
    stored = find_feedback(context.store, project, source, external)
    turn_id = stored.turn_id if stored else None
    status = 201 if turn_id else 202
    return json_response(_told(stored.feedback_id if stored else "", turn_id), status)


def _told(feedback_id: str, turn_id: str | None, *, repeat: bool = False) -> bytes:
    body: dict[str, Any] = {"feedback_id": feedback_id, "turn_id": turn_id, "repeat": repeat}
    return to_json(body)
