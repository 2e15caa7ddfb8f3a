"""From drift to one readable paragraph. Pure: readings and diagnoses in, alerts out."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from stagewatch.core.store.scores import Reading
from stagewatch.scorer.drift import Alarm, detect
from stagewatch.scorer.estimate import mean_estimate
from stagewatch.scorer.series import Break, breaks, value_for

FAMILY_ALPHA = 0.01
"""Chance per project that any monitored metric of a quiet app ever alarms; split over metrics."""

NEAR = timedelta(hours=24)
NEAR_READINGS = 25
MAX_TURNS = 20


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
class Alert:
    """An alarm as people read it. `start`/`end` shares are of the goodness, 0 to 1."""

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
    found = detect(values, restarts(used, changes), alpha=alpha)
    return [
        _alert(project, monitor, used, values, changes, alarm, stages, calibrated=calibrated)
        for alarm in found
    ]


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
    since, opened = readings[alarm.start].at, readings[alarm.at].at
    # Everything until the next change belongs to the same state of the app.
    later = [item.at for item in changes if item.at > opened]
    end = next((i for i, r in enumerate(readings) if later and r.at >= later[0]), len(readings))
    span = range(alarm.start, end)
    estimate = mean_estimate(
        [values[i] for i in span],
        [readings[i].inclusion for i in span],
        [readings[i].conversation_id for i in span],
    )
    bad = [readings[i].turn_id for i in span if values[i] < 0.5]
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
        sentence=sentence(monitor, stage, alarm.reference_mean, after, low, high, since, near),
        near=near,
        turn_ids=tuple(shown[:MAX_TURNS]),
        calibrated=calibrated,
        stages=dict(named),
    )


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
    since: datetime,
    near: Sequence[str],
) -> str:
    """An alert in words: stage, from what to what with interval, since when, what changed."""
    changed = f" Near then: {'; '.join(near)}." if near else " No version changed near then."
    return (
        f"{stage.replace('_', ' ')}: {monitor.label} fell from {before:.0%} to {after:.0%} "
        f"(95 % interval {low:.0%} to {high:.0%}) since {since:%Y-%m-%d %H:%M} UTC.{changed}"
    )
