"""Series over time: readings into points with intervals, and the breaks between them. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, get_args

from stagewatch.core.errors import InvalidInputError
from stagewatch.core.store.scores import Reading
from stagewatch.scorer.estimate import (
    Estimate,
    few_of,
    mean_estimate,
    quantile_estimate,
    worst_case,
)
from stagewatch.scorer.powered import Powered, powered_mean

Stat = Literal["pass_rate", "mean", "hard_fail_rate", "median", "p90", "miss_rate"]
STATS: tuple[str, ...] = get_args(Stat)
Dimension = Literal["release", "index_version", "prompt_version", "service"]
GroupBy = Literal["release", "index_version", "prompt_version", "service", "diagnosis"]
DIMENSIONS: tuple[str, ...] = ("release", "index_version", "prompt_version")
MAX_POINTS = 2000


@dataclass(frozen=True, slots=True)
class Correction:
    """What a free judge that read all `covered` turns did for the judge that read `n` of them.

    The point's estimate and interval are the corrected ones; `estimate`, `low` and `high` here are
    those of the sample alone, `narrower` the share by which the interval got shorter.
    """

    covered: int
    correlation: float
    narrower: float
    estimate: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Point:
    """One step of a series, from `at` to `until`. With n 0 `estimate`, `low` and `high` are None.

    `worst_low`/`worst_high` bound a mean or rate if every unscored turn had been 0 or 1. `few`
    says in words what there are few of where that is why the interval is wide. `correction` is
    there where the estimate is prediction-powered.
    """

    at: datetime
    until: datetime
    group: str | None
    n: int
    estimate: float | None
    low: float | None
    high: float | None
    wide: bool
    unscored: dict[str, int]
    fingerprint: str
    worst_low: float | None = None
    worst_high: float | None = None
    few: str = ""
    correction: Correction | None = None


@dataclass(frozen=True, slots=True)
class Break:
    """A moment from which points are not to be read on as one line."""

    at: datetime
    what: str


def value_for(stat: str, reading: Reading) -> float | None:
    """What a reading contributes to a statistic; None when it has no part in it.

    A miss (a rank that is scored but has no value) counts in pass_rate and miss_rate only.
    """
    if reading.status != "scored":
        return None
    if stat == "pass_rate":
        if reading.hard_fail:
            return 0.0
        return {"pass": 1.0, "fail": 0.0}.get(reading.verdict)
    if stat == "hard_fail_rate":
        return 1.0 if reading.hard_fail else 0.0
    if stat == "miss_rate":
        return 1.0 if reading.value is None else 0.0
    return reading.value


def _estimate(stat: str, readings: Sequence[Reading]) -> Estimate | None:
    kept = [(value_for(stat, r), r) for r in readings]
    values = [v for v, _ in kept if v is not None]
    inclusion = [r.inclusion for v, r in kept if v is not None]
    conversations = [r.conversation_id for v, r in kept if v is not None]
    if stat == "median":
        return quantile_estimate(values, inclusion, conversations, 0.5)
    if stat == "p90":
        return quantile_estimate(values, inclusion, conversations, 0.9)
    return mean_estimate(values, inclusion, conversations)


def _point(
    span: tuple[datetime, datetime],
    group: str | None,
    fingerprint: str,
    stat: str,
    readings: Sequence[Reading],
    cheap: Mapping[str, tuple[float, str]],
) -> Point:
    powered = _powered(stat, readings, cheap) if cheap else None
    found = powered.estimate if powered is not None else _estimate(stat, readings)
    unscored = Counter(r.reason.partition(":")[0] for r in readings if r.status == "unscored")
    if found is None:
        return Point(*span, group, 0, None, None, None, True, dict(unscored), fingerprint)
    bounds: tuple[float | None, float | None] = (None, None)
    if stat not in {"median", "p90"}:
        lost = sum(1 / r.inclusion for r in readings if r.status == "unscored")
        kept = sum(1 / r.inclusion for r in readings if r.status == "scored")
        bounds = worst_case(found, lost, kept)
    return Point(
        *span,
        group,
        found.n,
        found.value,
        found.low,
        found.high,
        found.wide,
        dict(unscored),
        fingerprint,
        *bounds,
        few_of(stat, found),
        _correction(powered) if powered is not None else None,
    )


ASSISTED = frozenset({"pass_rate", "mean", "hard_fail_rate", "miss_rate"})
"""Statistics that a free judge's readings of all turns can help."""

_MOST_UNREAD = 0.05
"""Where the free judge has no value for more of the sampled turns than this, what it says of the
others would aim at other turns than the sample does."""


def _powered(
    stat: str, readings: Sequence[Reading], cheap: Mapping[str, tuple[float, str]]
) -> Powered | None:
    """The corrected estimate; None where it is not to be had or buys nothing."""
    said = {r.turn_id: (v, r.inclusion) for r in readings if (v := value_for(stat, r)) is not None}
    if not said or sum(turn not in cheap for turn in said) > _MOST_UNREAD * len(said):
        return None
    found = powered_mean(
        [value for value, _ in cheap.values()],
        [said[turn][0] if turn in said else None for turn in cheap],
        [said[turn][1] if turn in said else 1.0 for turn in cheap],
        [conversation for _, conversation in cheap.values()],
    )
    return found if found is not None and found.factor > 0 else None


def _correction(found: Powered) -> Correction:
    plain = found.plain
    return Correction(
        found.covered, found.correlation, found.narrower, plain.value, plain.low, plain.high
    )


def series(
    readings: Iterable[Reading],
    *,
    stat: str,
    since: datetime,
    step: timedelta,
    group_by: str | None = None,
    cuts: Sequence[datetime] = (),
    first_pass: Iterable[Reading] = (),
) -> list[Point]:
    """Points of `stat` for steps of `step` counted from `since`, oldest first.

    A point never mixes two judge fingerprints, two bases or two thresholds: a step with a
    change in it gives two points.

    Args:
        readings: in any order.
        stat: one of `STATS`.
        since: begin of the first step.
        step: length of a step.
        group_by: a dimension; each of its values has points of its own.
        cuts: in time order: moments where a step ends early and another begins, so that what a
            change did is never drawn before it.
        first_pass: what a free judge said of every turn, in any order; where `readings` are a
            sample of another judge's, means and rates are prediction-powered by it.
    """

    def place(reading: Reading) -> tuple[datetime, datetime, str]:
        index = (reading.at - since) // step
        group = reading.dimensions.get(group_by, "") if group_by else ""
        return (*_between(since + index * step, step, reading.at, cuts), group)

    cells: dict[_Cell, list[Reading]] = defaultdict(list)
    for reading in readings:
        key = (*place(reading), reading.fingerprint, reading.basis, reading.threshold)
        cells[key].append(reading)
    cheap: dict[tuple[datetime, datetime, str], dict[str, tuple[float, str]]] = defaultdict(dict)
    for reading in first_pass if stat in ASSISTED else ():
        value = value_for(stat, reading)
        if value is not None:
            cheap[place(reading)][reading.turn_id] = (value, reading.conversation_id)
    ordered = sorted(cells.items(), key=lambda cell: tuple(str(part) for part in cell[0]))
    return [
        _point(
            (at, until),
            group if group_by else None,
            fingerprint,
            stat,
            members,
            cheap.get((at, until, group), {}),
        )
        for (at, until, group, fingerprint, _, _), members in ordered
    ]


_Cell = tuple[datetime, datetime, str, str, str, float | None]


def _between(
    begin: datetime, step: timedelta, at: datetime, cuts: Sequence[datetime]
) -> tuple[datetime, datetime]:
    """The part of the step from `begin` in which `at` lies, cut at changes inside the step."""
    after = bisect_right(cuts, at)
    start = max(begin, cuts[after - 1]) if after else begin
    end = begin + step
    return start, min(end, cuts[after]) if after < len(cuts) else end


def breaks(readings: Sequence[Reading]) -> list[Break]:
    """Where the judge, a threshold, or a version of the app changed for the first time.

    `readings` are in time order. A version that is seen again later makes no second break:
    during a rollout two releases answer side by side.
    """
    found: list[Break] = []
    last: dict[str, str] = {}
    seen: dict[str, set[str]] = defaultdict(set)
    names: tuple[tuple[str, Callable[[Reading], str]], ...] = (
        *((name, _dimension(name)) for name in DIMENSIONS),
        ("judge", lambda r: r.fingerprint),
        ("threshold", lambda r: "" if r.threshold is None else f"{r.threshold:g}"),
    )
    for reading in readings:
        for name, read in names:
            value = read(reading)
            if not value or value in seen[name]:
                continue
            seen[name].add(value)
            if name in last:
                label = name.replace("_", " ")
                found.append(Break(reading.at, f"{label} {last[name]} → {value}"))
            last[name] = value
    return found


def _dimension(name: str) -> Callable[[Reading], str]:
    return lambda reading: reading.dimensions.get(name, "")


def pick_step(since: datetime, until: datetime) -> timedelta:
    """The shortest of 5 s … 7 days that gives at most 60 points."""
    span = (until - since).total_seconds()
    for seconds in (5, 15, 60, 300, 900, 3600, 10_800, 21_600, 86_400, 604_800):
        if span / seconds <= 60:
            return timedelta(seconds=seconds)
    return timedelta(days=7)


def floor_time(at: datetime, step: timedelta) -> datetime:
    """`at` rounded down to a multiple of `step` since the epoch."""
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return epoch + (at - epoch) // step * step


def check_request(stat: str, since: datetime, until: datetime, step: timedelta) -> None:
    """Raise InvalidInputError for an unknown statistic, an empty window or too many points."""
    if stat not in STATS:
        raise InvalidInputError(f"stat: use one of {', '.join(STATS)}")
    if until <= since:
        raise InvalidInputError("until must be after since")
    if step <= timedelta(0) or (until - since) / step > MAX_POINTS:
        raise InvalidInputError(f"step: at most {MAX_POINTS} points; use a longer step")
