"""Channels: where alerts go, a test of one, what one would have sent, and the log of messages."""

from __future__ import annotations

import os
import secrets
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from stagewatch.api.deps import Admin, ContextDep, Reader, Writer, note
from stagewatch.api.routes.turns import json_response
from stagewatch.api.views import page_json
from stagewatch.core.clock import rfc3339
from stagewatch.core.codec import to_json, to_plain
from stagewatch.core.errors import NotFoundError
from stagewatch.core.service import Context
from stagewatch.core.store.alerts import list_alerts
from stagewatch.core.store.deliveries import Delivery, recent_deliveries
from stagewatch.scorer.calibration_state import calibration_check
from stagewatch.scorer.channels.channel import (
    Channel,
    check_sent,
    drop_channel,
    find_channel,
    list_channels,
    need_channel,
    parse_channel,
    save_channel,
    shown,
)
from stagewatch.scorer.channels.deliver import open_office, send_test
from stagewatch.scorer.channels.replay import WouldSend, replay
from stagewatch.scorer.watch import as_contract, find_alerts

router = APIRouter(tags=["alerts"])

DRY_RUN_DAYS = 7
# Filters of a channel that is not there yet: nothing is ever sent to this address.
_NOWHERE = {"name": "dry-run", "url": "env:NOWHERE", "secret": "env:NOWHERE"}


class TestIn(BaseModel):
    """Body of POST /alerts/test."""

    model_config = ConfigDict(extra="forbid", strict=True)

    channel: Annotated[str, Field(min_length=1, max_length=64)]


class DryRunIn(BaseModel):
    """Body of POST /alerts/dry-run: a channel's name, or settings as a channel has them."""

    model_config = ConfigDict(extra="forbid", strict=True)

    channel: Annotated[str, Field(max_length=64)] | None = None
    settings: dict[str, Any] = {}
    days: Annotated[float, Field(gt=0, le=30)] = DRY_RUN_DAYS


def delivery_view(item: Delivery) -> dict[str, Any]:
    """A message's line in the log, without its body."""
    body: dict[str, Any] = to_plain(item)
    body.pop("body")
    return body


@router.get("/channels")
def get_channels(context: ContextDep, caller: Reader) -> Response:
    """Every channel; addresses and secrets are masked."""
    found = list_channels(context.store, caller.project)
    return json_response(page_json([shown(channel) for channel in found]))


@router.post("/channels", status_code=201)
def post_channel(
    context: ContextDep, caller: Admin, sent: Annotated[dict[str, Any], Body()]
) -> Response:
    """Make a channel or change one: fields left out keep their values.

    It says which address this server calls, so it takes an admin. `new_secret` is the signing
    secret of a new webhook, shown this once.
    """
    channel, made = save_channel(
        context.store, caller.project, sent,
        by=caller.name, now=context.clock.now(), random=secrets.token_bytes(32),
    )  # fmt: skip
    note(context, caller, "channel.save", channel.name)
    return json_response(to_json({**shown(channel), "new_secret": made or None}), 201)


@router.delete("/channels/{name}", status_code=204)
def delete_channel(context: ContextDep, caller: Admin, name: str) -> Response:
    """Delete a channel with its address and secret; its log stays."""
    drop_channel(context.store, caller.project, name, at=context.clock.now())
    note(context, caller, "channel.delete", name)
    return Response(status_code=204)


@router.get("/channels/deliveries")
def get_deliveries(
    context: ContextDep,
    caller: Reader,
    channel: str | None = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> Response:
    """The log of messages, newest first; of a deleted channel too."""
    found = recent_deliveries(context.store, caller.project, channel=channel, limit=limit)
    if channel and not found and find_channel(context.store, caller.project, channel) is None:
        raise NotFoundError(f"no channel {channel!r} in project {caller.project!r}")
    return json_response(page_json([delivery_view(item) for item in found]))


@router.post("/alerts/test")
def post_test(context: ContextDep, caller: Writer, sent: TestIn) -> Response:
    """Send a marked message through a channel now, and say what the peer answered."""
    channel = need_channel(context.store, caller.project, sent.channel)
    office = open_office(context.store, context.clock, context.settings, os.environ)
    ended = send_test(office, caller.project, channel)
    note(context, caller, "channel.test", channel.name)
    return json_response(to_json({"ok": ended.state == "sent", **delivery_view(ended)}))


@router.post("/alerts/dry-run")
def post_dry_run(context: ContextDep, caller: Reader, sent: DryRunIn) -> Response:
    """Which messages a channel with these settings would have sent over the last days."""
    channel = _meant(context, caller.project, sent)
    found = would_send(context, caller.project, channel, sent.days)
    body = {
        "since": rfc3339(context.clock.now() - timedelta(days=sent.days)),
        "items": found,
        "messages": sum(not item.held_back for item in found),
        "held_back": sum(bool(item.held_back) for item in found),
    }
    return json_response(to_json(body))


def _meant(context: Context, project: str, sent: DryRunIn) -> Channel:
    known = need_channel(context.store, project, sent.channel) if sent.channel else None
    check_sent(sent.settings)
    base = known.model_dump() if known is not None else _NOWHERE
    # The address decides nothing here, and must not be asked for.
    wanted = {k: v for k, v in sent.settings.items() if k not in {"name", "url", "secret", "kind"}}
    return parse_channel({**base, **wanted})


def would_send(context: Context, project: str, channel: Channel, days: float) -> list[WouldSend]:
    """The replay over stored alerts and those that only an uncalibrated judge sees."""
    now = context.clock.now()
    stored = list_alerts(context.store, project, now)
    ids = {alert["alert_id"] for alert in stored}
    check = calibration_check(context.store, project)
    seen = [
        {**as_contract(alert), "state": "open"}
        for alert in find_alerts(context.store, project, now, is_calibrated=check)
        if alert.alert_id not in ids
    ]
    since = now - timedelta(days=days)
    return replay(channel, [*stored, *seen], since=since, now=now)
