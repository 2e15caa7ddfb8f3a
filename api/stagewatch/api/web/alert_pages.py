"""Pages of alerts and of the channels they go to."""

from __future__ import annotations

from typing import Annotated, get_args

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response

from stagewatch.api.deps import ContextDep, Reader
from stagewatch.api.web.render import render
from stagewatch.core.model import Stage
from stagewatch.core.store.alerts import list_alerts
from stagewatch.core.store.deliveries import recent_deliveries
from stagewatch.core.store.turns import question_starts
from stagewatch.scorer.alerts import worst_first
from stagewatch.scorer.channels.channel import EVENTS, STAGES, list_channels, shown
from stagewatch.scorer.channels.message import severity_of

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

_SHOWN = 100
State = Annotated[str, Query(pattern="^(open|acked|snoozed|closed|)$")]


@router.get("/alerts")
def alerts(request: Request, context: ContextDep, caller: Reader, state: State = "") -> Response:
    """Every alert: open ones first, the worst on top."""
    found = worst_first(list_alerts(context.store, caller.project, context.clock.now()))
    counts = dict.fromkeys(("open", "acked", "snoozed", "closed"), 0)
    for alert in found:
        counts[alert["state"]] += 1
    kept = [alert for alert in found if not state or alert["state"] == state]
    items = [{**alert, "severity": severity_of(alert)} for alert in kept[:_SHOWN]]
    told: dict[str, list[str]] = {}
    for line in recent_deliveries(context.store, caller.project, limit=500):
        if line.state == "sent":
            told.setdefault(line.alert_id, []).append(f"{line.channel} ({line.event})")
    return render(
        request,
        caller,
        "alerts.html",
        items=items,
        stages=get_args(Stage),
        total=len(kept),
        state=state,
        counts=counts,
        told=told,
        channels=len(list_channels(context.store, caller.project)),
        questions=question_starts(
            context.store, (turn_id for alert in items for turn_id in alert["turn_ids"])
        ),
    )


@router.get("/channels")
def channels(request: Request, context: ContextDep, caller: Reader, edit: str = "") -> Response:
    """Channels, a form for one, and the log of messages."""
    found = [shown(channel) for channel in list_channels(context.store, caller.project)]
    return render(
        request,
        caller,
        "channels.html",
        items=found,
        edited=next((item for item in found if item["name"] == edit), None),
        log=recent_deliveries(context.store, caller.project, limit=_SHOWN),
        stages=STAGES,
        events=EVENTS,
    )
