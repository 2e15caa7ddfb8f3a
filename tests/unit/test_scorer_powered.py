"""A cheap judge on every turn shortens a strong judge's interval, and never moves what it aims at."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stagewatch.scorer.estimate import mean_estimate
from stagewatch.scorer.powered import powered_mean


def a_case(
    seed: int, n: int, extra: int, *, rate: float, r: float
) -> tuple[list[float], list[float | None]]:
    """Two judges of one pass rate and correlation `r`; the strong one reads the first n turns."""
    chance = np.random.default_rng(seed)
    strong = chance.random(n + extra) < rate
    agrees = chance.random(n + extra) < r
    cheap = np.where(agrees, strong, chance.random(n + extra) < rate)
    said = [float(v) if i < n else None for i, v in enumerate(strong)]
    return [float(v) for v in cheap], said


@pytest.mark.parametrize("r", [0.6, 0.7, 0.9])
def test_the_interval_is_as_much_shorter_as_the_formula_says(r: float) -> None:
    n, extra = 400, 4000
    ratios = []
    for seed in range(30):
        cheap, strong = a_case(seed, n, extra, rate=0.8, r=r)
        found = powered_mean(cheap, strong, [n / (n + extra)] * (n + extra), [""] * (n + extra))
        assert found is not None
        ratios.append(1 - found.narrower)
    formula = math.sqrt(1 - r * r * extra / (n + extra))
    assert sum(ratios) / len(ratios) == pytest.approx(formula, rel=0.05)


def test_a_sample_that_happened_to_be_harsh_is_corrected_by_what_all_turns_show() -> None:
    # The judges agree fully. 200 of 2,000 turns fail; of the 400 sampled ones 80 do.
    truth = [0.0] * 80 + [1.0] * 320 + [0.0] * 120 + [1.0] * 1480
    strong = [value if i < 400 else None for i, value in enumerate(truth)]
    found = powered_mean(truth, strong, [0.2] * 2000, [""] * 2000)
    assert found is not None
    assert found.plain.value == pytest.approx(0.8)
    assert found.factor == pytest.approx(1.0)
    assert found.estimate.value == pytest.approx(0.9)
    assert found.correlation == pytest.approx(1.0)


def test_a_cheap_judge_that_knows_nothing_changes_nothing() -> None:
    cheap, strong = a_case(1, 200, 2000, rate=0.8, r=0.0)
    constant = powered_mean([1.0] * len(cheap), strong, [0.1] * len(cheap), [""] * len(cheap))
    assert constant is not None
    assert constant.estimate == constant.plain
    assert constant.factor == 0.0
    contrary = powered_mean(
        [1 - v if s is None else 1 - s for v, s in zip(cheap, strong, strict=True)],
        strong, [0.1] * len(cheap), [""] * len(cheap),
    )  # fmt: skip
    assert contrary is not None
    assert contrary.factor == 0.0


def test_unequal_rates_do_not_bias_it() -> None:
    """What the cheap judge doubts is sampled five times as often; the corrected mean holds."""
    values = []
    for seed in range(60):
        chance = np.random.default_rng([9, seed])
        truth = chance.random(4000) < 0.85
        cheap = np.where(chance.random(4000) < 0.7, truth, chance.random(4000) < 0.85).astype(float)
        rate = np.where(cheap < 0.5, 0.5, 0.1)
        sampled = chance.random(4000) < rate
        strong = [float(t) if s else None for t, s in zip(truth, sampled, strict=True)]
        found = powered_mean(cheap.tolist(), strong, rate.tolist(), [""] * 4000)
        assert found is not None
        values.append(found.estimate.value)
    assert sum(values) / len(values) == pytest.approx(0.85, abs=0.006)
    unweighted = 0.85 - 0.05
    assert sum(values) / len(values) > unweighted


def test_few_failures_or_a_small_sample_leave_the_plain_interval() -> None:
    for n, rate in ((30, 0.5), (100, 0.99)):
        cheap, strong = a_case(4, n, 10 * n, rate=rate, r=0.9)
        found = powered_mean(cheap, strong, [1 / 11] * (11 * n), [""] * (11 * n))
        assert found is not None
        assert found.estimate == found.plain


def test_turns_of_one_conversation_count_as_one_cluster() -> None:
    cheap, strong = a_case(5, 400, 4000, rate=0.7, r=0.7)
    alone = powered_mean(cheap, strong, [1 / 11] * 4400, [""] * 4400)
    # Every turn told twice in its conversation: twice the rows, no more knowledge.
    keys = [f"c{i}" for i in range(4400)] * 2
    twice = powered_mean(cheap * 2, strong * 2, [1 / 11] * 8800, keys)
    assert alone is not None
    assert twice is not None
    assert twice.estimate.high - twice.estimate.low == pytest.approx(
        alone.estimate.high - alone.estimate.low, rel=0.01
    )


def test_nothing_sampled_is_none_and_shapes_are_checked() -> None:
    assert powered_mean([1.0], [None], [0.5], [""]) is None
    with pytest.raises(ValueError, match="one length"):
        powered_mean([1.0], [1.0], [0.5, 0.5], [""])


unit = st.floats(0, 1, allow_nan=False)


@settings(deadline=None)
@example([(0.0, 1.0, 1.0, ""), (0.0, 0.9999999999999999, 1.0, "")])
@example([(0.0, 0.0, 0.5, ""), (0.0, 7.872567315108422e-179, 1.0, "")])
@given(
    st.lists(
        st.tuples(unit, st.none() | unit, st.floats(0.05, 1.0), st.sampled_from(["", "a", "b"])),
        max_size=80,
    )
)
def test_any_input_gives_an_ordered_interval_and_the_plain_estimate(
    rows: list[tuple[float, float | None, float, str]],
) -> None:
    cheap, strong, rate, keys = ([row[i] for row in rows] for i in range(4))
    found = powered_mean(cheap, strong, rate, keys)  # type: ignore[arg-type] # columns of one row type
    kept = [(s, p, k) for _, s, p, k in rows if s is not None]
    plain = mean_estimate([k[0] for k in kept], [k[1] for k in kept], [k[2] for k in kept])
    if plain is None:
        assert found is None
        return
    assert found is not None
    assert found.plain == plain
    assert 0 <= found.estimate.low <= found.estimate.value <= found.estimate.high <= 1
    assert 0 <= found.narrower <= 1
