"""Which messages are due. Pure: channels, alerts and the log in, messages to plan out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from stagewatch.core.store.deliveries import Delivery
from stagewatch.scorer.channels.channel import Channel, hears
from stagewatch.scorer.channels.message import message_id, severity_of

BACKOFF_S: tuple[float, ...] = (5, 30, 120, 600, 1800, 7200, 18_000)
"""Pauses between tries: eight tries within about eight hours, then the message is given up."""

LOST_AFTER = timedelta(seconds=180)
"""A message that is `sending` for longer than any try may take was cut short by a crash."""


@dataclass(frozen=True, slots=True)
class Due:
    """A message to plan: which event of which alert, to which channel."""

    channel: Channel
    alert: Mapping[str, Any]
    event: str
    number: int
    delivery_id: str


def due_messages(
    project: str,
    channels: Sequence[Channel],
    alerts: Sequence[Mapping[str, Any]],
    log: Sequence[Delivery],
    now: datetime,
) -> list[Due]:
    """What every channel has to be told and has not been, at most one message an alert and event.

    Args:
        project: whose channels and alerts they are.
        channels: all of them; disabled ones hear nothing.
        alerts: with their states at `now`.
        log: the newest state of every message so far.
        now: the time.
    """
    told: dict[tuple[str, str], list[Delivery]] = {}
    for item in log:
        told.setdefault((item.channel, item.alert_id), []).append(item)
    found = []
    for channel in channels:
        for alert in alerts:
            if not channel.enabled or not hears(channel, alert, severity_of(alert)):
                continue
            before = [
                item
                for item in told.get((channel.name, alert["alert_id"]), [])
                if is_of(channel, item)
            ]
            event = next_event(channel, alert, before, now)
            if event is None:
                continue
            name, number = event
            identity = message_id(project, channel.name, alert["alert_id"], name, number)
            found.append(Due(channel, alert, name, number, identity))
    return found


def is_of(channel: Channel, item: Delivery) -> bool:
    """Whether a message is this channel's, not one of a deleted channel of the same name."""
    made = channel.made or channel.since
    return not made or item.created_at >= datetime.fromisoformat(made)


def next_event(
    channel: Channel, alert: Mapping[str, Any], before: Sequence[Delivery], now: datetime
) -> tuple[str, int] | None:
    """(event, number) that this channel is to be told next of this alert; None when it is up to
    date. `before` are its messages about the alert.

    They go one after another: nothing follows a message that is still under way, and nothing but
    another `opened` follows one that was given up.
    """
    state = alert["state"]
    events = {item.event for item in before}
    if "opened" not in events:
        fresh = datetime.fromisoformat(alert["noticed_at"]) >= datetime.fromisoformat(channel.since)
        # Whom it is blamed on may change once the judge has read its frozen set.
        is_new = state == "open" and fresh and not alert.get("awaits_canary")
        return ("opened", 0) if is_new and "opened" in channel.events else None
    if any(item.state in {"sending", "retry"} for item in before):
        return None
    if not any(item.event == "opened" and item.state == "sent" for item in before):
        return _opened_anew(channel, before, now) if state == "open" else None
    if state in {"acked", "closed"}:
        wanted = state in channel.events and state not in events
        return (state, 0) if wanted and "closed" not in events else None
    if state == "open" and "reminder" in channel.events:
        return _reminder(channel, alert, before, now)
    return None


def _opened_anew(
    channel: Channel, before: Sequence[Delivery], now: datetime
) -> tuple[str, int] | None:
    """An alert that never got through is told when a reminder would be due."""
    every = timedelta(hours=channel.renotify_hours)
    last = max(item.created_at for item in before)
    if "reminder" not in channel.events or not every or now - last < every:
        return None
    return "opened", 1 + max(item.number for item in before if item.event == "opened")


def _reminder(
    channel: Channel, alert: Mapping[str, Any], before: Sequence[Delivery], now: datetime
) -> tuple[str, int] | None:
    last = max(item.created_at for item in before)
    reminders = sum(item.event == "reminder" for item in before)
    mark = alert.get("mark") or {}
    woke = mark.get("until") if mark.get("state") == "snoozed" else None
    after_snooze = woke is not None and last < datetime.fromisoformat(woke) <= now
    every = timedelta(hours=channel.renotify_hours)
    again = channel.renotify_hours > 0 and now - last >= every
    return ("reminder", reminders + 1) if after_snooze or again else None


def due_retries(log: Sequence[Delivery], now: datetime) -> list[Delivery]:
    """Messages to try again: their pause is over, or a crash cut their last try short."""
    return [
        item
        for item in log
        if (item.state == "retry" and item.next_at is not None and item.next_at <= now)
        or (item.state == "sending" and now - item.at > LOST_AFTER)
    ]


def pause_before(attempt: int, asked_s: float | None) -> timedelta | None:
    """Pause after try number `attempt` (1 is the first); None when it was the last.

    A peer's own Retry-After counts when it is longer, up to an hour.
    """
    if attempt > len(BACKOFF_S):
        return None
    return timedelta(seconds=max(BACKOFF_S[attempt - 1], min(asked_s or 0.0, 3600.0)))
