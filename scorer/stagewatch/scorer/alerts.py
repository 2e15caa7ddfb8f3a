"""From drift to one readable paragraph. Pure: readings and diagnoses in, alerts out."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from stagewatch.core.store.scores import Reading
from stagewatch.scorer.drift import Alarm, detect
from stagewatch.scorer.estimate import Estimate, mean_estimate, wilson
from stagewatch.scorer.series import Break, breaks, value_for

FAMILY_ALPHA = 0.01
"""Chance per project that any monitored metric of a quiet app ever alarms; split over metrics."""

NEAR = timedelta(hours=24)
NEAR_READINGS = 25
MAX_TURNS = 20
SAMPLED = 400
RECOVERY_READINGS = 500
"""Readings after the next change that tell whether it mended things; a later fall has an alert of
its own, and must not reopen this one."""
FEWEST_RECOVERED = 30


@dataclass(frozen=True, slots=True)
class Monitor:
    """A stream to watch: a metric as a goodness in [0, 1] (1 is best) and the words for it.

    `stat` is how a reading becomes that goodness (`series.value_for`); `flip` turns a badness
    such as stale_context around. `stage` is named when the failing turns do not say otherwise.
    """

    metric: str
    stat: str
    stage: str
    label: str
    flip: bool = False


MONITORS: tuple[Monitor, ...] = (
    Monitor("faithfulness", "pass_rate", "generation", "faithful answers"),
    Monitor(
        "first_relevant_rank",
        "pass_rate",
        "ranking",
        "first relevant passage within the rank limit",
    ),
    Monitor("retrieved_recall", "pass_rate", "retrieval", "questions with a relevant passage"),
    Monitor("stale_context", "mean", "stale_source", "windows free of superseded versions", True),
    Monitor("rewrite_fidelity", "pass_rate", "rewrite", "rewrites that keep the question"),
)


@dataclass(frozen=True, slots=True)
class Recovery:
    """What the goodness was from the next change on: `back` when it lies within the 95 %
    interval of the good times or above, on at least `FEWEST_RECOVERED` turns.
    """

    at: datetime
    what: str
    value: float
    n: int
    back: bool


@dataclass(frozen=True, slots=True)
class Alert:
    """An alarm as people read it. `before`/`after` shares are of the goodness, 0 to 1.

    `failing` and `passing` are turns of the time since, at most `SAMPLED` of each, the newest
    last: what the failing ones share is looked for among them.
    """

    alert_id: str
    project: str
    metric: str
    stage: str
    opened_at: datetime
    since: datetime
    before: float
    after: float
    low: float
    high: float
    sentence: str
    near: tuple[str, ...]
    turn_ids: tuple[str, ...]
    calibrated: bool = True
    stages: dict[str, int] = field(default_factory=dict)
    n: int = 0
    recovery: Recovery | None = None
    failing: tuple[str, ...] = ()
    passing: tuple[str, ...] = ()
    basis: str = "judge"
    fingerprint: str = ""


def goodness(monitor: Monitor, reading: Reading) -> float | None:
    """The reading as a value in [0, 1] where 1 is best; None when it has no part."""
    value = value_for(monitor.stat, reading)
    if value is None:
        return None
    return 1.0 - value if monitor.flip else value


def restarts(readings: Sequence[Reading], found: Sequence[Break]) -> list[int]:
    """Positions of the first reading at or after each break."""
    positions = []
    index = 0
    for item in found:
        while index < len(readings) and readings[index].at < item.at:
            index += 1
        positions.append(index)
    return positions


def peers_of(reading: Reading) -> tuple[str, tuple[str, bool]]:
    """Whom a reading is ranked among: its service's turns, of working days or of weekends (UTC).

    So neither a service that grows nor weekends that are always harder look like a change.
    """
    service = reading.dimensions.get("service", "")
    return service, (service, reading.at.weekday() >= _SATURDAY)


_SATURDAY = 5


def alerts_of(
    project: str,
    monitor: Monitor,
    readings: Sequence[Reading],
    stages: Mapping[str, str],
    *,
    calibrated: bool,
    alpha: float,
) -> list[Alert]:
    """The alerts of one stream, oldest first; the same readings always give the same alerts.

    Args:
        project: whose readings they are.
        monitor: what is watched.
        readings: in time order; only those of the uniform stratum are used.
        stages: turn id → diagnosed stage, for naming the stage and the turns that show it.
        calibrated: whether the judge behind judge-basis readings is calibrated.
        alpha: this stream's share of the family's false-alarm chance.
    """
    used = [r for r in readings if r.stratum == "uniform" and goodness(monitor, r) is not None]
    values = [goodness(monitor, r) or 0.0 for r in used]
    changes = breaks(used)
    kinds = [peers_of(reading) for reading in used]
    found = detect(values, restarts(used, changes), kinds=kinds, alpha=alpha)
    ends = [*(alarm.start for alarm in found[1:]), len(used)]
    return [
        replace(
            _alert(project, monitor, used, values, changes, alarm, stages, calibrated=calibrated),
            recovery=_recovery(used, values, changes, alarm, ends[number]),
        )
        for number, alarm in enumerate(found)
    ]


def _recovery(
    readings: Sequence[Reading],
    values: Sequence[float],
    changes: Sequence[Break],
    alarm: Alarm,
    following: int,
) -> Recovery | None:
    """How the stream went on after the first change that came after the alarm.

    `following` is where the stream's next fall begins. None before the next change, and before
    any reading after it.
    """
    change = next((item for item in changes if item.at > readings[alarm.at].at), None)
    if change is None:
        return None
    begin = next(i for i, reading in enumerate(readings) if reading.at >= change.at)
    # A fall right after the change belongs to it: nothing was mended in between.
    soon = following - begin < FEWEST_RECOVERED
    end = len(readings) if soon else following
    span = range(begin, min(end, begin + RECOVERY_READINGS))
    since = _estimate(readings, values, span)
    good = wilson(alarm.reference_mean, max(alarm.reference_n, 1))
    if since is None:
        return None
    back = since.n >= FEWEST_RECOVERED and since.value >= good[0]
    return Recovery(change.at, change.what, since.value, since.n, back)


def _estimate(readings: Sequence[Reading], values: Sequence[float], span: range) -> Estimate | None:
    return mean_estimate(
        [values[i] for i in span],
        [readings[i].inclusion for i in span],
        [readings[i].conversation_id for i in span],
    )


def _alert(
    project: str,
    monitor: Monitor,
    readings: Sequence[Reading],
    values: Sequence[float],
    changes: Sequence[Break],
    alarm: Alarm,
    stages: Mapping[str, str],
    *,
    calibrated: bool,
) -> Alert:
    begin = _begin(readings, alarm.start)
    since, opened = readings[begin].at, readings[alarm.at].at
    # Everything until the next change belongs to the same state of the app.
    later = [item.at for item in changes if item.at > opened]
    end = next((i for i, r in enumerate(readings) if later and r.at >= later[0]), len(readings))
    span = range(begin, end)
    estimate = _estimate(readings, values, span)
    bad = [readings[i].turn_id for i in span if values[i] < 0.5]
    good = [readings[i].turn_id for i in span if values[i] >= 0.5]
    named = Counter(stages[t] for t in bad if stages.get(t, "ok") not in {"ok", "unknown"})
    stage = named.most_common(1)[0][0] if named else monitor.stage
    near = _near(changes, restarts(readings, changes), alarm, since)
    shown = [t for t in bad if stages.get(t) == stage] or bad
    after = estimate.value if estimate else alarm.after_mean
    low, high = (estimate.low, estimate.high) if estimate else (0.0, 1.0)
    judge = readings[alarm.start].fingerprint
    key = f"{project}/{monitor.metric}/{judge}/{readings[alarm.at].turn_id}"
    return Alert(
        alert_id=hashlib.sha256(key.encode()).hexdigest()[:16],
        project=project,
        metric=monitor.metric,
        stage=stage,
        opened_at=opened,
        since=since,
        before=alarm.reference_mean,
        after=after,
        low=low,
        high=high,
        sentence=sentence(
            monitor, stage, alarm.reference_mean, after, low, high, len(span), since, near
        ),
        near=near,
        turn_ids=tuple(shown[:MAX_TURNS]),
        calibrated=calibrated,
        stages=dict(named),
        n=len(span),
        failing=tuple(bad[-SAMPLED:]),
        passing=tuple(good[-SAMPLED:]),
        basis=readings[alarm.start].basis,
        fingerprint=judge,
    )


def _begin(readings: Sequence[Reading], start: int) -> int:
    """The first reading of the moment in which a change began: those of one moment stand in no
    order of time.
    """
    while start > 0 and readings[start - 1].at == readings[start].at:
        start -= 1
    return start


def worst_first(alerts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Stored alerts as a person should read them: open ones first, of these what has not
    recovered, then the largest drop; the others newest first.
    """

    def key(alert: Mapping[str, Any]) -> tuple[bool, bool, float]:
        is_open = alert["state"] == "open"
        return (not is_open, is_open and is_back(alert), -(alert["from"] - alert["to"]) * is_open)

    newest = sorted(alerts, key=lambda alert: str(alert["opened_at"]), reverse=True)
    return [dict(alert) for alert in sorted(newest, key=key)]


def is_back(alert: Mapping[str, Any]) -> bool:
    """Whether a stored alert's stream is back where it was in the good times."""
    return bool((alert.get("recovery") or {}).get("back"))


def _near(
    changes: Sequence[Break], positions: Sequence[int], alarm: Alarm, since: datetime
) -> tuple[str, ...]:
    """What changed within a few readings of the start; else the newest change of the day before."""
    close = [
        change.what
        for change, position in zip(changes, positions, strict=True)
        if abs(position - alarm.start) <= NEAR_READINGS
    ]
    if close:
        return tuple(close)
    before = [change.what for change in changes if since - NEAR <= change.at <= since]
    return tuple(before[-1:])


def sentence(
    monitor: Monitor,
    stage: str,
    before: float,
    after: float,
    low: float,
    high: float,
    n: int,
    since: datetime,
    near: Sequence[str],
) -> str:
    """An alert in words: stage, from what to what with interval and number of turns, since when,
    what changed.
    """
    changed = f" Near then: {'; '.join(near)}." if near else " No version changed near then."
    return (
        f"{stage.replace('_', ' ')}: {monitor.label} fell from {before:.0%} to {after:.0%} "
        f"(95 % interval {low:.0%} to {high:.0%}, n {n:,}) since {since:%Y-%m-%d %H:%M} UTC."
        f"{changed}"
    )
