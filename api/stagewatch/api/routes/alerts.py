"""Alerts: the list, what people do with them, and what was said of them to channels."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from stagewatch.api.deps import Caller, ContextDep, Reader, Writer, note
from stagewatch.api.routes.channels import delivery_view
from stagewatch.api.routes.turns import json_response
from stagewatch.api.views import page_json
from stagewatch.core.codec import to_json
from stagewatch.core.errors import NotFoundError
from stagewatch.core.service import Context
from stagewatch.core.store.alerts import AlertState, get_alert, list_alerts, mark_alert
from stagewatch.core.store.deliveries import recent_deliveries
from stagewatch.scorer.alerts import worst_first
from stagewatch.scorer.channels.message import severity_of

router = APIRouter(tags=["alerts"])


class SnoozeIn(BaseModel):
    """Body of POST /alerts/{alert_id}/snooze."""

    model_config = ConfigDict(extra="forbid")

    hours: Annotated[float, Field(gt=0, le=24 * 90)] = 24.0


@router.get("/alerts")
def get_alerts(context: ContextDep, caller: Reader, state: str | None = None) -> Response:
    """Alerts: open ones first, the worst of them on top; the others newest first.

    `recovery` tells how the stream went on after the next change, and whether it is `back`;
    `mark` who acknowledged or snoozed it, when and until when.
    """
    found = list_alerts(context.store, caller.project, context.clock.now())
    kept = [alert for alert in found if state is None or alert["state"] == state]
    items = [{**alert, "severity": severity_of(alert)} for alert in worst_first(kept)]
    return json_response(page_json(items))


@router.get("/alerts/{alert_id}/deliveries")
def get_alert_deliveries(context: ContextDep, caller: Reader, alert_id: str) -> Response:
    """Messages about one alert, newest first."""
    found = recent_deliveries(context.store, caller.project, alert_id=alert_id)
    if not found and not get_alert(context.store, caller.project, alert_id, context.clock.now()):
        raise NotFoundError(f"no alert {alert_id!r} in project {caller.project!r}")
    return json_response(page_json([delivery_view(item) for item in found]))


def _move(
    context: Context,
    caller: Caller,
    alert_id: str,
    state: AlertState,
    until: datetime | None = None,
) -> Response:
    now = context.clock.now()
    if get_alert(context.store, caller.project, alert_id, now) is None:
        raise NotFoundError("no alert with this id in this project")
    mark_alert(context.store, caller.project, alert_id, state, by=caller.name, at=now, until=until)
    note(context, caller, f"alert.{state}", alert_id)
    return json_response(to_json(get_alert(context.store, caller.project, alert_id, now)))


@router.post("/alerts/{alert_id}/ack")
def post_ack(context: ContextDep, caller: Writer, alert_id: str) -> Response:
    """Somebody has seen it: no more reminders."""
    return _move(context, caller, alert_id, "acked")


@router.post("/alerts/{alert_id}/snooze")
def post_snooze(
    context: ContextDep, caller: Writer, alert_id: str, sent: SnoozeIn | None = None
) -> Response:
    """No reminders for some hours (24 unless told otherwise); then it is open again."""
    until = context.clock.now() + timedelta(hours=(sent or SnoozeIn()).hours)
    return _move(context, caller, alert_id, "snoozed", until)


@router.post("/alerts/{alert_id}/reopen")
def post_reopen(context: ContextDep, caller: Writer, alert_id: str) -> Response:
    """Take an acknowledgement or a snooze back."""
    return _move(context, caller, alert_id, "open")
