"""Series, drift and alerts."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response

from stagewatch.api.checks import LONGEST_STEP_S, Moment
from stagewatch.api.deps import Caller, ContextDep, Reader, Writer
from stagewatch.api.routes.turns import json_response
from stagewatch.api.views import page_json
from stagewatch.core.codec import to_json
from stagewatch.core.errors import NotFoundError
from stagewatch.core.service import Context
from stagewatch.core.store.documents import audit, list_documents
from stagewatch.core.store.scores import readings
from stagewatch.scorer.alerts import worst_first
from stagewatch.scorer.calibration_state import calibration_check
from stagewatch.scorer.series import (
    GroupBy,
    breaks,
    check_request,
    floor_time,
    pick_step,
    series,
)
from stagewatch.scorer.watch import COLLECTION, as_contract, find_alerts, set_alert_state

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
    changes = breaks(live)
    # Groups tell the versions apart already; a rollout would only chop them up.
    cuts = [] if group_by else [item.at for item in changes]
    return {
        "metric": metric,
        "stat": stat,
        "step_s": step.total_seconds(),
        "since": begin,
        "until": end,
        "items": series(live, stat=stat, since=begin, step=step, group_by=group_by, cuts=cuts),
        "breaks": changes,
    }


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


@router.get("/alerts")
def get_alerts(context: ContextDep, caller: Reader, state: str | None = None) -> Response:
    """Alerts: open ones first, the worst of them on top; the others newest first.

    `recovery` tells how the stream went on after the next change, and whether it is `back`.
    """
    found: list[dict[str, Any]] = list_documents(context.store, COLLECTION, project=caller.project)
    kept: list[dict[str, Any]] = [
        alert for alert in found if state is None or alert["state"] == state
    ]
    return json_response(page_json(worst_first(kept)))


def _move(context: Context, caller: Caller, alert_id: str, state: str) -> Response:
    now = context.clock.now()
    body = set_alert_state(context.store, caller.project, alert_id, state, now=now)
    if body is None:
        raise NotFoundError("no alert with this id in this project")
    audit(
        context.store,
        project=caller.project,
        by=caller.name,
        action=f"alert.{state}",
        subject=alert_id,
        at=now,
    )
    return json_response(to_json(body))


@router.post("/alerts/{alert_id}/ack")
def post_ack(context: ContextDep, caller: Writer, alert_id: str) -> Response:
    """Somebody has seen it."""
    return _move(context, caller, alert_id, "acked")


@router.post("/alerts/{alert_id}/snooze")
def post_snooze(context: ContextDep, caller: Writer, alert_id: str) -> Response:
    """Put it out of sight until its numbers change."""
    return _move(context, caller, alert_id, "snoozed")
