"""Liveness, readiness and Prometheus metrics."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response
from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from stagewatch.api.deps import ContextDep
from stagewatch.core.codec import to_json
from stagewatch.core.errors import StagewatchError
from stagewatch.core.service import Context

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def healthz() -> dict[str, bool]:
    """The process is alive."""
    return {"ok": True}


def part_health(context: Context) -> dict[str, dict[str, Any]]:
    """What each part of this process says of itself."""
    said: dict[str, dict[str, Any]] = {}
    for name, ask in context.health.items():
        try:
            said[name] = dict(ask())
        except StagewatchError as error:
            said[name] = {"ok": False, "says": str(error)}
    return said


@router.get("/readyz")
def readyz(context: ContextDep) -> Response:
    """200 when the engine answers and every part is well, else 503 with what is wrong."""
    parts = part_health(context)
    parts["store"] = {"ok": context.store.ping(), "says": "engine answers"}
    if not parts["store"]["ok"]:
        parts["store"]["says"] = "engine does not answer"
    ok = all(part.get("ok", False) for part in parts.values())
    return Response(
        to_json({"ok": ok, "parts": parts}), 200 if ok else 503, media_type="application/json"
    )


@router.get("/metrics")
def metrics(context: ContextDep) -> Response:
    """Prometheus text of every counter of this process."""
    return Response(generate_latest(context.registry), media_type=CONTENT_TYPE_LATEST)
