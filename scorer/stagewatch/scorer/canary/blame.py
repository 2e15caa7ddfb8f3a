"""Whom an alert about the app is blamed on, once the judge is known to have moved. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from stagewatch.scorer.calibration_state import LABEL_OF
from stagewatch.scorer.canary.watch import JUDGE, SOON

AWAITED = timedelta(minutes=15)
"""How long an alert is held back from channels while the judge reads the frozen set."""


def with_blame(
    body: Mapping[str, Any], judge_alerts: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The alert with stage `judge` when the judge behind it moved near then: it was fine in the
    last reading before, and not back when the alert opened.
    """
    opened = datetime.fromisoformat(body["opened_at"])
    for moved in judge_alerts:
        if body["basis"] != "judge" or moved["fingerprint"] != body["fingerprint"]:
            continue
        closed = moved["closed_at"]
        near = datetime.fromisoformat(moved["since"]) <= opened and (
            closed is None or opened <= datetime.fromisoformat(closed)
        )
        if near and LABEL_OF.get(body["metric"]) == moved["metric"]:
            told = str(body["sentence"]).partition(": ")[2]
            sentence = (
                f"judge: {told} The judge itself moved on the frozen set near then: this is not "
                "blamed on the app."
            )
            return {**body, "stage": JUDGE, "judge_moved": True, "sentence": sentence}
    return {**body, "judge_moved": False}


def awaits_canary(body: Mapping[str, Any], last: datetime | None, now: datetime) -> bool:
    """Whether channels wait with this alert until the judge has read the frozen set.

    Args:
        body: the alert.
        last: when its judge read the set last; None when it never does.
        now: the time.
    """
    if body["basis"] != "judge" or last is None:
        return False
    noticed = datetime.fromisoformat(body["noticed_at"])
    return last < noticed - SOON and now - noticed < AWAITED
