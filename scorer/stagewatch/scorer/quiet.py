"""Has the data stopped coming? A project's own past tells silence from a quiet hour. Pure.

Two things must both hold, against the same hours of the last weeks (of the last days, while there
are no weeks). The quiet is longer than three times the longest one seen there. And so many turns
came in that very stretch then that none now is no luck: where m are expected and turns come
independently, none come with chance exp(-m), which has to be below one in a hundred thousand.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from stagewatch.core.clock import rfc3339

HISTORY = timedelta(days=29)
"""How far back turns are looked at: four weeks, and the window around the first of them."""

FLOOR = timedelta(minutes=15)
"""No quiet shorter than this is an alarm."""

_AROUND = timedelta(hours=1)
_FACTOR = 3
_CHANCE = 1e-5
_WEEKS, _DAYS = 4, 7
_FEWEST_WEEKS, _FEWEST_DAYS = 2, 3
_FEWEST_TURNS = 100
_WEEK, _DAY = timedelta(days=7), timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Quiet:
    """How quiet it is, and how quiet it may be.

    `for_s` is the time since the last turn, `allowed_s` the bound by the longest quiet at the same
    hours before (`longest_s`), `expected` how many turns came in the same stretch then, on
    average. `compared` says with what.
    """

    last_at: datetime
    for_s: float
    allowed_s: float
    longest_s: float
    expected: float
    compared: str

    @property
    def alarming(self) -> bool:
        """Whether the quiet is longer than it may be."""
        return self.for_s > self.allowed_s and math.exp(-self.expected) < _CHANCE


def look(minutes: Sequence[datetime], counts: Sequence[int], now: datetime) -> Quiet | None:
    """How quiet a project is at `now`; None for one that has too little past to tell.

    Args:
        minutes: shape (m,): minutes that had a turn, in time order, none after `now`.
        counts: shape (m,): turns in each of them.
        now: the moment to judge.
    """
    if not minutes or sum(counts) < _FEWEST_TURNS:
        return None
    past, compared = _references(minutes[0], now)
    if not past:
        return None
    last, longest, turns = minutes[-1], 0.0, 0
    for moment in past:
        longest = max(longest, longest_quiet(minutes, moment - _AROUND, moment + _AROUND))
        begin = bisect_right(minutes, moment - (now - last))
        turns += sum(counts[begin : bisect_right(minutes, moment)])
    allowed = max(FLOOR.total_seconds(), _FACTOR * longest)
    since = (now - last).total_seconds()
    return Quiet(last, since, allowed, longest, turns / len(past), compared)


def _references(first: datetime, now: datetime) -> tuple[list[datetime], str]:
    """The same moment of earlier weeks, else of earlier days, as far as turns reach back."""
    reach = first + _AROUND
    weeks = [now - n * _WEEK for n in range(1, _WEEKS + 1) if now - n * _WEEK >= reach]
    if len(weeks) >= _FEWEST_WEEKS:
        return weeks, f"at this hour of the last {len(weeks)} weeks"
    days = [now - n * _DAY for n in range(1, _DAYS + 1) if now - n * _DAY >= reach]
    if len(days) >= _FEWEST_DAYS:
        return days, f"at this hour of the last {len(days)} days"
    return [], ""


def longest_quiet(minutes: Sequence[datetime], begin: datetime, end: datetime) -> float:
    """Longest time in seconds that a watcher in [begin, end] would have seen without a turn: a
    quiet that began before the window counts from its own start.
    """
    at = bisect_left(minutes, begin)
    last = minutes[at - 1] if at else begin
    longest = 0.0
    for minute in minutes[at : bisect_right(minutes, end)]:
        longest = max(longest, (minute - last).total_seconds())
        last = minute
    return max(longest, (end - last).total_seconds())


def quiet_alert(project: str, quiet: Quiet, now: datetime) -> dict[str, Any]:
    """The alert of a project that sends nothing, with the fields of the HTTP contract.

    `from` and `to` are turns an hour. One silence has one id, however often it is looked at.
    """
    key = f"{project}/no_data/{quiet.last_at.isoformat()}"
    return {
        "alert_id": hashlib.sha256(key.encode()).hexdigest()[:16],
        "project": project, "metric": "turns", "stage": "no_data",
        "opened_at": rfc3339(now), "since": rfc3339(quiet.last_at),
        "from": quiet.expected / max(quiet.for_s, 1.0) * 3600, "to": 0.0, "low": 0.0, "high": 0.0,
        "sentence": (
            f"no data: the last turn came at {quiet.last_at:%Y-%m-%d %H:%M} UTC, "
            f"{_span(quiet.for_s)} ago; {quiet.compared} the longest quiet was "
            f"{_span(quiet.longest_s)}, and {quiet.expected:.3g} turns came in the same time."
        ),
        "near": [], "turn_ids": [], "calibrated": True, "stages": {}, "n": 0, "recovery": None,
        "state": "open", "noticed_at": rfc3339(now), "closed_at": None,
    }  # fmt: skip


def _span(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} minutes"
    hours = round(seconds / 3600)
    return f"{hours} hours" if hours < 48 else f"{round(seconds / 86_400)} days"
