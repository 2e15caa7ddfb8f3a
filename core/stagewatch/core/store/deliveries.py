"""The log of messages to channels: planned, tried, sent or given up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, Literal

from stagewatch.core.store.client import Store

DeliveryState = Literal["sending", "sent", "retry", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One message and how far it is.

    `delivery_id` is also the message's id at the receiver: a repeat has the same. `number` counts
    messages of one event (reminders). `status` is the HTTP status, 0 without one; `said` is the
    peer's answer in short or why there is none. `next_at` is when it is tried again.
    """

    project: str
    delivery_id: str
    channel: str
    alert_id: str
    event: str
    created_at: datetime
    at: datetime
    number: int = 0
    attempt: int = 0
    state: DeliveryState = "sending"
    status: int = 0
    said: str = ""
    next_at: datetime | None = None
    body: str = ""


_COLUMNS = tuple(spec.name for spec in fields(Delivery))
_LIGHT = ", ".join(name for name in _COLUMNS if name != "body")


def put_delivery(store: Store, item: Delivery) -> None:
    """Store how far a message is; the newest `at` wins."""
    store.put("deliveries", [{name: getattr(item, name) for name in _COLUMNS}])


def deliveries_since(store: Store, project: str, since: datetime) -> list[Delivery]:
    """The newest state of every message planned since then, oldest first, without bodies."""
    found = store.rows(
        f"""SELECT {_LIGHT} FROM deliveries FINAL
            WHERE project = {{project:String}}
              AND created_at >= {{since:DateTime64(6, 'UTC')}}
            ORDER BY created_at, delivery_id""",
        {"project": project, "since": since},
    )
    return [_delivery(row) for row in found]


def recent_deliveries(
    store: Store,
    project: str,
    *,
    channel: str | None = None,
    alert_id: str | None = None,
    limit: int = 100,
) -> list[Delivery]:
    """The newest messages of a project, newest first, without bodies."""
    found = store.rows(
        f"""SELECT {_LIGHT} FROM deliveries FINAL
            WHERE project = {{project:String}}
              AND ({{channel:String}} = '' OR channel = {{channel:String}})
              AND ({{alert:String}} = '' OR alert_id = {{alert:String}})
            ORDER BY created_at DESC, delivery_id LIMIT {{limit:UInt32}}""",
        {
            "project": project,
            "channel": channel or "",
            "alert": alert_id or "",
            "limit": limit,
        },
    )
    return [_delivery(row) for row in found]


def bodies_of(store: Store, project: str, delivery_ids: Sequence[str]) -> dict[str, str]:
    """Delivery id → body, for messages that are sent again."""
    if not delivery_ids:
        return {}
    found = store.rows(
        """SELECT delivery_id, body FROM deliveries FINAL
           WHERE project = {project:String} AND delivery_id IN {ids:Array(String)}""",
        {"project": project, "ids": list(delivery_ids)},
    )
    return {row["delivery_id"]: row["body"] for row in found}


def _delivery(row: Mapping[str, Any]) -> Delivery:
    times = {
        name: row[name].replace(tzinfo=UTC) if row[name] is not None else None
        for name in ("created_at", "next_at", "at")
    }
    return Delivery(**{**row, **times})
