"""Simulations of the estimates and the drift test; `make bench-stats` prints the tables.

Everything is seeded: the same command gives the same numbers.

    python bench/stats.py [--runs 2000] [--streams 1000] [--only intervals,powered,drift]
"""

from __future__ import annotations

import argparse
import itertools
import time

import numpy as np

from stagewatch.scorer.drift import detect
from stagewatch.scorer.estimate import mean_estimate, z_of
from stagewatch.scorer.powered import powered_mean


def turns(
    chance: np.random.Generator, n: int, p: float, *, clustered: bool
) -> tuple[np.ndarray, list[str]]:
    """Pass/fail of n turns at rate p. Clustered: conversations of about 4 whose turns lean together."""
    if not clustered:
        return (chance.random(n) < p).astype(float), [""] * n
    values, keys = [], []
    spread = 4.0  # Beta concentration: intra-conversation correlation 1/(1+4) = 0.2
    while len(values) < n:
        size = 1 + chance.poisson(3)
        own = chance.beta(p * spread, (1 - p) * spread)
        values += list((chance.random(size) < own).astype(float))
        keys += [f"c{len(keys)}"] * size
    return np.array(values[:n]), keys[:n]


def one_setting(chance, runs, n, p, weight, clustered):
    """Coverage of our interval and of the plain mean's, and the mean width."""
    hit = plain_hit = hajek_hit = 0
    width = 0.0
    for _ in range(runs):
        # Turns of the rare stratum are kept always, the rest at 1/weight; n is what is kept.
        population = n * weight
        values, keys = turns(chance, population, p, clustered=clustered)
        rare = chance.random(population) < 0.2
        rate = np.where(rare, 1.0, 1.0 / weight)
        # The rare stratum fails twice as often, so that ignoring weights is wrong.
        values = np.where(rare & (chance.random(population) < (1 - p)), 0.0, values)
        kept = chance.random(population) < rate
        x, q = values[kept], rate[kept]
        ids = [k for k, keep in zip(keys, kept, strict=True) if keep]
        truth = 0.2 * p * p + 0.8 * p
        found = mean_estimate(x.tolist(), q.tolist(), ids)
        if found is None:
            continue
        hit += found.low <= truth <= found.high
        width += found.high - found.low
        m = x.mean()
        half = z_of(0.95) * np.sqrt(m * (1 - m) / len(x))
        plain_hit += m - half <= truth <= m + half
        w = 1 / q
        hm = (w * x).sum() / w.sum()
        half = z_of(0.95) * np.sqrt(((w * (x - hm)) ** 2).sum()) / w.sum()
        hajek_hit += hm - half <= truth <= hm + half
    return hit / runs, plain_hit / runs, hajek_hit / runs, width / runs


def intervals(runs: int) -> None:
    """95 % intervals: coverage over sizes, rates, weights and clustering."""
    print(
        f"\n95 % intervals, {runs} runs a row (one run in 1/sqrt({runs}) = {100 / runs**0.5:.1f} % of noise)"
    )
    print(
        f"{'n kept':>7} {'p':>5} {'weight':>6} {'conv.':>6} {'coverage':>9} {'normal Hájek':>13} {'plain mean':>11} {'width':>7}"
    )
    worst = 1.0
    for n, p, weight, clustered in itertools.product(
        (30, 100, 400), (0.5, 0.8, 0.95, 0.99), (1, 5, 20), (False, True)
    ):
        chance = np.random.default_rng([7, n, int(p * 100), weight, clustered])
        got, plain, hajek, width = one_setting(chance, runs, n, p, weight, clustered)
        worst = min(worst, got)
        print(
            f"{n:>7} {p:>5} {weight:>6} {'yes' if clustered else 'no':>6} {got:>9.3f} {hajek:>13.3f} {plain:>11.3f} {width:>7.3f}"
        )
    print(f"lowest coverage {worst:.3f} (target 0.94)")


def one_powered(chance, runs, n, p, r, weight, clustered):
    """Coverage of the corrected and the plain interval, mean width ratio, share corrected."""
    hit = plain_hit = used = 0
    ratios = []
    for _ in range(runs):
        total = 11 * n
        truth, keys = turns(chance, total, p, clustered=clustered)
        cheap = np.where(chance.random(total) < r, truth, chance.random(total) < p).astype(float)
        # What the cheap judge doubts is sampled `weight` times as often; n in all are expected.
        lean = np.where(cheap < 0.5, weight, 1.0)
        rate = np.minimum(1.0, lean * n / lean.sum())
        kept = chance.random(total) < rate
        said = [float(t) if k else None for t, k in zip(truth, kept, strict=True)]
        found = powered_mean(cheap.tolist(), said, rate.tolist(), keys)
        if found is None:
            continue
        hit += found.estimate.low <= p <= found.estimate.high
        plain_hit += found.plain.low <= p <= found.plain.high
        used += found.factor > 0
        ratios.append(1 - found.narrower if found.factor > 0 else 1.0)
    return hit / runs, plain_hit / runs, float(np.mean(ratios)), used / runs


def powered(runs: int) -> None:
    """Prediction-powered intervals: coverage, and the width against the formula's."""
    print(
        f"\nPrediction-powered 95 % intervals, N = 10 n, {runs} runs a row; width as a share of the plain one's"
    )
    print(
        f"{'n':>5} {'p':>5} {'r':>4} {'weight':>6} {'conv.':>6} {'coverage':>9} {'plain':>7} {'width':>6} {'formula':>8} {'used':>6}"
    )  # fmt: skip
    worst = 1.0
    for n, p, r, (weight, clustered) in itertools.product(
        (30, 100, 400), (0.5, 0.8, 0.95), (0.6, 0.7, 0.9), ((1, False), (1, True), (5, True))
    ):
        chance = np.random.default_rng([19, n, int(p * 100), int(r * 10), weight, clustered])
        got, plain, width, used = one_powered(chance, runs, n, p, r, weight, clustered)
        worst = min(worst, got)
        formula = (1 - r * r * 10 / 11) ** 0.5
        print(
            f"{n:>5} {p:>5} {r:>4} {weight:>6} {'yes' if clustered else 'no':>6} {got:>9.3f} {plain:>7.3f} {width:>6.3f} {formula:>8.3f} {used:>6.2f}",
            flush=True,
        )
    print(
        f"lowest coverage {worst:.3f} (target 0.94); few failures or under 50 sampled leave the plain interval"
    )


def rolling_mean_alarms(values: np.ndarray) -> bool:
    """What others offer: a rolling mean of 100 under 0.90."""
    sums = np.cumsum(values)
    return bool(((sums[100:] - sums[:-100]) / 100 < 0.90).any())


def drift(streams: int) -> None:
    """False alarms on quiet streams, and how soon a shift is seen."""
    began = time.process_time()
    false = rolled = 0
    for seed in range(streams):
        values = (np.random.default_rng([11, seed]).random(20_000) < 0.95).astype(float)
        false += bool(detect(values.tolist()))
        rolled += rolling_mean_alarms(values)
    print(
        f"\nDrift at the 1 % setting, watched at every turn ({time.process_time() - began:.0f} s CPU)"
    )
    print(
        f"quiet streams of 20,000 turns that ever alarm: {false} of {streams} (at most 1 % allowed)"
    )
    print(f"the same under a rolling mean of 100 below 0.90: {rolled} of {streams}")
    for name, before, good, bad in (
        ("faithfulness 0.95 → 0.85, reference 5,000", 5000, 0.95, 0.85),
        ("faithfulness 0.95 → 0.85, reference 1,000", 1000, 0.95, 0.85),
        ("faithfulness 0.95 → 0.70, reference 5,000", 5000, 0.95, 0.70),
    ):
        report(name, [delay(seed, before, good, bad) for seed in range(200)])
    report(
        "reciprocal rank, mean rank 1.3 → 3, reference 5,000",
        [rank_delay(seed) for seed in range(200)],
    )
    report(
        "the same 0.95 → 0.85 at a named release change",
        [delay(seed, 5000, 0.95, 0.85, named=True) for seed in range(200)],
    )


def delay(seed, before, good, bad, *, named=False):
    """Turns from the shift to the alarm; -1 when the alarm came before the shift, None when never."""
    chance = np.random.default_rng([13, seed, before])
    values = np.concatenate([chance.random(before) < good, chance.random(3000) < bad]).astype(float)
    found = detect(values.tolist(), [before] if named else [])
    return None if not found else found[0].at - before if found[0].at >= before else -1


def rank_delay(seed):
    chance = np.random.default_rng([17, seed])
    values = np.concatenate(
        [1 / chance.geometric(1 / 1.3, 5000), 1 / chance.geometric(1 / 3, 1500)]
    )
    found = detect(values.tolist())
    return None if not found else found[0].at - 5000 if found[0].at >= 5000 else -1


def mixes(streams: int) -> None:
    """Changes that are none of the app's: how often they alarm, ranked by kind and all together."""
    told = blind = week = week_blind = 0
    for seed in range(streams):
        chance = np.random.default_rng([23, seed])
        hard = np.concatenate([chance.random(3000) < 0.1, chance.random(3000) < 0.6])
        values = (chance.random(6000) < np.where(hard, 0.70, 0.97)).astype(float).tolist()
        told += bool(detect(values, kinds=[(kind,) for kind in hard.tolist()]))
        blind += bool(detect(values))
        weekend = np.array([day % 7 >= 5 for day in range(28) for _ in range(500)])
        values = (
            (chance.random(len(weekend)) < np.where(weekend, 0.80, 0.95)).astype(float).tolist()
        )
        week += bool(detect(values, kinds=[(0, (0, day)) for day in weekend.tolist()]))
        week_blind += bool(detect(values))
    print(
        f"a service of 70 % grows from 10 % to 60 % of the traffic: {told} of {streams} alarm, ranked all together {blind}"
    )
    print(
        f"weekends of 80 %, working days of 95 %, four weeks: {week} of {streams} alarm, ranked all together {week_blind}"
    )


def report(name, delays):
    seen = [d for d in delays if d is not None and d >= 0]
    early = sum(d == -1 for d in delays if d is not None)
    quartiles = np.percentile(seen, [25, 50, 75]) if seen else [float("nan")] * 3
    print(
        f"{name:<55} median {quartiles[1]:>5.0f} turns (quartiles {quartiles[0]:.0f}–{quartiles[2]:.0f}); never {sum(d is None for d in delays)}, early {early}"
    )


def main() -> None:
    """Print the tables."""
    options = argparse.ArgumentParser()
    options.add_argument("--runs", type=int, default=2000)
    options.add_argument("--streams", type=int, default=1000)
    options.add_argument("--only", default="intervals,powered,drift")
    chosen = options.parse_args()
    if "intervals" in chosen.only:
        intervals(chosen.runs)
    if "powered" in chosen.only:
        powered(chosen.runs)
    if "drift" in chosen.only:
        drift(chosen.streams)
        mixes(max(20, chosen.streams // 20))


if __name__ == "__main__":
    main()
