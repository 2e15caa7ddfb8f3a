"""Looks for drift in every project and keeps the alerts: the rim around `alerts` and `drift`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from stagewatch.core.codec import to_plain
from stagewatch.core.store.client import Store
from stagewatch.core.store.documents import get_document, list_documents, put_document
from stagewatch.core.store.feedback import join_feedback
from stagewatch.core.store.scores import Reading, readings
from stagewatch.scorer.alerts import FAMILY_ALPHA, MONITORS, Alert, Monitor, alerts_of
from stagewatch.scorer.calibration_state import calibration_check

LOOKBACK = timedelta(days=30)
COLLECTION = "alerts"


def projects_with_scores(store: Store, since: datetime) -> list[str]:
    """Projects that have scores of turns started since then."""
    rows = store.rows(
        """SELECT DISTINCT project FROM scores
           WHERE started_at >= {since:DateTime64(6, 'UTC')} ORDER BY project""",
        {"since": since},
    )
    return [row["project"] for row in rows]


def stages_of(store: Store, project: str, since: datetime) -> dict[str, str]:
    """Turn id → diagnosed stage for the failing turns since then."""
    rows = store.rows(
        """SELECT turn_id, stage FROM diagnoses FINAL
           WHERE project = {project:String} AND started_at >= {since:DateTime64(6, 'UTC')}
             AND stage NOT IN ('ok', 'unknown')""",
        {"project": project, "since": since},
    )
    return {row["turn_id"]: row["stage"] for row in rows}


def find_alerts(
    store: Store,
    project: str,
    now: datetime,
    *,
    is_calibrated: Callable[[str, str], bool],
    lookback: timedelta = LOOKBACK,
) -> list[Alert]:
    """Every alert of a project in the look-back window, oldest first.

    Args:
        store: where the readings are.
        project: whose.
        now: end of the window.
        is_calibrated: (metric, fingerprint) → whether that judge counts for alerts.
        lookback: length of the window.
    """
    since = now - lookback
    stages = stages_of(store, project, since)
    alpha = FAMILY_ALPHA / len(MONITORS)
    found: list[Alert] = []
    for monitor in MONITORS:
        live = readings(store, project, monitor.metric, since, now)
        calibrated = _calibrated(monitor, live, is_calibrated)
        found += alerts_of(project, monitor, live, stages, calibrated=calibrated, alpha=alpha)
    return sorted(found, key=lambda alert: alert.opened_at)


def _calibrated(
    monitor: Monitor, live: list[Reading], is_calibrated: Callable[[str, str], bool]
) -> bool:
    judged = [r for r in live if r.basis == "judge"]
    return not judged or is_calibrated(monitor.metric, judged[-1].fingerprint)


def refresh_alerts(
    store: Store,
    project: str,
    now: datetime,
    *,
    is_calibrated: Callable[[str, str], bool],
) -> list[dict[str, Any]]:
    """Store alerts that are new and return those that were opened now.

    An uncalibrated judge opens none. What a person did with an alert (acked, snoozed) is kept;
    numbers of a known alert are brought up to date.
    """
    known = {item["alert_id"]: item for item in list_documents(store, COLLECTION, project=project)}
    opened = []
    for alert in find_alerts(store, project, now, is_calibrated=is_calibrated):
        if not alert.calibrated:
            continue
        before = known.get(alert.alert_id)
        body = {**as_contract(alert), "state": before["state"] if before else "open"}
        if before is None:
            opened.append(body)
        if before != body:
            put_document(store, COLLECTION, alert.alert_id, body, at=now, project=project)
    return opened


def as_contract(alert: Alert) -> dict[str, Any]:
    """The alert with the field names of the HTTP contract (`from` is no Python name)."""
    body: dict[str, Any] = to_plain(alert)
    body["from"] = body.pop("before")
    body["to"] = body.pop("after")
    return body


def set_alert_state(
    store: Store, project: str, alert_id: str, state: str, *, now: datetime
) -> Mapping[str, Any] | None:
    """Change an alert's state and return it; None when there is no such alert."""
    body = get_document(store, COLLECTION, alert_id, project=project)
    if body is None:
        return None
    body["state"] = state
    put_document(store, COLLECTION, alert_id, body, at=now, project=project)
    return body


FEEDBACK_KEPT = timedelta(days=30)
"""How long feedback waits for its trace."""


def watch_once(store: Store, now: datetime) -> int:
    """Join feedback that waited for its trace, look for drift in every project; alerts opened."""
    join_feedback(store, since=now - FEEDBACK_KEPT, now=now)
    opened = 0
    for project in projects_with_scores(store, now - LOOKBACK):
        check = calibration_check(store, project)
        opened += len(refresh_alerts(store, project, now, is_calibrated=check))
    return opened
