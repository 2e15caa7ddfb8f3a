"""Looks for drift in every project and keeps the alerts: the rim around `alerts` and `drift`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from stagewatch.core.clock import rfc3339
from stagewatch.core.codec import to_plain
from stagewatch.core.store.alerts import (
    ALERTS,
    last_turns,
    minutes_with_turns,
    put_alert,
)
from stagewatch.core.store.canary import canary_times
from stagewatch.core.store.client import Store
from stagewatch.core.store.documents import list_documents
from stagewatch.core.store.feedback import join_feedback
from stagewatch.core.store.scores import Reading, readings
from stagewatch.core.store.turns import turns_by_id
from stagewatch.scorer.alerts import FAMILY_ALPHA, MONITORS, Alert, Monitor, alerts_of, is_back
from stagewatch.scorer.calibration_state import calibration_check
from stagewatch.scorer.canary.blame import awaits_canary, with_blame
from stagewatch.scorer.channels.message import NO_DATA
from stagewatch.scorer.kinds import kinds_of
from stagewatch.scorer.quiet import FLOOR, HISTORY, look, quiet_alert

LOOKBACK = timedelta(days=30)
_MORE = 1.2


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

    An uncalibrated judge opens none. Numbers of a known alert are brought up to date, and it is
    closed once its stream is back; what people did with it stands elsewhere (core/store/alerts).
    """
    known = {item["alert_id"]: item for item in list_documents(store, ALERTS, project=project)}
    moved = [item for item in known.values() if item.get("canary")]
    opened = []
    for alert in find_alerts(store, project, now, is_calibrated=is_calibrated):
        if not alert.calibrated:
            continue
        before = known.get(alert.alert_id)
        body = _kept(as_contract(alert), before, now)
        body["kinds"], body["kinds_n"] = _kinds(store, alert, before or {})
        body = with_blame(body, moved)
        last, _ = canary_times(store, alert.fingerprint)
        body["awaits_canary"] = awaits_canary(body, last, now)
        if before is None:
            opened.append(body)
        if before != body:
            put_alert(store, project, body, at=now)
    return opened


def _kept(body: dict[str, Any], before: Mapping[str, Any] | None, now: datetime) -> dict[str, Any]:
    """The alert as stored: when it was noticed stays, and it closes once its stream is back."""
    old = before or {}
    closed = old.get("closed_at") or (rfc3339(now) if is_back(body) else None)
    noticed = old.get("noticed_at") or rfc3339(now)
    return {**body, "state": "open", "noticed_at": noticed, "closed_at": closed}


def _kinds(
    store: Store, alert: Alert, before: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], int]:
    """What the failing turns share, and of how many turns that was found out.

    Looked for again only when a fifth more turns have come: it reads their texts.
    """
    seen = int(before.get("kinds_n") or 0)
    if seen and alert.n < seen * _MORE:
        return list(before["kinds"]), seen
    turns = turns_by_id(store, [*alert.failing, *alert.passing])
    found = kinds_of(
        [turns[i] for i in alert.failing if i in turns],
        [turns[i] for i in alert.passing if i in turns],
    )
    return [dict(to_plain(kind)) for kind in found], alert.n


def as_contract(alert: Alert) -> dict[str, Any]:
    """The alert with the field names of the HTTP contract (`from` is no Python name)."""
    body: dict[str, Any] = to_plain(alert)
    for name in ("failing", "passing"):
        body.pop(name)
    body["from"] = body.pop("before")
    body["to"] = body.pop("after")
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


def watch_silence(store: Store, now: datetime) -> int:
    """Open an alert for every project that stopped sending, close those where turns come again;
    alerts opened.
    """
    opened = 0
    silent: dict[str, list[dict[str, Any]]] = {}
    for body in list_documents(store, ALERTS):
        if body["stage"] == NO_DATA:
            silent.setdefault(body["project"], []).append(body)
    for project, last in last_turns(store, now - HISTORY, now).items():
        known = silent.get(project, [])
        waits = any(alert["closed_at"] is None for alert in known)
        if now - last <= FLOOR and not waits:
            # It is read a month back only where something may be wrong.
            continue
        found = look(*minutes_with_turns(store, project, now - HISTORY, now), now)
        if found is None:
            continue
        fresh = quiet_alert(project, found, now) if found.alarming else None
        for alert in known:
            if alert["closed_at"] is None and alert["since"] != rfc3339(found.last_at):
                put_alert(store, project, {**alert, "closed_at": rfc3339(now)}, at=now)
        if fresh is not None and fresh["alert_id"] not in {a["alert_id"] for a in known}:
            put_alert(store, project, fresh, at=now)
            opened += 1
    return opened
