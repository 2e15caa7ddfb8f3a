"""API keys and projects."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from stagewatch.api.deps import Admin, ContextDep, Reader
from stagewatch.api.routes.turns import json_response
from stagewatch.api.views import page_json
from stagewatch.core.auth import ANY_PROJECT, Role
from stagewatch.core.codec import to_json
from stagewatch.core.errors import ConflictError, ForbiddenError
from stagewatch.core.store.documents import audit

router = APIRouter(tags=["keys"])


class KeyIn(BaseModel):
    """Body of POST /keys."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(min_length=1, max_length=80)]
    project: str = "default"
    roles: Annotated[list[Role], Field(min_length=1, max_length=4)]


@router.get("/keys")
def get_keys(context: ContextDep, caller: Admin) -> Response:
    """Every key that the caller may manage, without its secret."""
    keys = [
        key
        for key in context.shared["auth"].list()
        if caller.principal.project in {ANY_PROJECT, key["project"]}
    ]
    return json_response(page_json(keys))


@router.post("/keys", status_code=201)
def post_key(context: ContextDep, caller: Admin, sent: KeyIn) -> Response:
    """Make a key; it is shown this once. From the first key on, every caller needs one."""
    if caller.principal.project not in {ANY_PROJECT, sent.project}:
        raise ForbiddenError(f"this key manages project {caller.principal.project!r} only")
    auth = context.shared["auth"]
    if not auth.list() and (sent.project != ANY_PROJECT or "admin" not in sent.roles):
        raise ConflictError(
            "the first key must be an administrator's, or nobody could make the next: "
            "stagewatch key create NAME --role admin --project '*'. From then on every sender "
            "and the UI need a key"
        )
    key_id, key = auth.create(sent.name, sent.project, list(sent.roles))
    if not context.settings.allow_keyless:
        auth.keyless = False
    audit(
        context.store,
        project=sent.project,
        by=caller.name,
        action="key.create",
        subject=key_id,
        at=context.clock.now(),
        detail={"roles": sent.roles},
    )
    return json_response(to_json({"id": key_id, "key": key}), 201)


@router.delete("/keys/{key_id}")
def delete_key(context: ContextDep, caller: Admin, key_id: str) -> Response:
    """Revoke a key."""
    auth = context.shared["auth"]
    mine = {
        key["id"]
        for key in auth.list()
        if caller.principal.project in {ANY_PROJECT, key["project"]}
    }
    if key_id not in mine and caller.principal.project != ANY_PROJECT:
        raise ForbiddenError("this key belongs to another project")
    auth.revoke(key_id)
    audit(
        context.store,
        project=caller.project,
        by=caller.name,
        action="key.revoke",
        subject=key_id,
        at=context.clock.now(),
    )
    return json_response(to_json({"revoked": key_id}))


@router.get("/projects")
def get_projects(context: ContextDep, caller: Reader) -> Response:
    """Projects that have turns, with how many."""
    rows = context.store.rows(
        """SELECT project, count() AS turns, max(started_at) AS newest FROM turns
           WHERE ({only:String} = '' OR project = {only:String})
           GROUP BY project ORDER BY project""",
        {"only": "" if caller.principal.project == ANY_PROJECT else caller.principal.project},
    )
    return json_response(page_json(rows))
