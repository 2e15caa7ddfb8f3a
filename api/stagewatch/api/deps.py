"""What routes ask for: the context, who is asking, and which project is meant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Query, Request, Response

from stagewatch.core.auth import ANY_PROJECT, Auth, Principal, Role
from stagewatch.core.service import Context
from stagewatch.core.store.documents import audit

KEY_COOKIE = "stagewatch_key"
PROJECT_COOKIE = "stagewatch_project"


def context_of(request: Request) -> Context:
    """The process's context, put on the application by `build_app`."""
    return cast("Context", request.app.state.context)


ContextDep = Annotated[Context, Depends(context_of)]


def principal_of(request: Request) -> Principal:
    """Who is asking: a key in a header, or in the UI's cookie.

    Raises:
        UnauthorizedError: no key where one is needed, or one that is not known.
    """
    auth = cast("Auth", context_of(request).shared["auth"])
    headers = dict(request.headers.items())
    cookie = request.cookies.get(KEY_COOKIE)
    if cookie and "authorization" not in headers and "x-api-key" not in headers:
        headers["x-api-key"] = cookie
    name = request.cookies.get("stagewatch_user")
    if name and "x-stagewatch-user" not in headers:
        headers["x-stagewatch-user"] = name
    return auth.principal(headers)


@dataclass(frozen=True, slots=True)
class Caller:
    """A principal with the project its request is about."""

    principal: Principal
    project: str

    @property
    def name(self) -> str:
        """The name to write beside what this caller does."""
        return self.principal.name


def _caller(role: Role, request: Request, project: str | None) -> Caller:
    principal = principal_of(request)
    principal.need(role)
    asked = project or request.headers.get("x-stagewatch-project")
    if asked is None and not request.url.path.startswith("/api/"):
        asked = _chosen(request, principal)
    return Caller(principal, principal.pick_project(asked))


def _chosen(request: Request, principal: Principal) -> str | None:
    """The project chosen in the UI, where this key may see it."""
    chosen = request.cookies.get(PROJECT_COOKIE)
    return chosen if principal.project in {ANY_PROJECT, chosen} else None


def page_project(request: Request, principal: Principal) -> str:
    """The project of a page whose address names none."""
    return _chosen(request, principal) or principal.pick_project(None)


def remember_project(response: Response, project: str) -> None:
    """Let the pages that follow show `project`: their links do not name it."""
    response.set_cookie(PROJECT_COOKIE, project, httponly=True, samesite="strict")


ProjectQuery = Annotated[str | None, Query(description="Project; default: the key's own.")]


def reader(request: Request, project: ProjectQuery = None) -> Caller:
    """A caller that may read."""
    return _caller("read", request, project)


def writer(request: Request, project: ProjectQuery = None) -> Caller:
    """A caller that may write."""
    return _caller("write", request, project)


def feeder(request: Request, project: ProjectQuery = None) -> Caller:
    """A caller that may send data: an ingest key may post feedback, a write key too."""
    principal = principal_of(request)
    if not principal.may("ingest"):
        principal.need("write")
    asked = project or request.headers.get("x-stagewatch-project")
    return Caller(principal, principal.pick_project(asked))


def admin(request: Request, project: ProjectQuery = None) -> Caller:
    """A caller that may administer."""
    return _caller("admin", request, project)


Reader = Annotated[Caller, Depends(reader)]
Writer = Annotated[Caller, Depends(writer)]
Feeder = Annotated[Caller, Depends(feeder)]
Admin = Annotated[Caller, Depends(admin)]


def note(context: Context, caller: Caller, action: str, subject: str, **detail: object) -> None:
    """Write into the audit log what a caller has done, in the project it asked for."""
    audit(
        context.store, project=caller.project, by=caller.name, action=action, subject=subject,
        at=context.clock.now(), detail=detail,
    )  # fmt: skip
