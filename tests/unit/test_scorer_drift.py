"""The drift test: quiet when nothing changes, quick when something does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stagewatch.scorer.drift import ARM_AT, MATURE, betting_levels, detect


def stream(seed: int, *parts: tuple[int, float]) -> list[float]:
    chance = np.random.default_rng(seed)
    return [float(x) for n, p in parts for x in (chance.random(n) < p)]


def test_quiet_streams_stay_quiet() -> None:
    # At alpha 1 % the chance of 3 or more alarms in 40 quiet streams is below 1 %.
    alarms = sum(bool(detect(stream(seed, (6000, 0.95)))) for seed in range(40))
    assert alarms <= 2


def test_a_drop_is_found_and_dated() -> None:
    found = detect(stream(1, (5000, 0.95), (1500, 0.80)))
    assert len(found) == 1
    assert 5000 < found[0].at < 5400
    assert abs(found[0].start - 5000) < 150
    assert found[0].reference_mean == pytest.approx(0.95, abs=0.02)
    assert found[0].after_mean == pytest.approx(0.80, abs=0.08)


def test_a_rise_is_no_alarm() -> None:
    assert detect(stream(2, (3000, 0.80), (2000, 0.97))) == []


def test_it_is_not_armed_before_the_reference_is_large_enough() -> None:
    assert detect(stream(3, (ARM_AT - 100, 0.95), (90, 0.0))) == []


def test_a_change_that_breaks_things_is_found_at_once_and_named_after_it() -> None:
    found = detect(stream(4, (1200, 0.97), (200, 0.30)), [1200])
    assert len(found) == 1
    assert found[0].at < 1230
    assert abs(found[0].start - 1200) <= 10


def test_after_an_alarm_the_next_change_starts_afresh_against_the_good_times() -> None:
    values = stream(5, (1500, 0.97), (300, 0.4), (400, 0.97), (300, 0.4))
    found = detect(values, [1500, 1800, 2200])
    assert [alarm.start // 100 for alarm in found] == [15, 22]
    assert found[1].reference_mean > 0.93


def test_looking_more_often_changes_nothing_that_was_found() -> None:
    values = stream(6, (2000, 0.95), (600, 0.7))
    whole = detect(values)
    assert whole
    assert detect(values[: whole[0].at + 1])[0].start == whole[0].start
    assert detect(values[: whole[0].at]) == []


def test_where_to_bet_is_read_off_the_good_times() -> None:
    assert betting_levels([1.0] * 190 + [0.0] * 10) == [0.05]
    assert betting_levels([1.0] * 200) == [0.01]
    assert betting_levels([1.0] * 100 + [0.5] * 60 + [0.25] * 40) == [0.2, 0.5]
    assert len(betting_levels([i / 200 for i in range(200)])) == 4


def test_a_stream_that_is_bad_to_begin_with_is_not_watched() -> None:
    assert detect([0.0] * 190 + [1.0] * 3000) == []
    assert detect([0.25] * 150 + [0.5] * 2000 + [0.0] * 500) == []


def test_the_readings_of_an_alarm_teach_the_reference_nothing() -> None:
    values = stream(8, (1500, 0.97), (800, 0.5), (2000, 0.97), (200, 0.5))
    found = detect(values, [1500, 2300, 4300])
    assert [alarm.start // 100 for alarm in found] == [15, 43]
    assert found[1].reference_mean > 0.95


def mixed(seed: int, *parts: tuple[int, float]) -> tuple[list[float], list[str]]:
    """(turns, share of the hard service): each service keeps its own rate, 0.97 and 0.70."""
    chance = np.random.default_rng(seed)
    kinds = ["hard" if chance.random() < share else "easy" for n, share in parts for _ in range(n)]
    rates = {"hard": 0.70, "easy": 0.97}
    return [float(chance.random() < rates[kind]) for kind in kinds], kinds


def test_a_service_that_grows_is_no_change_of_the_app() -> None:
    alarms = blind = 0
    for seed in range(20):
        values, kinds = mixed(seed, (3000, 0.1), (3000, 0.6))
        alarms += bool(detect(values, kinds=[(kind,) for kind in kinds]))
        blind += bool(detect(values))
    assert alarms <= 1
    assert blind == 20


def test_one_service_that_breaks_is_found_whatever_the_mix() -> None:
    values, kinds = mixed(5, (4000, 0.3), (1500, 0.3))
    chance = np.random.default_rng(6)
    broken = [
        float(chance.random() < 0.6) if i >= 4000 and kind == "easy" else value
        for i, (value, kind) in enumerate(zip(values, kinds, strict=True))
    ]
    found = detect(broken, kinds=[(kind,) for kind in kinds])
    assert len(found) == 1
    assert 4000 < found[0].at < 4400


def test_a_weekly_pattern_alarms_only_where_it_is_not_told_apart() -> None:
    """Weekends at 0.85, working days at 0.95, 600 turns a day for four weeks."""
    weekend = [day % 7 >= 5 for day in range(28) for _ in range(600)]
    alarms = blind = 0
    for seed in range(10):
        chance = np.random.default_rng([7, seed])
        values = [float(chance.random() < (0.85 if w else 0.95)) for w in weekend]
        alarms += bool(detect(values, kinds=[(0, (0, day)) for day in weekend]))
        blind += bool(detect(values))
    assert alarms <= 1
    assert blind == 10


def test_what_breaks_on_the_first_weekend_is_found_on_it() -> None:
    weekend = [False] * 2000 + [True] * 1000
    values = stream(9, (2000, 0.95), (1000, 0.30))
    found = detect(values, kinds=[(0, (0, day)) for day in weekend])
    assert len(found) == 1
    assert 2000 < found[0].at < 2000 + MATURE


def test_a_slow_decline_is_found_before_it_has_gone_far() -> None:
    """From 0.95 by one point every 400 turns: a reference that follows would never see it."""
    chance = np.random.default_rng(8)
    rates = [0.95] * 3000 + [0.95 - i / 40_000 for i in range(6000)]
    found = detect([float(chance.random() < rate) for rate in rates])
    assert found
    assert rates[found[0].at] > 0.87


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.5, 1.0])), max_size=300),
    st.lists(st.integers(0, 299), max_size=3),
)
def test_any_stream_is_read(values: list[float], restarts: list[int]) -> None:
    assert detect(values * 5, restarts, alpha=0.05) == detect(values * 5, restarts, alpha=0.05)
