"""Alerts, and what people did with them.

The two are kept apart: the scorer rewrites an alert whenever its numbers change, and must not
undo what somebody said of it in the same moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from stagewatch.core.clock import rfc3339
from stagewatch.core.store.client import Store
from stagewatch.core.store.documents import get_document, list_documents, put_document

ALERTS = "alerts"
_MARKS = "alert_marks"

AlertState = Literal["open", "acked", "snoozed", "closed"]


def put_alert(store: Store, project: str, body: Mapping[str, Any], *, at: datetime) -> None:
    """Store or replace an alert; `body` has the fields of the HTTP contract."""
    put_document(store, ALERTS, body["alert_id"], body, at=at, project=project)


def mark_alert(
    store: Store,
    project: str,
    alert_id: str,
    state: AlertState,
    *,
    by: str,
    at: datetime,
    until: datetime | None = None,
) -> None:
    """Keep what a person did with an alert; a snooze ends at `until`."""
    mark = {
        "alert_id": alert_id,
        "state": state,
        "by": by,
        "at": rfc3339(at),
        "until": rfc3339(until) if until else None,
    }
    put_document(store, _MARKS, alert_id, mark, at=at, project=project)


def list_alerts(store: Store, project: str, now: datetime) -> list[dict[str, Any]]:
    """Every alert with the state it has at `now`, oldest edit first."""
    marks = {mark["alert_id"]: mark for mark in list_documents(store, _MARKS, project=project)}
    return [
        with_mark(body, marks.get(body["alert_id"]), now)
        for body in list_documents(store, ALERTS, project=project)
    ]


def get_alert(store: Store, project: str, alert_id: str, now: datetime) -> dict[str, Any] | None:
    """One alert as `list_alerts` gives it, or None."""
    body = get_document(store, ALERTS, alert_id, project=project)
    if body is None:
        return None
    return with_mark(body, get_document(store, _MARKS, alert_id, project=project), now)


def with_mark(
    body: Mapping[str, Any], mark: Mapping[str, Any] | None, now: datetime
) -> dict[str, Any]:
    """The alert with `state`, and who marked it when (`mark`). Pure.

    Closed is for good. A snooze that is over leaves the alert open; the mark stays, so that a
    reader can tell.
    """
    state = body.get("state", "open")
    if mark is not None:
        over = mark["until"] is not None and datetime.fromisoformat(mark["until"]) <= now
        state = "open" if mark["state"] == "snoozed" and over else mark["state"]
    if body.get("closed_at"):
        state = "closed"
    return {**body, "state": state, "mark": dict(mark) if mark else None}


def minutes_with_turns(
    store: Store, project: str, since: datetime, until: datetime
) -> tuple[list[datetime], list[int]]:
    """(minutes that had a turn started in them, how many), in time order; probes don't count.

    Re-assembled turns may be counted twice until the engine merges them: this is about whether
    anything came.
    """
    found = store.rows(
        """SELECT toStartOfMinute(started_at) AS minute, count() AS n FROM turns
           WHERE project = {project:String} AND NOT probe AND replaced_by = ''
             AND started_at >= {since:DateTime64(6, 'UTC')}
             AND started_at <= {until:DateTime64(6, 'UTC')}
           GROUP BY minute ORDER BY minute""",
        {"project": project, "since": since, "until": until},
    )
    return [row["minute"].replace(tzinfo=UTC) for row in found], [int(row["n"]) for row in found]


def last_turns(store: Store, since: datetime, until: datetime) -> dict[str, datetime]:
    """Project → start of its newest turn in [since, until]; probes don't count."""
    rows = store.rows(
        """SELECT project, max(started_at) AS last FROM turns
           WHERE started_at >= {since:DateTime64(6, 'UTC')}
             AND started_at <= {until:DateTime64(6, 'UTC')}
             AND NOT probe AND replaced_by = ''
           GROUP BY project ORDER BY project""",
        {"since": since, "until": until},
    )
    return {row["project"]: row["last"].replace(tzinfo=UTC) for row in rows}
