"""Series and drift."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response

from stagewatch.api.checks import LONGEST_STEP_S, Moment
from stagewatch.api.deps import ContextDep, Reader
from stagewatch.api.routes.turns import json_response
from stagewatch.api.views import page_json
from stagewatch.core.codec import to_json
from stagewatch.core.service import Context
from stagewatch.core.store.scores import Reading, readings, stages_between
from stagewatch.scorer.calibration_state import calibration_check
from stagewatch.scorer.series import (
    ASSISTED,
    GroupBy,
    breaks,
    check_request,
    floor_time,
    pick_step,
    series,
)
from stagewatch.scorer.watch import as_contract, find_alerts

router = APIRouter(tags=["series"])

DEFAULT_SPAN = timedelta(hours=24)


def load_series(
    context: Context,
    project: str,
    metric: str,
    stat: str,
    since: datetime | None,
    until: datetime | None,
    step_s: float | None,
    group_by: str | None,
) -> dict[str, Any]:
    """Points and breaks of a metric; the default window is the last 24 hours."""
    end = until or context.clock.now()
    begin = since or end - DEFAULT_SPAN
    step = timedelta(seconds=step_s) if step_s else pick_step(begin, end)
    check_request(stat, begin, end, step)
    begin = floor_time(begin, step)
    live = readings(context.store, project, metric, begin, end)
    free: list[Reading] = []
    if stat in ASSISTED:
        free = readings(context.store, project, metric, begin, end, first_pass=True)
    if group_by == "diagnosis":
        stages = stages_between(context.store, project, begin, end)
        live, free = _diagnosed(live, stages), _diagnosed(free, stages)
    changes = breaks(live)
    # Groups tell the versions apart already; a rollout would only chop them up.
    cuts = [] if group_by else [item.at for item in changes]
    return {
        "metric": metric,
        "stat": stat,
        "step_s": step.total_seconds(),
        "since": begin,
        "until": end,
        "items": series(
            live,
            stat=stat,
            since=begin,
            step=step,
            group_by=group_by,
            cuts=cuts,
            first_pass=free,
        ),
        "breaks": changes,
    }


def _diagnosed(found: list[Reading], stages: Mapping[str, str]) -> list[Reading]:
    return [
        replace(r, dimensions={**r.dimensions, "diagnosis": stages.get(r.turn_id, "")})
        for r in found
    ]


@router.get("/series")
def get_series(
    context: ContextDep,
    caller: Reader,
    metric: str,
    stat: str = "pass_rate",
    since: Moment | None = None,
    until: Moment | None = None,
    step: Annotated[
        float | None, Query(gt=0, le=LONGEST_STEP_S, description="Seconds a point.")
    ] = None,
    group_by: GroupBy | None = None,
) -> Response:
    """Points with n, estimate, 95 % interval and what was unscored; breaks between them."""
    body = load_series(
        context,
        caller.project,
        metric,
        stat,
        since,
        until,
        step,
        group_by,
    )
    return json_response(to_json(body))


@router.get("/drift")
def get_drift(context: ContextDep, caller: Reader) -> Response:
    """What the drift test finds over the look-back window now, calibrated or not."""
    found = find_alerts(
        context.store,
        caller.project,
        context.clock.now(),
        is_calibrated=calibration_check(context.store, caller.project),
    )
    return json_response(page_json([as_contract(alert) for alert in found]))
