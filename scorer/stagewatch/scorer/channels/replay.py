"""What a channel would have been told over the last days: the rules of `due` run over the past."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from stagewatch.scorer.channels.channel import Channel, hears
from stagewatch.scorer.channels.message import severity_of

MAX_REMINDERS = 1000


@dataclass(frozen=True, slots=True)
class WouldSend:
    """One message that would have gone out at `at`. `held_back` says why it would not have."""

    at: datetime
    event: str
    alert_id: str
    stage: str
    metric: str
    severity: str
    sentence: str
    held_back: str = ""


def replay(
    channel: Channel,
    alerts: Sequence[Mapping[str, Any]],
    *,
    since: datetime,
    now: datetime,
) -> list[WouldSend]:
    """Messages from `since` to `now`, oldest first, had the channel been there all along.

    `alerts` may hold some that were never opened because the judge is not calibrated
    (`calibrated` False): they are listed with the reason.
    """
    found: list[WouldSend] = []
    for alert in alerts:
        if hears(channel, alert, severity_of(alert)):
            found += _of_alert(channel, alert, now)
    return sorted((item for item in found if since <= item.at <= now), key=lambda item: item.at)


def _of_alert(channel: Channel, alert: Mapping[str, Any], now: datetime) -> list[WouldSend]:
    opened = datetime.fromisoformat(alert["opened_at"])
    if "opened" not in channel.events:
        return []
    held = "" if alert.get("calibrated", True) else "the judge is not calibrated"
    times: list[tuple[datetime, str]] = [(opened, "opened")]
    mark = alert.get("mark") or {}
    acked = datetime.fromisoformat(mark["at"]) if mark.get("state") == "acked" else None
    closed = _closed(alert)
    quiet_from = min([t for t in (acked, closed) if t is not None], default=now)
    if "reminder" in channel.events and channel.renotify_hours > 0:
        every = timedelta(hours=channel.renotify_hours)
        at, n = opened + every, 0
        while at < quiet_from and n < MAX_REMINDERS:
            times.append((at, "reminder"))
            at, n = at + every, n + 1
    if acked is not None and "acked" in channel.events and (closed is None or acked < closed):
        times.append((acked, "acked"))
    if closed is not None and "closed" in channel.events:
        times.append((closed, "closed"))
    return [
        WouldSend(
            at, event, alert["alert_id"], alert["stage"], alert["metric"],
            severity_of(alert), alert["sentence"], held,
        )
        for at, event in times
    ]  # fmt: skip


def _closed(alert: Mapping[str, Any]) -> datetime | None:
    if alert.get("closed_at"):
        return datetime.fromisoformat(alert["closed_at"])
    recovery = alert.get("recovery") or {}
    return datetime.fromisoformat(recovery["at"]) if recovery.get("back") else None
