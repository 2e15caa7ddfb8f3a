"""Series of what probes find. Pure but for reading the store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from stagewatch.core.store.client import Store
from stagewatch.core.store.probes import probe_readings
from stagewatch.core.store.scores import Reading
from stagewatch.scorer.probes.probe import REWRITE_GAIN
from stagewatch.scorer.series import Break, Point, breaks, floor_time, series


@dataclass(frozen=True, slots=True)
class ProbeSeries:
    """Points of one statistic and the breaks between them; a new dataset version is a break."""

    since: datetime
    until: datetime
    step: timedelta
    items: list[Point]
    breaks: list[Break]


def probe_series(
    store: Store,
    project: str,
    probe: str,
    metric: str,
    stat: str,
    *,
    since: datetime,
    until: datetime,
    step: timedelta,
) -> ProbeSeries:
    """The series of a probe's metric.

    Args:
        store: where the probe's scores are.
        project: of the probe.
        probe: its name.
        metric: one that it measures.
        stat: as in `series`; rewrite_gain has a mean only, from -1 to 1.
        since: begin, rounded down to a step.
        until: end.
        step: length of a step.
    """
    begin = floor_time(since, step)
    found, versions = probe_readings(store, project, probe, metric, begin, until)
    changes = sorted([*breaks(found), *_version_breaks(found, versions)], key=lambda b: b.at)
    signed = metric == REWRITE_GAIN
    points = series(
        [_folded(reading) for reading in found] if signed else found,
        stat="mean" if signed else stat,
        since=begin, step=step, cuts=[change.at for change in changes],
    )  # fmt: skip
    return ProbeSeries(
        begin, until, step, [_unfolded(p) for p in points] if signed else points, changes
    )


def _version_breaks(readings: Sequence[Reading], versions: Sequence[int]) -> list[Break]:
    found, last = [], 0
    for reading, version in zip(readings, versions, strict=True):
        if version and last and version != last:
            found.append(Break(reading.at, f"dataset version {last} → {version}"))
        last = version or last
    return found


def _folded(reading: Reading) -> Reading:
    """From [-1, 1] to [0, 1], where estimates live."""
    return replace(reading, value=None if reading.value is None else (reading.value + 1) / 2)


def _unfolded(point: Point) -> Point:
    def back(value: float | None) -> float | None:
        return None if value is None else 2 * value - 1

    return replace(
        point, estimate=back(point.estimate), low=back(point.low), high=back(point.high),
        worst_low=back(point.worst_low), worst_high=back(point.worst_high),
    )  # fmt: skip
