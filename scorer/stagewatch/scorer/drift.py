"""Drift told from noise at every peek: a conformal betting process.

The null hypothesis is "the readings are exchangeable": nothing has changed since the good times.
Each new reading gets a conformal p-value, its rank from the bad end among all in-control readings
so far and itself, ties broken at random. Under the null these are independent and uniform,
whatever the true rate is, so the error of the reference is part of the null and no rate has to be
taken as known. A gambler bets that p-values come out small; under the null no strategy can grow
its wealth, so wealth of 1/alpha is evidence at level alpha, at whatever time one looks (Ville's
inequality; Vovk, Gammerman & Shafer, *Algorithmic Learning in a Random World*, 2nd ed., 8).

- How much worse it gets and since when are not known: wealth is mixed over bets and start times.
- A release, index, prompt or judge change is where things break: the process starts afresh there
  with a part of alpha, still ranked among the readings before it. Alpha is split over restarts
  as 1/(j(j+1)), which sums to 1.
- After an alarm the stream is silent until the next change, and teaches the reference nothing.
- Readings of different kinds (another service, a weekend) are ranked among their own kind only
  (Mondrian p-values, the same book, 4.6), so that a change of the mix is no change of the app. A
  finer kind is ranked among the coarser one until it is known: see `MATURE`.
"""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right, insort
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Kinds = tuple[Hashable, ...]
_ALL: Kinds = ("",)

ARM_AT = 1000
"""Readings in control before the detector is armed."""

LEARN = 200
"""The first readings tell only where to bet (how often a value is bad when all is well). They are
not ranked against: a bet may depend on them and the p-values of the others stay uniform."""

EPOCH = 20_000
"""Start times are mixed uniformly within epochs of this many readings."""

FIRST_EPOCH = 0.9
"""Share of the belief in a start within the first epoch; the others halve what is left."""

MATURE = 50
"""Readings of a finer kind that are ranked among the coarser one. With none, what breaks on the
first weekend would be ranked among broken turns only; with 100, a first weekend that is merely 15
points harder alarmed on half of the streams (with 50 on 3 of 40)."""

_RATIOS = ((1.6, 0.25), (2.4, 0.3), (3.6, 0.3), (8.0, 0.15))
"""How many times as often bad values come after a change, and the belief in it."""

WORST_LEVEL = 0.5
"""Where more than half of the readings are bad to begin with, nothing can get so much worse that a
bet would pay: such a stream is not watched."""

_SPREAD = (0.75, 1.0, 1.35)
"""What was learnt from 200 readings is itself unsure by about a third."""

_QUANTILES = (0.05, 0.15, 0.3, 0.5)
_SEED = 20_261_130


@dataclass(frozen=True, slots=True)
class Alarm:
    """When the null fell. Positions index the stream of readings.

    `start` is the most likely beginning of the change, `at` the reading that raised the alarm;
    `reference_mean` is the mean of the `reference_n` in-control readings before the start.
    """

    at: int
    start: int
    reference_n: int
    reference_mean: float
    after_mean: float
    evidence: float


def betting_levels(learnt: Sequence[float]) -> list[float]:
    """Shares of bad values worth betting on, from readings in control.

    With few distinct values (pass/fail, ranks) these are the steps of their distribution, else
    fixed quantiles; never below two readings' worth.
    """
    n = len(learnt)
    distinct = sorted(set(learnt))
    if len(distinct) > len(_QUANTILES):
        steps = list(_QUANTILES)
    else:
        steps = [sum(v <= value for v in learnt) / n for value in distinct[:-1]]
    return [max(step, 2 / n) for step in steps] or [2 / n]


class _Bets:
    """Two-step bets on uniform p-values: `high` at or below `level`, `low` above; mean 1 each."""

    def __init__(self, levels: Sequence[float]) -> None:
        made = [
            (level * spread, ratio, belief)
            for level in levels
            for spread in _SPREAD
            for ratio, belief in _RATIOS
            if level * spread * ratio < 0.9
        ]
        table = np.array(made)
        self.level: Floats = table[:, 0]
        self.high: Floats = table[:, 1]
        self.low: Floats = (1 - self.high * self.level) / (1 - self.level)
        self.belief: Floats = table[:, 2] / table[:, 2].sum()

    def factors(self, p: float) -> Floats:
        """What each bet multiplies its stake by."""
        return np.where(p <= self.level, self.high, self.low)


class _History:
    """In-control readings in order of badness, kind by kind; gives conformal p-values."""

    def __init__(self, seed: int) -> None:
        self._sorted: dict[Hashable, list[float]] = {}
        self._chance = random.Random(seed)  # noqa: S311 - breaks ties, keeps no secret

    def p_value(self, value: float, kinds: Kinds) -> float:
        """Randomised rank of `value` from the bad (low) end among its kind so far and itself."""
        known = self._ranked_among(kinds)
        below = bisect_left(known, value)
        ties = bisect_right(known, value) - below + 1
        p = (below + self._chance.random() * ties) / (len(known) + 1)
        for kind in kinds:
            insort(self._sorted[kind], value)
        return p

    def _ranked_among(self, kinds: Kinds) -> list[float]:
        for kind in reversed(kinds):
            known = self._sorted.setdefault(kind, [])
            if len(known) >= MATURE:
                return known
        return self._sorted.setdefault(kinds[0], [])

    def forget(self, values: Iterable[tuple[float, Kinds]]) -> None:
        """Take readings out again: they turned out not to be in control."""
        for value, kinds in values:
            for kind in kinds:
                known = self._sorted[kind]
                del known[bisect_left(known, value)]


class _Process:
    """Wealth mixed over bets and start times."""

    def __init__(self, bets: _Bets, alpha: float, *, known_start: bool) -> None:
        self._bets = bets
        self.alpha = alpha
        self._known_start = known_start
        self._wealth: Floats = np.zeros(len(bets.level))
        self._n = 0
        # Per bet: log wealth of the best single start, and where it was; tells "since when".
        self._best: Floats = np.zeros(len(bets.level))
        self._best_start = np.zeros(len(bets.level), dtype=np.int64)

    def _new_mass(self) -> float:
        """Prior mass of a start at this reading; sums to at most 1 over all time."""
        epoch = self._n // EPOCH
        share = FIRST_EPOCH if epoch == 0 else (1 - FIRST_EPOCH) * 0.5**epoch
        spread = share / EPOCH
        if not self._known_start:
            return spread
        # Half of the belief is that a change breaks things the moment it goes live.
        return 0.5 * spread + (0.5 if self._n == 0 else 0.0)

    def bet(self, p: float, position: int) -> bool:
        """Bet on one p-value; True when the wealth reaches 1/alpha."""
        fresh = self._best <= 0
        self._best_start[fresh] = position
        self._best[fresh] = 0.0
        factors = self._bets.factors(p)
        self._wealth = (self._wealth + self._new_mass() * self._bets.belief) * factors
        self._best += np.log(factors)
        self._n += 1
        return self.wealth >= 1.0 / self.alpha

    @property
    def wealth(self) -> float:
        """Evidence against the null: 1 is none."""
        return float(self._wealth.sum())

    def likely_start(self) -> int:
        """The start of the single bet and start time that won most."""
        return int(self._best_start[int(np.argmax(self._best))])


def detect(
    values: Sequence[float],
    restarts: Sequence[int] = (),
    *,
    kinds: Sequence[Kinds] = (),
    alpha: float = 0.01,
    seed: int = _SEED,
) -> list[Alarm]:
    """Alarms of a stream of values where lower is worse, oldest first.

    Args:
        values: shape (n,), in time order, uniform stratum only.
        restarts: positions where a release, index, prompt or judge change goes live.
        kinds: shape (n,) or empty: the kinds a reading is of, coarse to fine. Fixed by what a
            turn is, never by how it went.
        alpha: chance that a stream that never changes ever alarms.
        seed: of the tie-breaking: the same stream gives the same alarms, and a longer one
            begins with those of its beginning.
    """
    return list(_alarms(values, kinds or [_ALL] * len(values), set(restarts), alpha, seed))


def _alarms(
    values: Sequence[float],
    kinds: Sequence[Kinds],
    restarts: set[int],
    alpha: float,
    seed: int,
) -> Iterator[Alarm]:
    if len(values) <= LEARN:
        return
    levels = [level for level in betting_levels(values[:LEARN]) if level < WORST_LEVEL]
    if not levels:
        return
    bets = _Bets(levels)
    history = _History(seed)
    trusted: list[int] = []
    process: _Process | None = None
    silent, begun = False, 0
    for position in range(LEARN, len(values)):
        if position in restarts:
            process, silent = None, False
        if silent:
            continue
        p = history.p_value(values[position], kinds[position])
        trusted.append(position)
        if LEARN + len(trusted) <= ARM_AT:
            continue
        if process is None:
            begun += 1
            share = alpha / (begun * (begun + 1))
            process = _Process(bets, share, known_start=position in restarts)
        if process.bet(p, position):
            start = process.likely_start()
            lost = [i for i in trusted if i >= start]
            trusted = trusted[: len(trusted) - len(lost)]
            history.forget((values[i], kinds[i]) for i in lost)
            yield _alarm(values, position, start, trusted, process.wealth)
            silent = True


def _alarm(
    values: Sequence[float], at: int, start: int, trusted: Sequence[int], evidence: float
) -> Alarm:
    after = values[start : at + 1]
    return Alarm(
        at=at,
        start=start,
        reference_n=len(trusted),
        reference_mean=sum(values[i] for i in trusted) / max(len(trusted), 1),
        after_mean=sum(after) / len(after),
        evidence=evidence,
    )
