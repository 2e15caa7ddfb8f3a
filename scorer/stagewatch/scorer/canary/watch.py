"""Reading the set on schedule, and saying so when the judge moved."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from stagewatch.core.clock import Clock, rfc3339
from stagewatch.core.codec import from_plain, to_plain
from stagewatch.core.settings import Settings
from stagewatch.core.store.alerts import list_alerts, put_alert
from stagewatch.core.store.canary import canary_runs, projects_judged_by, put_canary_run
from stagewatch.core.store.client import Store
from stagewatch.scorer.canary.items import CanarySet, current_set
from stagewatch.scorer.canary.moves import KINDS, Move, move_of
from stagewatch.scorer.canary.reading import SetReading, fresh_judge, read_set

JUDGE = "judge"
"""Stage of an alert about the judge itself."""

SOON = timedelta(hours=1)
"""A reading younger than this tells of the judge as it is now."""

_BACK = 0.05
"""A judge whose reading differs from the baseline's with a greater chance than this is back."""

_LOOKBACK = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class CanaryRun:
    """One reading of the set. `moves` compare it with the `baseline` run; both are empty for the
    first run of a judge, which is the baseline.
    """

    run_id: str
    fingerprint: str
    judge: str
    canary: str
    started_at: datetime
    size: int
    reading: SetReading
    number: int = 0
    baseline: str = ""
    moves: tuple[Move, ...] = ()

    @property
    def moved(self) -> tuple[Move, ...]:
        """Kinds of label on which the judge moved."""
        return tuple(move for move in self.moves if move.moved)

    @property
    def complete(self) -> bool:
        """Whether every item was read."""
        return not self.reading.unread


def runs_of(store: Store, fingerprint: str, canary: str) -> list[CanaryRun]:
    """The runs of a judge over a set, oldest first."""
    return [from_plain(CanaryRun, body) for body in canary_runs(store, fingerprint, canary)]


def is_due(
    last: datetime | None,
    first_score: datetime | None,
    now: datetime,
    every: timedelta,
    *,
    asked: bool = False,
) -> bool:
    """Whether the set is to be read.

    Args:
        last: when it was read last.
        first_score: when this judge scored its first turn: the set waits until it has worked for
            an hour, so that a judge that is only tried out costs nothing more.
        now: the time.
        every: how often; zero switches the schedule off.
        asked: somebody needs to know whether the judge moved.
    """
    if not every or first_score is None:
        return False
    if last is None:
        return now - first_score >= SOON
    return now - last >= every or (asked and now - last >= SOON)


def run_canary(
    store: Store, settings: Settings, clock: Clock, stopping: Callable[[], bool] = lambda: False
) -> CanaryRun:
    """Read the set now, store the run, and open or close alerts in every project that this judge
    scores.

    Raises:
        SettingsError: the configured judge cannot be had.
        StoreError: the store failed.
    """
    fresh = fresh_judge(settings, store, clock)
    canary, now = current_set(store), clock.now()
    known = runs_of(store, fresh.judge.fingerprint, canary.name)
    reading = read_set(fresh, canary.items, stopping)
    run = CanaryRun(
        secrets.token_hex(8), fresh.judge.fingerprint, fresh.judge.name, canary.name, now,
        len(canary.items), reading,
    )  # fmt: skip
    run = compared(run, known, canary)
    if reading.unread and not (reading.faithfulness or reading.chunk_relevance):
        # An outage is no reading: it would only put the next one off.
        return run
    put_canary_run(store, to_plain(run), at=clock.now())
    for project in projects_judged_by(store, run.fingerprint, now - _LOOKBACK):
        _tell(store, project, run, known, clock.now())
    return run


def compared(run: CanaryRun, known: Sequence[CanaryRun], canary: CanarySet) -> CanaryRun:
    """The run beside its baseline: the first complete run of this judge over this set."""
    baseline = next((item for item in known if item.complete), None)
    if baseline is None:
        return run
    number = 1 + sum(bool(item.baseline) for item in known)
    moves = []
    for kind in KINDS:
        size = len(baseline.reading.of(kind)) or len(canary.items)
        move = move_of(
            kind, baseline.reading.of(kind), run.reading.of(kind), size=size, reading=number
        )
        if move is not None:
            moves.append(move)
    return replace(run, number=number, baseline=baseline.run_id, moves=tuple(moves))


def _tell(
    store: Store, project: str, run: CanaryRun, known: Sequence[CanaryRun], now: datetime
) -> None:
    open_ones = {
        alert["metric"]: alert
        for alert in list_alerts(store, project, now)
        if alert.get("canary") and alert["closed_at"] is None
    }
    for move in run.moves:
        alert = open_ones.get(move.kind)
        if alert is None and move.moved:
            put_alert(store, project, judge_alert(project, run, move, known, now), at=now)
        elif alert is not None and move.chance > _BACK:
            _close(store, project, alert, now)
    for alert in open_ones.values():
        # A new judge has a baseline of its own: what the old one did is over.
        if alert["fingerprint"] != run.fingerprint:
            _close(store, project, alert, now)


def _close(store: Store, project: str, alert: Mapping[str, Any], now: datetime) -> None:
    body = {name: value for name, value in alert.items() if name not in {"mark", "state"}}
    put_alert(store, project, {**body, "closed_at": rfc3339(now)}, at=now)


_SAYS: Mapping[str, str] = {
    "faithfulness": "claims it calls supported",
    "chunk_relevance": "passages it calls relevant",
}


def judge_alert(
    project: str, run: CanaryRun, move: Move, known: Sequence[CanaryRun], now: datetime
) -> dict[str, Any]:
    """The alert of a judge that moved, with the fields of the HTTP contract. `since` is the last
    reading before, in which it had not.
    """
    quiet = [item for item in known if not any(m.kind == move.kind and m.moved for m in item.moves)]
    since = quiet[-1].started_at if quiet else run.started_at
    key = f"{project}/judge/{move.kind}/{run.fingerprint}/{run.run_id}"
    return {
        "alert_id": hashlib.sha256(key.encode()).hexdigest()[:16],
        "project": project, "metric": move.kind, "stage": JUDGE, "fingerprint": run.fingerprint,
        "canary": run.run_id,
        "opened_at": rfc3339(now), "since": rfc3339(since),
        "from": move.before, "to": move.after, "low": move.low, "high": move.high,
        "sentence": (
            f"judge: the share of {_SAYS[move.kind]} in the frozen set went from "
            f"{move.before:.0%} to {move.after:.0%} ({move.up} of {move.n} texts up, "
            f"{move.down} down; exact sign test p {move.chance:.2g}) since "
            f"{since:%Y-%m-%d %H:%M} UTC. The texts are the same, so it is the judge that moved, "
            "not the app: label and calibrate again, or go back to the model of before."
        ),
        "near": [], "turn_ids": [], "calibrated": True, "stages": {}, "n": move.n,
        "recovery": None, "state": "open", "noticed_at": rfc3339(now), "closed_at": None,
    }  # fmt: skip
