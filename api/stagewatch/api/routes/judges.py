"""Judges: who has spoken, how far each agrees with people, and whether it moved."""

from __future__ import annotations

import threading
from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response

from stagewatch.api.deps import Admin, ContextDep, Reader, note
from stagewatch.api.routes.turns import json_response
from stagewatch.core.codec import to_json, to_plain
from stagewatch.core.errors import ConflictError
from stagewatch.core.service import Context
from stagewatch.core.store.canary import judges_seen
from stagewatch.scorer.calibration_state import calibration_report
from stagewatch.scorer.canary.items import current_set, freeze_labelled
from stagewatch.scorer.canary.watch import CanaryRun, run_canary, runs_of

router = APIRouter(tags=["calibration"])

_HISTORY = 60
# Each reading is paid; two at once would tell no more than one.
_READING = threading.Lock()


def run_view(run: CanaryRun) -> dict[str, Any]:
    """A reading of the frozen set, without its items."""
    body: dict[str, Any] = to_plain(run)
    reading = body.pop("reading")
    shares = {
        kind: sum(reading[kind].values()) / len(reading[kind]) if reading[kind] else None
        for kind in ("faithfulness", "chunk_relevance")
    }
    return {
        **body,
        "shares": shares,
        "unread": reading["unread"],
        "moved": [move.kind for move in run.moved],
    }


def load_judges(context: Context, project: str) -> dict[str, Any]:
    """Every judge of a project's scores, the one in force first, and the set in force."""
    store = context.store
    canary = current_set(store)
    reports = calibration_report(store, project)
    items = []
    for judge in judges_seen(store, project):
        runs = runs_of(store, judge["fingerprint"], canary.name)[-_HISTORY:]
        known = [r for r in reports if r.fingerprint == judge["fingerprint"]]
        items.append(
            {
                **judge,
                "calibration": {report.metric: report.state for report in known},
                "canary": [run_view(run) for run in runs],
                "moved": sorted({move.kind for move in runs[-1].moved}) if runs else [],
            }
        )
    return {
        "items": items,
        "set": {"name": canary.name, "texts": len(canary.items), "by": canary.by, "at": canary.at},
    }


@router.get("/judges")
def get_judges(context: ContextDep, caller: Reader) -> Response:
    """Judges that scored turns of the project: calibration by kind of label, and their readings of
    the frozen set, oldest first.
    """
    found = load_judges(context, caller.project)
    page = {**to_plain(found), "next_cursor": None, "total": len(found["items"])}
    return json_response(to_json({**page, "total_exact": True}))


@router.post("/judges/canary/run")
def post_canary_run(context: ContextDep, caller: Admin) -> Response:
    """Have the configured judge read the frozen set now; it costs what the judge costs.

    One reading at a time: 409 while another one asked for here is under way.
    """
    if not _READING.acquire(blocking=False):
        raise ConflictError("the set is being read; look at /judges when it is done")
    try:
        run = run_canary(context.store, context.settings, context.clock)
    finally:
        _READING.release()
    note(context, caller, "canary.run", run.run_id)
    return json_response(to_json(run_view(run)))


@router.post("/judges/canary/freeze", status_code=201)
def post_canary_freeze(context: ContextDep, caller: Admin) -> Response:
    """Freeze this project's hand-labelled turns as the set, for every judge from now on."""
    made = freeze_labelled(context.store, caller.project, by=caller.name, now=context.clock.now())
    note(context, caller, "canary.freeze", made.name)
    return json_response(to_json({"name": made.name, "texts": len(made.items)}), 201)
