"""Alerts of probes: their own readings, the same drift test and channels as live metrics have."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from stagewatch.core.clock import rfc3339
from stagewatch.core.codec import to_plain
from stagewatch.core.store.alerts import ALERTS, put_alert
from stagewatch.core.store.client import Store
from stagewatch.core.store.documents import list_documents
from stagewatch.core.store.probes import probe_readings
from stagewatch.scorer.alerts import (
    FAMILY_ALPHA,
    MAX_TURNS,
    MONITORS,
    Alert,
    Monitor,
    alerts_of,
    is_back,
)
from stagewatch.scorer.probes.rounds import watched

LOOKBACK = timedelta(days=90)
"""Longer than for live turns: a probe of a few rows has few readings a day."""

_WATCHED = ("retrieved_recall", "first_relevant_rank")
PROBE_MONITORS: tuple[Monitor, ...] = tuple(m for m in MONITORS if m.metric in _WATCHED)
"""What labels alone decide."""


def newest_alarm(
    store: Store, project: str, probe: str, monitor: Monitor, now: datetime
) -> Alert | None:
    """The newest alarm of one metric of a probe over the look-back window, if there was one."""
    # What was asked in this moment is in the range too.
    until = now + timedelta(seconds=1)
    found, versions = probe_readings(store, project, probe, monitor.metric, now - LOOKBACK, until)
    named = replace(monitor, label=f"probe {probe}: {monitor.label}")
    alarms = alerts_of(
        project, named, watched(found, versions), {},
        calibrated=True, alpha=FAMILY_ALPHA / len(PROBE_MONITORS),
    )  # fmt: skip
    return alarms[-1] if alarms else None


def watch_probe(store: Store, project: str, probe: str, now: datetime) -> int:
    """Look for drift in what a probe found; alerts opened.

    A metric has one open alert at most. It closes as a live one does: once enough rows after the
    next change are back within the interval of the good times.

    Raises:
        StoreError: the store failed.
    """
    known = alerts_of_probe(store, project, probe)
    opened = 0
    for monitor in PROBE_MONITORS:
        alarm = newest_alarm(store, project, probe, monitor, now)
        if alarm is None:
            continue
        body = contract_of(alarm, probe, now)
        before = _same(known, body)
        if before is None and is_back(body):
            # It came and went before anybody looked.
            continue
        body = _kept(body, before, now)
        opened += before is None
        if body != before:
            put_alert(store, project, body, at=now)
    return opened


def alerts_of_probe(store: Store, project: str, probe: str) -> list[dict[str, Any]]:
    """The stored alerts of a probe, oldest edit first."""
    found = list_documents(store, ALERTS, project=project)
    return [alert for alert in found if alert.get("probe") == probe]


def close_alerts(store: Store, project: str, probe: str, now: datetime) -> None:
    """Close what is open of a probe that is no more: nothing will ever tell that it is well."""
    for alert in alerts_of_probe(store, project, probe):
        if alert["closed_at"] is None:
            put_alert(store, project, {**alert, "closed_at": rfc3339(now)}, at=now)


def contract_of(alarm: Alert, probe: str, now: datetime) -> dict[str, Any]:
    """The alarm with the fields of the HTTP contract. `rows` are the dataset rows that show it;
    there are no live turns to link.
    """
    key = f"{alarm.project}/probe/{probe}/{alarm.metric}/{rfc3339(alarm.opened_at)}"
    body: dict[str, Any] = to_plain(alarm)
    failing, _ = body.pop("failing"), body.pop("passing")
    before, after = body.pop("before"), body.pop("after")
    return {
        **body,
        "alert_id": hashlib.sha256(key.encode()).hexdigest()[:16],
        "probe": probe,
        "rows": list(dict.fromkeys(reversed(failing)))[:MAX_TURNS],
        "turn_ids": [], "from": before, "to": after,
        "kinds": [], "kinds_n": 0, "awaits_canary": False, "judge_moved": False,
        "state": "open", "noticed_at": rfc3339(now), "closed_at": None,
    }  # fmt: skip


def _same(known: Sequence[Mapping[str, Any]], body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The stored alert that this alarm is: the open one of its metric, or one of its id."""
    of_metric = [alert for alert in known if alert["metric"] == body["metric"]]
    still = next((alert for alert in of_metric if alert["closed_at"] is None), None)
    return still or next((a for a in of_metric if a["alert_id"] == body["alert_id"]), None)


def _kept(body: dict[str, Any], before: Mapping[str, Any] | None, now: datetime) -> dict[str, Any]:
    """The alert as stored: its id and when it was noticed stay; it closes once it is well."""
    old = before or {}
    closed = old.get("closed_at") or (rfc3339(now) if is_back(body) else None)
    kept = {name: old[name] for name in ("alert_id", "opened_at", "noticed_at") if name in old}
    return {**body, **kept, "closed_at": closed}
