"""Alerts and channels made by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from stagewatch.core.clock import rfc3339
from stagewatch.scorer.channels.channel import Channel, parse_channel

AT = datetime(2026, 11, 30, 12, tzinfo=UTC)
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def alert(alert_id: str = "a1", **fields: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "alert_id": alert_id, "project": "p", "metric": "faithfulness", "stage": "generation",
        "opened_at": rfc3339(AT), "since": rfc3339(AT - timedelta(minutes=5)), "from": 0.97,
        "to": 0.6, "low": 0.5, "high": 0.7, "near": ["release 1 → 2"], "turn_ids": ["t-1", "t-2"],
        "sentence": "generation: faithful answers fell from 97% to 60%.", "state": "open",
        "noticed_at": rfc3339(AT), "closed_at": None, "recovery": None, "mark": None,
    }  # fmt: skip
    return {**base, **fields}


def channel(name: str = "ops", **fields: Any) -> Channel:
    base: dict[str, Any] = {
        "name": name, "url": "https://hooks.example/x", "secret": SECRET,
        "since": rfc3339(AT - timedelta(hours=1)),
    }  # fmt: skip
    return parse_channel({**base, **fields})
