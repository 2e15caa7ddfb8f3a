"""Paired changes: worked values and coverage."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

from stagewatch.scorer.plans.pairs import mcnemar, mean_change, pass_change


@pytest.mark.parametrize(
    ("mended", "broken", "p"),
    [(0, 0, 1.0), (1, 0, 1.0), (0, 5, 0.0625), (5, 1, 0.21875), (2, 2, 1.0), (0, 10, 2 * 0.5**10)],
)
def test_mcnemar_is_the_exact_binomial(mended: int, broken: int, p: float) -> None:
    assert mcnemar(mended, broken) == pytest.approx(p)


@pytest.mark.parametrize(("mended", "broken"), [(37, 52), (300, 280), (9, 0)])
def test_mcnemar_against_the_sum_of_its_definition(mended: int, broken: int) -> None:
    n, small = mended + broken, min(mended, broken)
    tail = sum(math.comb(n, k) for k in range(small + 1)) / 2**n
    assert mcnemar(mended, broken) == pytest.approx(min(1.0, 2 * tail))


def test_mcnemar_of_many_flips_neither_overflows_nor_vanishes() -> None:
    assert 0.19 < mcnemar(3000, 2900) < 0.20
    assert 0.0 <= mcnemar(9000, 100) < 1e-300


def test_a_pass_rate_change_by_hand() -> None:
    found = pass_change(10, 1, 4)
    assert found is not None
    assert found.change == pytest.approx(-0.3)
    # Agresti-Min: (1.5 - 4.5) / 12 ± 1.96 · sqrt(6 - 9/12) / 12
    assert found.low == pytest.approx(-0.25 - 1.959964 * math.sqrt(5.25) / 12, abs=1e-5)
    assert found.high == pytest.approx(-0.25 + 1.959964 * math.sqrt(5.25) / 12, abs=1e-5)
    assert pass_change(0, 0, 0) is None


def test_means_of_pairs() -> None:
    found = mean_change([0.5] * 40, [1.0, 0.0] * 20)
    assert found is not None
    assert (found.before, found.after, found.change) == (0.5, 0.5, 0.0)
    assert found.low < 0 < found.high
    assert not found.clear
    same = mean_change([0.3] * 30, [0.3] * 30)
    assert same is not None
    assert same.low == pytest.approx(-0.1)
    assert same.high == pytest.approx(0.1)
    assert mean_change([], []) is None


@pytest.mark.parametrize("n", [25, 200, 900])
def test_intervals_of_means_cover_as_they_say(n: int) -> None:
    rng = np.random.default_rng(3)
    hits, shift = 0, true_shift()
    for trial in range(200):
        before = rng.random(n)
        after = np.clip(before + rng.normal(0.05, 0.2, n), 0, 1)
        found = mean_change(before, after, seed=trial)
        assert found is not None
        hits += found.low <= shift <= found.high
    assert hits >= 180


@functools.cache
def true_shift() -> float:
    rng = np.random.default_rng(9)
    before = rng.random(2_000_000)
    return float((np.clip(before + rng.normal(0.05, 0.2, 2_000_000), 0, 1) - before).mean())
