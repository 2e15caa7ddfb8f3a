"""What a message says: JSON for webhooks, a title and a text for people. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

import orjson

from stagewatch.core.clock import rfc3339

NO_DATA = "no_data"
CRITICAL_DROP = 0.25
_MAX_LINKS = 5

_WORDS: Mapping[str, str] = {
    "opened": "Alert",
    "reminder": "Still open",
    "acked": "Acknowledged",
    "closed": "Closed",
    "test": "Test message",
}


_TOLD = (
    "alert_id", "project", "state", "stage", "metric", "since", "opened_at", "from", "to", "low",
    "high", "sentence", "near", "turn_ids",
)  # fmt: skip
"""Fields of an alert that a webhook gets."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message in both its forms; `body` is what is stored and sent to webhooks."""

    message_id: str
    title: str
    text: str
    body: str


def severity_of(alert: Mapping[str, Any]) -> str:
    """`critical` when data stopped coming or the share fell by `CRITICAL_DROP` or more, else
    `warning`. The judge's own drift is a warning: it says nothing of the app.
    """
    if alert["stage"] == NO_DATA:
        return "critical"
    if alert["stage"] == "judge":
        return "warning"
    return "critical" if alert["from"] - alert["to"] >= CRITICAL_DROP else "warning"


def message_id(project: str, channel: str, alert_id: str, event: str, number: int) -> str:
    """The id of a message: the same for every try, so that a receiver can drop a repeat."""
    key = "\0".join((project, channel, alert_id, event, str(number)))
    return "msg_" + hashlib.sha256(key.encode()).hexdigest()[:24]


def compose(
    event: str,
    alert: Mapping[str, Any],
    *,
    message_id: str,
    at: datetime,
    public_url: str,
    words: bool,
) -> Message:
    """The message of an event.

    Args:
        event: `opened`, `reminder`, `acked`, `closed` or `test`.
        alert: with the fields of the HTTP contract.
        message_id: see `message_id`.
        at: when the message was planned.
        public_url: address of the UI as people reach it; empty leaves paths.
        words: whether words of users' questions may be in it.
    """
    base = public_url.rstrip("/")
    severity = severity_of(alert)
    here = f"?project={quote(str(alert['project']), safe='')}"
    links = [f"{base}/turns/{turn_id}{here}" for turn_id in alert["turn_ids"][:_MAX_LINKS]]
    probe = str(alert.get("probe") or "")
    page = [f"{base}/probes/{quote(probe, safe='')}{here}"] if probe else []
    lines = [str(alert["sentence"])]
    lines += _kinds(alert, words=words)
    lines += _news(event, alert)
    lines += ["Turns: " + " ".join(links)] if links and base else []
    lines += ["Probe: " + " ".join(page)] if page and base else []
    lines += [f"{base}/alerts{here}#alert-{alert['alert_id']}"] if base else []
    stage = str(alert["stage"]).replace("_", " ")
    where = f"probe {probe} of {alert['project']}" if probe else str(alert["project"])
    title = f"{_WORDS[event]}: {stage} in {where} ({severity})"
    data = {
        **{name: alert[name] for name in _TOLD},
        "severity": severity,
        "kinds": _kinds(alert, words=words),
        "links": [*links, *page] if base else [],
        "probe": probe,
        "text": "\n".join(lines),
        "title": title,
    }
    sent = {"type": f"alert.{event}", "timestamp": rfc3339(at), "data": data}
    return Message(message_id, title, "\n".join(lines), orjson.dumps(sent).decode())


def read_message(message_id: str, body: str) -> Message:
    """The message from its stored body."""
    data = orjson.loads(body)["data"]
    return Message(message_id, data["title"], data["text"], body)


def _kinds(alert: Mapping[str, Any], *, words: bool) -> list[str]:
    """Which turns it is about; what stems from users' words only where the channel wants it."""
    return [
        kind["sentence"] for kind in alert.get("kinds") or [] if words or kind["what"] != "words"
    ]


def _news(event: str, alert: Mapping[str, Any]) -> list[str]:
    mark = alert.get("mark") or {}
    if event == "acked" and mark:
        return [f"Acknowledged by {mark['by']} at {mark['at']}."]
    if event == "closed":
        recovery = alert.get("recovery")
        if recovery:
            back = f"Back at {recovery['value']:.0%} (n {recovery['n']:,}) since {recovery['at']}"
            return [f"{back}: {recovery['what']}."]
        return [f"Closed at {alert['closed_at']}."] if alert.get("closed_at") else []
    return []


def sample_alert(project: str, now: datetime) -> dict[str, Any]:
    """An alert for a test message, marked as one."""
    return {
        "alert_id": "test", "project": project, "metric": "faithfulness", "stage": "test",
        "state": "open", "opened_at": rfc3339(now), "since": rfc3339(now), "from": 0.95,
        "to": 0.85, "low": 0.8, "high": 0.89, "near": [], "turn_ids": [],
        "sentence": "This is a test of this channel: nothing is wrong.",
    }  # fmt: skip
