"""A project that stopped sending, told from one that is quiet at this hour."""

from __future__ import annotations

import math
from collections import Counter
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from stagewatch.core.clock import rfc3339
from stagewatch.core.model import Turn
from stagewatch.core.store import Store
from stagewatch.core.store.alerts import list_alerts
from stagewatch.core.store.turns import put_turns
from stagewatch.scorer.quiet import FLOOR, longest_quiet, look, quiet_alert
from stagewatch.scorer.watch import watch_silence

MONDAY = datetime(2026, 11, 2, tzinfo=UTC)
HOUR = timedelta(hours=1)


def office_hours(at: datetime) -> float:
    """Turns an hour: a help desk that works on weekdays from 8 to 18."""
    return 60.0 if at.weekday() < 5 and 8 <= at.hour < 18 else 0.0


def day_and_night(at: datetime) -> float:
    return 40.0 + 38.0 * math.sin((at.hour + at.minute / 60) / 24 * 2 * math.pi)


def stream(rate: object, days: float, seed: int = 1) -> tuple[list[datetime], list[int]]:
    """Minutes with turns and their counts, by a Poisson process."""
    chance = np.random.default_rng(seed)
    found: Counter[datetime] = Counter()
    for n in range(int(days * 24 * 60)):
        minute = MONDAY + timedelta(minutes=n)
        many = chance.poisson(rate(minute) / 60)  # type: ignore[operator]
        if many:
            found[minute] = int(many)
    return list(found), list(found.values())


def at(data: tuple[list[datetime], list[int]], now: datetime) -> object:
    minutes, counts = data
    n = len([m for m in minutes if m <= now])
    return look(minutes[:n], counts[:n], now)


def test_a_silence_at_noon_is_noticed_soon_and_a_weekend_is_not() -> None:
    data = stream(office_hours, 26)
    friday = MONDAY + timedelta(days=25)
    for quiet in (friday + 22 * HOUR, friday + 7 * HOUR, friday - 4 * 24 * HOUR - 30 * HOUR):
        found = at(data, quiet)
        assert found is not None and not found.alarming, quiet  # type: ignore[attr-defined]
    cut = friday + 12 * HOUR
    minutes = [m for m in data[0] if m < cut]
    broken = (minutes, data[1][: len(minutes)])
    assert not at(broken, cut + timedelta(minutes=5)).alarming  # type: ignore[attr-defined]
    assert at(broken, cut + timedelta(minutes=30)).alarming  # type: ignore[attr-defined]


@pytest.mark.parametrize("rate", [office_hours, day_and_night], ids=["office", "day and night"])
def test_a_week_in_which_nothing_stops_has_no_alarm(rate: object) -> None:
    data = stream(rate, 35, seed=5)
    now = MONDAY + timedelta(days=28)
    alarms = [
        now + n * timedelta(minutes=5)
        for n in range(7 * 24 * 12)
        if at(data, now + n * timedelta(minutes=5)).alarming  # type: ignore[attr-defined]
    ]
    assert alarms == []


def test_a_young_project_is_left_alone_and_then_compared_by_days() -> None:
    data = stream(lambda _: 30.0, 10)
    assert at(data, MONDAY + timedelta(days=2)) is None
    found = at(data, MONDAY + timedelta(days=5))
    assert found.compared == "at this hour of the last 4 days"  # type: ignore[attr-defined]
    assert look([], [], MONDAY) is None
    assert look(data[0][:50], data[1][:50], MONDAY + timedelta(days=9)) is None


def test_the_quiet_before_a_window_counts_from_its_own_start() -> None:
    minutes = [MONDAY, MONDAY + 3 * HOUR]
    assert longest_quiet(minutes, MONDAY + 2 * HOUR, MONDAY + 4 * HOUR) == 3 * 3600
    assert longest_quiet(minutes, MONDAY + 4 * HOUR, MONDAY + 5 * HOUR) == 2 * 3600
    assert longest_quiet([], MONDAY, MONDAY + HOUR) == 3600


def test_the_alert_reads() -> None:
    minutes, counts = stream(lambda _: 30.0, 10)
    found = look(minutes, counts, minutes[-1] + HOUR)
    assert found is not None
    assert found.alarming
    body = quiet_alert("shop", found, minutes[-1] + HOUR)
    assert body["sentence"].startswith("no data: the last turn came at 2026-11-11 23:5")
    assert (
        "60 minutes ago; at this hour of the last 7 days the longest quiet was" in body["sentence"]
    )
    assert "turns came in the same time" in body["sentence"]
    assert found.allowed_s >= FLOOR.total_seconds()


def turn_at(project: str, moment: datetime, n: int, *, probe: bool = False) -> Turn:
    return Turn(
        turn_id=f"{project}-{n}", trace_id=f"{n:032x}", span_id="s", project=project, service="bot",
        started_at=moment, duration_ms=1.0, question="q", answer="a", probe=probe,
    )  # fmt: skip


def test_an_alert_opens_once_and_closes_when_turns_come_again(store: Store, project: str) -> None:
    base = datetime(2026, 10, 1, tzinfo=UTC)
    turns = [turn_at(project, base + n * timedelta(minutes=10), n) for n in range(6 * 24 * 6)]
    put_turns(store, turns, assembled_at=base, revision=1)
    last = turns[-1].started_at

    def alerts(now: datetime) -> list[tuple[str, str]]:
        watch_silence(store, now)
        return [(a["state"], a["since"]) for a in list_alerts(store, project, now)]

    assert alerts(last + timedelta(minutes=20)) == []
    assert alerts(last + 4 * HOUR) == [("open", rfc3339(last))]
    assert alerts(last + 5 * HOUR) == [("open", rfc3339(last))]
    # A probe is no sign of life of the customers' traffic.
    probe = turn_at(project, last + 5 * HOUR, 9998, probe=True)
    put_turns(store, [probe], assembled_at=base, revision=2)
    assert alerts(last + 5.1 * HOUR) == [("open", rfc3339(last))]
    again = turn_at(project, last + 6 * HOUR, 9999)
    put_turns(store, [again], assembled_at=base, revision=2)
    assert alerts(last + 6.1 * HOUR) == [("closed", rfc3339(last))]
