"""Raised rates leave estimates unbiased when every turn is weighed by its own probability."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from tests.support.scorer_turns import turn

from stagewatch.scorer.estimate import mean_estimate
from stagewatch.scorer.rules import Rule
from stagewatch.scorer.sampling import Signals, draw, is_sampled

RULE = Rule(name="r", rate=0.05, rare_below=100, rare_rate=0.3, low_rate=0.25, cascade_rate=0.5)
BASE = turn("q?", "a.", ["refund"])
N = 20_000
SEEDS = range(12)


def world(seed: int) -> list[tuple[float, float, str]]:
    """(passes, inclusion, stratum) of the sampled turns of one seed, and the truth beside."""
    rng = random.Random(seed)
    sampled, passes = [], 0
    for number in range(N):
        rare = rng.random() < 0.02
        unsure = rng.random() < 0.15
        failed = rng.random() < 0.08
        # Turns that the cheap judge doubts or fails, and rare releases, really fail more often.
        risk = 0.03 + 0.25 * unsure + 0.5 * failed + 0.2 * rare
        good = 1.0 if rng.random() > risk else 0.0
        passes += int(good)
        item = replace(BASE, turn_id=f"{seed}/{number}-s")
        signals = Signals(10 if rare else 5000, failed, unsure)
        drawn = draw(RULE, item, signals)
        if is_sampled(item.turn_id, drawn.inclusion):
            sampled.append((good, drawn.inclusion, drawn.stratum))
    sampled.append((passes / N, 1.0, "truth"))
    return sampled


@pytest.fixture(scope="module")
def worlds() -> list[list[tuple[float, float, str]]]:
    return [world(seed) for seed in SEEDS]


def errors(worlds: list[list[tuple[float, float, str]]], kind: str) -> list[float]:
    found = []
    for sampled in worlds:
        *turns, (truth, _, _) = sampled
        if kind == "uniform":
            turns = [t for t in turns if t[2] == "uniform"]
        weights = [p for _, p, _ in turns] if kind == "weighted" else [1.0] * len(turns)
        estimate = mean_estimate([good for good, _, _ in turns], weights, [""] * len(turns))
        assert estimate is not None
        found.append(estimate.value - truth)
    return found


def test_the_weighted_mean_is_unbiased_and_the_plain_one_is_not(
    worlds: list[list[tuple[float, float, str]]],
) -> None:
    weighted, plain = errors(worlds, "weighted"), errors(worlds, "plain")
    spread = (sum(e * e for e in weighted) / len(weighted)) ** 0.5
    mean = sum(weighted) / len(weighted)
    # A mean of 12 errors of this spread lies within 3 of its own standard errors of nothing.
    assert abs(mean) < 3 * spread / len(weighted) ** 0.5
    assert max(plain) < -0.05


def test_the_uniform_stratum_alone_is_a_fair_sample(
    worlds: list[list[tuple[float, float, str]]],
) -> None:
    uniform = errors(worlds, "uniform")
    assert abs(sum(uniform) / len(uniform)) < 0.01


def test_the_interval_holds_the_truth(worlds: list[list[tuple[float, float, str]]]) -> None:
    inside = 0
    for sampled in worlds:
        *turns, (truth, _, _) = sampled
        found = mean_estimate([t[0] for t in turns], [t[1] for t in turns], [""] * len(turns))
        assert found is not None
        inside += found.low <= truth <= found.high
    assert inside >= len(worlds) - 2
