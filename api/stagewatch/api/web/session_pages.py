"""Signing in and out, and choosing the project that the pages show."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from stagewatch.api.deps import (
    KEY_COOKIE,
    PROJECT_COOKIE,
    ContextDep,
    Reader,
    remember_project,
)
from stagewatch.api.web.render import render
from stagewatch.core.errors import UnauthorizedError

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

_LONGEST = 2000
NextQuery = Annotated[str, Query(max_length=_LONGEST)]


def own_page(address: str) -> str:
    """`address` where it is a page of this server, else the first page.

    It comes from a link, and a link must not lead to another site: browsers take two slashes, or
    a slash and a backslash, for the beginning of a host.
    """
    fine = address.isprintable() and "\\" not in address
    return address if fine and address.startswith("/") and address[1:2] != "/" else "/"


def sign_in_for(request: Request) -> str:
    """The address of the sign-in page that leads back to what `request` asked for."""
    wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return "/login?" + urlencode({"next": wanted}) if len(wanted) <= _LONGEST else "/login"


@router.get("/project")
def choose_project(
    caller: Reader,
    name: Annotated[str, Query(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")],
) -> Response:
    """Remember which project the pages show."""
    chosen = caller.principal.pick_project(name)
    response = RedirectResponse("/", 303)
    remember_project(response, chosen)
    return response


@router.get("/login")
def login(request: Request, context: ContextDep, next: NextQuery = "") -> Response:  # noqa: A002
    """Where a key is typed in; `next` is the page that asked for one."""
    keyless = context.shared["auth"].keyless
    return render(request, None, "login.html", wrong=False, keyless=keyless, wanted=next)


@router.post("/login")
def do_login(
    request: Request,
    context: ContextDep,
    key: Annotated[str, Form()],
    next: Annotated[str, Form(max_length=_LONGEST)] = "",  # noqa: A002
) -> Response:
    """Keep the key in a cookie that scripts cannot read and other sites cannot send."""
    try:
        context.shared["auth"].principal({"x-api-key": key.strip()})
    except UnauthorizedError:
        answer = render(request, None, "login.html", wrong=True, keyless=False, wanted=next)
        answer.status_code = 401
        return answer
    response = RedirectResponse(own_page(next), 303)
    response.set_cookie(
        KEY_COOKIE,
        key.strip(),
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
        max_age=30 * 86400,
    )
    return response


@router.post("/logout")
def logout() -> Response:
    """Forget the key that this browser was given, and the project it looked at."""
    response = RedirectResponse("/login", 303)
    for name in (KEY_COOKIE, PROJECT_COOKIE):
        response.delete_cookie(name, httponly=True, samesite="strict")
    return response
