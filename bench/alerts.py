"""How often the alarms beside drift are wrong, and how fast they are, on simulated projects.

nice .venv/bin/python bench/alerts.py
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import numpy as np

from stagewatch.core.model import Turn
from stagewatch.scorer.canary.moves import move_of
from stagewatch.scorer.kinds import kinds_of
from stagewatch.scorer.quiet import look

MONDAY = datetime(2026, 1, 5, tzinfo=UTC)
STEP = timedelta(minutes=10)
DAYS = 56


def office(at: datetime, rate: float) -> float:
    return rate if at.weekday() < 5 and 8 <= at.hour < 18 else 0.0


def round_the_clock(at: datetime, rate: float) -> float:
    return rate * (1.0 + 0.9 * math.sin((at.hour + at.minute / 60) / 24 * 2 * math.pi))


def stream(rate: Callable[[datetime], float], chance: np.random.Generator) -> tuple[list, list]:
    minutes = [MONDAY + timedelta(minutes=n) for n in range(DAYS * 1440)]
    counts = chance.poisson([rate(at) / 60 for at in minutes])
    kept = [(at, int(n)) for at, n in zip(minutes, counts, strict=True) if n]
    return [at for at, _ in kept], [n for _, n in kept]


def silence(name: str, shape: Callable[[datetime, float], float], rate: float, runs: int) -> None:
    chance = np.random.default_rng(17)
    alarms, looks, delays = 0, 0, []
    for _ in range(runs):
        minutes, counts = stream(lambda at: shape(at, rate), chance)
        quiet_before = False
        for n in range(28 * 144):
            now = MONDAY + timedelta(days=28) + n * STEP
            end = bisect_right(minutes, now)
            begin = bisect_right(minutes, now - timedelta(days=29))
            found = look(minutes[begin:end], counts[begin:end], now)
            looks += 1
            alarming = bool(found and found.alarming)
            alarms += alarming and not quiet_before
            quiet_before = alarming
        cut = MONDAY + timedelta(days=44, hours=12)
        end = bisect_right(minutes, cut)
        begin = bisect_right(minutes, cut - timedelta(days=28))
        for minute in range(3 * 24 * 60):
            found = look(minutes[begin:end], counts[begin:end], cut + timedelta(minutes=minute))
            if found and found.alarming:
                delays.append(minute)
                break
    weeks = runs * 4
    print(
        f"{name:<28} {alarms} false alarms in {weeks} weeks; stopped on a Wednesday at noon: "
        f"noticed after {np.median(delays):.0f} min (median; {len(delays)} of {runs} within 3 days)"
    )


def canary(runs: int = 2000, texts: int = 48, days: int = 60) -> None:
    chance = np.random.default_rng(9)
    moved = 0
    for _ in range(runs):
        share = chance.random(texts)
        first = {str(i): float(chance.random() < share[i]) for i in range(texts)}
        for day in range(1, days + 1):
            now = {str(i): float(chance.random() < share[i]) for i in range(texts)}
            found = move_of("faithfulness", first, now, size=texts, reading=day)
            if found and found.moved:
                moved += 1
                break
    print(f"canary: {moved} of {runs} judges that waver for {days} days are said to have moved")
    for flipped in (4, 8, 10, 12, 16, 24):
        first = {str(i): float(i >= flipped) for i in range(texts)}
        now = dict.fromkeys(first, 1.0)
        seen = [d for d in range(1, 366)
                if (m := move_of("faithfulness", first, now, size=texts, reading=d)) and m.moved]  # fmt: skip
        print(
            f"canary: {flipped} of {texts} texts one way: seen up to reading {max(seen, default=0)}"
        )


def kinds(runs: int = 1000) -> None:
    chance = np.random.default_rng(3)
    words = [f"word{n}" for n in range(60)]
    named = 0
    for _ in range(runs):
        turns = [
            Turn(
                turn_id=str(n), trace_id="t", span_id="s", project="p", started_at=MONDAY,
                duration_ms=1.0, service=str(chance.choice(["a", "b", "c"])), answer="a",
                question=" ".join(chance.choice(words, 8)),
            )
            for n in range(300)
        ]  # fmt: skip
        bad = set(chance.choice(300, 60, replace=False).tolist())
        named += bool(kinds_of([t for n, t in enumerate(turns) if n in bad],
                               [t for n, t in enumerate(turns) if n not in bad]))  # fmt: skip
    print(f"kinds: named in {named} of {runs} alerts whose turns fail by luck")


def main() -> None:
    for rate in (1, 6, 60, 600):
        silence(f"round the clock, {rate}/h", round_the_clock, rate, 10)
    for rate in (6, 60):
        silence(f"weekdays 8 to 18, {rate}/h", office, rate, 10)
    canary()
    kinds()


if __name__ == "__main__":
    main()
