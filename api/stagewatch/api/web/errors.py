"""Errors as pages, for requests that a person's browser made."""

from __future__ import annotations

from contextlib import suppress

from fastapi import Request
from fastapi.responses import RedirectResponse, Response

from stagewatch.api.deps import reader
from stagewatch.api.web.render import render
from stagewatch.api.web.session_pages import sign_in_for
from stagewatch.core.errors import StagewatchError, UnauthorizedError


def html_error(request: Request, error: StagewatchError, status: int) -> Response:
    """An error as a page, for requests that a person's browser made."""
    if isinstance(error, UnauthorizedError):
        return RedirectResponse(sign_in_for(request), 303)
    caller = None
    with suppress(StagewatchError):
        caller = reader(request, request.query_params.get("project"))
    answer = render(request, caller, "error.html", status=status, message=str(error))
    answer.status_code = status
    return answer


def wants_html(request: Request) -> bool:
    """True for a page a browser asked for, not an API call."""
    return "text/html" in request.headers.get("accept", "") and not request.url.path.startswith(
        "/api/"
    )
