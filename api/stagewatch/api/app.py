"""The FastAPI application: routes, security headers, one error shape."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.middleware.gzip import GZipMiddleware

from stagewatch.api.checks import NOT_UNICODE, holds_lone_surrogate
from stagewatch.api.problems import install_problem_handlers, problem
from stagewatch.api.routes import (
    alerts,
    backfills,
    bulk,
    calibration,
    channels,
    compare,
    dataset_checks,
    datasets,
    feedback,
    feedback_import,
    gate,
    health,
    judges,
    keys,
    operations,
    plans,
    probes,
    recheck,
    review,
    rules,
    series,
    turns,
    webhooks,
)
from stagewatch.api.web import (
    alert_pages,
    compare_pages,
    dataset_pages,
    pages,
    probe_pages,
    run_pages,
    scoring_pages,
    session_pages,
    static,
)
from stagewatch.core.run import is_loopback
from stagewatch.core.service import Context

API = "/api/v1"

# plotly.js writes two <style> elements of its own (modebar, and the base rules); the hashes are
# theirs, and a test recomputes them from the installed file.
CSP = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; img-src 'self' data: blob:; "
    "font-src 'self'; style-src 'self' {style_hashes}; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


def build_app(context: Context) -> FastAPI:
    """The application over an opened store."""
    app = FastAPI(
        title="stagewatch",
        version="1",
        description="Scores each stage of RAG turns and names the failing one.",
        openapi_url=f"{API}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.context = context
    install_problem_handlers(app)
    app.include_router(health.router)
    for module in (
        turns,
        feedback,
        review,
        bulk,
        datasets,
        series,
        alerts,
        channels,
        compare,
        probes,
        rules,
        backfills,
        calibration,
        judges,
        keys,
        operations,
        plans,
        dataset_checks,
        feedback_import,
        webhooks,
        recheck,
        gate,
    ):
        app.include_router(module.router, prefix=API)
    app.include_router(static.router)
    app.include_router(pages.router)
    app.include_router(alert_pages.router)
    app.include_router(probe_pages.router)
    app.include_router(compare_pages.router)
    app.include_router(run_pages.router)
    app.include_router(scoring_pages.router)
    app.include_router(dataset_pages.router)
    app.include_router(session_pages.router)
    app.add_middleware(GZipMiddleware, minimum_size=1024, compresslevel=4)
    _guard_requests(app, context)
    return app


def _guard_requests(app: FastAPI, context: Context) -> None:
    """Security headers on every answer; on loopback, only names that mean this machine.

    A keyless loopback server trusts whoever can reach it, so a page in the user's browser must
    not: the Host check stops DNS rebinding, the Origin check stops cross-site posts.
    """
    policy = CSP.format(style_hashes=static.STYLE_HASHES)
    loopback = is_loopback(context.settings.host)

    @app.middleware("http")
    async def guard(
        request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        host = request.url.hostname or ""
        if loopback and not is_loopback(host):
            return problem(421, "wrong host", "this server answers to localhost only")
        origin = request.headers.get("origin")
        unsafe = request.method not in {"GET", "HEAD", "OPTIONS"}
        if unsafe and origin and origin.partition("://")[2] != request.headers.get("host"):
            return problem(403, "wrong origin", "requests from other sites are refused")
        if (
            unsafe
            and "json" in request.headers.get("content-type", "")
            and holds_lone_surrogate(await request.body())
        ):
            return problem(400, "the request is not valid", NOT_UNICODE)
        response = await call_next(request)
        response.headers.setdefault("content-security-policy", policy)
        response.headers.setdefault("x-content-type-options", "nosniff")
        # Not "no-referrer": browsers then send the forms of our own pages with `Origin: null`,
        # which the check above refuses, and nobody could sign in.
        response.headers.setdefault("referrer-policy", "same-origin")
        response.headers.setdefault("cache-control", "no-store")
        return response
