"""Which turns are read: by a hash of the turn id, so retries and restarts choose the same ones.

Rates are nested: whoever is in the sample at 5 % is in it at 20 % too. So a raised rate only
adds turns, and those below the base rate are a uniform sample of everything, whatever was
raised: drift is tested on them, estimates weigh every turn by its own probability.
"""

from __future__ import annotations

from dataclasses import dataclass

import xxhash

from stagewatch.core.model import Turn
from stagewatch.scorer.rules import Rule

_SPAN = float(1 << 64)

UNIFORM = "uniform"


def position(turn_id: str) -> float:
    """The turn's fixed place in [0, 1), even over ids: XXH3-64 of the id over 2^64."""
    return xxhash.xxh3_64_intdigest(turn_id.encode()) / _SPAN


def is_sampled(turn_id: str, rate: float) -> bool:
    """True for the share `rate` (0 to 1) of turns; nested over rates."""
    return position(turn_id) < rate


@dataclass(frozen=True, slots=True)
class Signals:
    """What may raise a turn's rate, known before the configured judge is asked.

    `release_turns` counts turns of the turn's release in the last 24 hours; `failed` and
    `unsure` are the embedded judge's word on it, None without a first pass.
    """

    release_turns: int | None = None
    failed: bool | None = None
    unsure: bool | None = None


@dataclass(frozen=True, slots=True)
class Draw:
    """A turn's inclusion probability, the stratum that its reading counts for, and why.

    `stratum` is `uniform` below the base rate, else what raised the rate: a turn of a raised
    stratum that the base rate takes anyway is part of the uniform sample.
    """

    inclusion: float
    stratum: str
    why: str


def draw(rule: Rule, turn: Turn, signals: Signals) -> Draw:
    """The probability at which `rule` has this turn read: the highest rate that applies."""
    rates = [(rule.rate, UNIFORM, "")]
    rare = signals.release_turns
    if rule.rare_rate is not None and rule.rare_below is not None and rare is not None:
        said = f"its release had {rare} turns in 24 hours"
        rates += [(rule.rare_rate, "rare_release", said)] if rare < rule.rare_below else []
    if rule.low_rate is not None and signals.failed:
        rates.append((rule.low_rate, "low_score", "the embedded judge fails it"))
    if rule.cascade_rate is not None and signals.unsure:
        rates.append((rule.cascade_rate, "uncertain", "the embedded judge is unsure of it"))
    rate, stratum, why = max(rates, key=lambda item: item[0])
    if position(turn.turn_id) < rule.rate:
        stratum = UNIFORM
    return Draw(rate, stratum, why)
