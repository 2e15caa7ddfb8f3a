"""Estimates over weighted, clustered samples."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stagewatch.scorer.estimate import (
    mean_estimate,
    quantile_estimate,
    t_of,
    wilson,
    worst_case,
)


def test_wilson_by_hand() -> None:
    # 8 of 10 at z = 1.959964: centre (0.8 + 0.19207)/(1.38415) = 0.71673, half 0.22659.
    low, high = wilson(0.8, 10)
    assert (round(low, 4), round(high, 4)) == (0.4902, 0.9433)


@pytest.mark.parametrize(("df", "exact"), [(5, 2.5706), (10, 2.2281), (30, 2.0423), (1e6, 1.96)])
def test_t_quantiles(df: float, exact: float) -> None:
    assert t_of(0.95, df) == pytest.approx(exact, rel=5e-3)


def test_the_mean_is_weighted_by_the_inverse_of_the_inclusion() -> None:
    # One turn in two stands for 2, the others for 1: (2*0 + 1 + 1) / 4.
    found = mean_estimate([0.0, 1.0, 1.0], [0.5, 1.0, 1.0], ["", "", ""])
    assert found is not None
    assert found.value == pytest.approx(0.5)


def test_no_values_no_estimate() -> None:
    assert mean_estimate([], [], []) is None
    assert quantile_estimate([], [], [], 0.5) is None


def test_all_passes_still_leave_room_for_a_failure() -> None:
    found = mean_estimate([1.0] * 40, [1.0] * 40, [""] * 40)
    assert found is not None
    assert found.wide
    assert found.high == 1.0
    assert 0.85 < found.low < 0.95


def test_turns_of_one_conversation_are_worth_less() -> None:
    values = [1.0, 0.0] * 60
    alone = mean_estimate(values, [1.0] * 120, [""] * 120)
    # Sixty conversations of two: within one, both pass or both fail.
    paired = [v for v in [1.0, 0.0] * 30 for _ in (0, 1)]
    together = mean_estimate(paired, [1.0] * 120, [f"c{i // 2}" for i in range(120)])
    assert alone is not None
    assert together is not None
    assert together.high - together.low > 1.3 * (alone.high - alone.low)


@pytest.mark.parametrize("bad", [0.0, -1.0, 1.5])
def test_an_impossible_inclusion_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="inclusion"):
        mean_estimate([1.0], [bad], [""])


@given(
    st.lists(
        st.tuples(st.floats(0, 1), st.floats(0.01, 1), st.sampled_from(["", "a", "b", "c"])),
        min_size=1,
        max_size=40,
    )
)
def test_the_interval_holds_the_estimate_and_stays_in_range(
    rows: list[tuple[float, float, str]],
) -> None:
    values, inclusion, keys = zip(*rows, strict=True)
    found = mean_estimate(values, inclusion, keys)
    assert found is not None
    assert 0.0 <= found.low <= found.value + 1e-9
    assert found.value - 1e-9 <= found.high <= 1.0
    assert math.isfinite(found.low)
    quantile = quantile_estimate(values, inclusion, keys, 0.5)
    assert quantile is not None
    assert quantile.value in values
    assert quantile.low in values
    assert quantile.high in values
    assert quantile.low <= quantile.value <= quantile.high


def test_the_median_and_p90_of_ranks() -> None:
    ranks = [1.0] * 50 + [2.0] * 35 + [9.0] * 15
    median = quantile_estimate(ranks, [1.0] * 100, [""] * 100, 0.5)
    p90 = quantile_estimate(ranks, [1.0] * 100, [""] * 100, 0.9)
    assert median is not None
    assert p90 is not None
    assert (median.value, p90.value) == (1.0, 9.0)
    assert median.high == 2.0


def test_an_outage_widens_the_worst_case() -> None:
    found = mean_estimate([1.0] * 80 + [0.0] * 20, [1.0] * 100, [""] * 100)
    assert found is not None
    assert worst_case(found, 0.0, 100.0) == pytest.approx((0.8, 0.8))
    assert worst_case(found, 100.0, 100.0) == pytest.approx((0.4, 0.9))


def test_intervals_cover_in_a_small_simulation() -> None:
    chance = np.random.default_rng(5)
    hits = 0
    for _ in range(400):
        rates = chance.choice([1.0, 0.25], size=150)
        values = (chance.random(150) < 0.9).astype(float)
        kept = chance.random(150) < rates
        found = mean_estimate(values[kept].tolist(), rates[kept].tolist(), [""] * int(kept.sum()))
        assert found is not None
        hits += found.low <= 0.9 <= found.high
    # 400 runs at a true 95 %: fewer than 366 hits has a chance below 0.1 %.
    assert hits >= 366
