"""Errors as RFC 9457 problem details. Nothing of a request's content is repeated."""

from __future__ import annotations

import logging

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from stagewatch.api.web.errors import html_error, wants_html
from stagewatch.core.codec import to_json
from stagewatch.core.errors import (
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    NotFoundError,
    OverloadedError,
    StagewatchError,
    StoreUnavailableError,
    UnauthorizedError,
    http_status,
)
from stagewatch.scorer.strict import fault_words

log = logging.getLogger("stagewatch.api")

_TITLES: dict[type[StagewatchError], str] = {
    InvalidInputError: "the request is not valid",
    UnauthorizedError: "a key is needed",
    ForbiddenError: "not allowed",
    NotFoundError: "not found",
    ConflictError: "conflict",
    OverloadedError: "too many requests",
    StoreUnavailableError: "the store is not available",
}


def problem(
    status: int, title: str, detail: str = "", headers: dict[str, str] | None = None
) -> Response:
    """A problem+json response."""
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    return Response(to_json(body), status, headers, media_type="application/problem+json")


def _headers(error: StagewatchError) -> dict[str, str]:
    if isinstance(error, UnauthorizedError):
        return {"www-authenticate": 'Bearer realm="stagewatch"'}
    if isinstance(error, OverloadedError):
        return {"retry-after": str(error.retry_after_s)}
    if isinstance(error, StoreUnavailableError):
        return {"retry-after": "2"}
    return {}


def install_problem_handlers(app: FastAPI) -> None:
    """Answer every kind of failure in the one shape."""

    @app.exception_handler(StagewatchError)
    def known(request: Request, error: StagewatchError) -> Response:
        status = http_status(error)
        if wants_html(request):
            return html_error(request, error, status)
        title = _TITLES.get(type(error), "the request failed")
        if status >= 500:
            log.warning("request failed", extra={"status": status, "why": str(error)})
        return problem(status, title, str(error), _headers(error))

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part != "body")
        says = f"{where or 'body'}: {fault_words(first)}"
        if wants_html(request):
            return html_error(request, InvalidInputError(says), 400)
        return problem(400, _TITLES[InvalidInputError], says)

    @app.exception_handler(HTTPException)
    def http(request: Request, error: HTTPException) -> Response:
        says = str(error.detail).lower()
        if wants_html(request):
            return html_error(request, StagewatchError(says), error.status_code)
        return problem(error.status_code, says, "", dict(error.headers or {}))

    @app.exception_handler(Exception)
    def unknown(request: Request, error: Exception) -> Response:
        log.error(
            "unexpected error",
            extra={"path": request.url.path, "kind": type(error).__name__},
        )
        return problem(500, "unexpected error", "this is a fault of ours: see the server's log")
