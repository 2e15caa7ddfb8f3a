"""Two releases over live traffic: what went up, what went down, what held. Pure.

The interval of a difference is made from the two intervals (MOVER; Newcombe 1998, Donner and Zou
2012), so weights and conversations are in it as they are in theirs. Turns of the two releases are
not matched: a change of who asks what shows as a difference too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from stagewatch.core.store.scores import Reading
from stagewatch.scorer.estimate import Estimate, mean_estimate
from stagewatch.scorer.series import value_for

Moved = Literal["up", "down", "held", "cannot_tell"]

HELD_WITHIN = 0.05
"""A metric held when its difference lies within five points with 95 % confidence."""

FEWEST = 30


@dataclass(frozen=True, slots=True)
class Compared:
    """A metric compared: the words for it, and how a reading becomes a goodness in [0, 1]."""

    metric: str
    stat: str
    label: str
    flip: bool = False


COMPARED: tuple[Compared, ...] = (
    Compared("retrieved_recall", "pass_rate", "recall"),
    Compared("first_relevant_rank", "pass_rate", "rank of the first relevant passage"),
    Compared("context_precision_at_k", "pass_rate", "precision"),
    Compared("context_sufficiency", "pass_rate", "sufficiency of the context"),
    Compared("rewrite_fidelity", "pass_rate", "rewrites"),
    Compared("stale_context", "mean", "freshness of sources", True),
    Compared("faithfulness", "pass_rate", "faithfulness"),
    Compared("answer_relevancy", "pass_rate", "relevancy of answers"),
)


@dataclass(frozen=True, slots=True)
class Side:
    """One release's share of turns that pass, with its 95 % interval."""

    n: int
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Difference:
    """`b` minus `a` of one metric with its 95 % interval. `why` says why there is none, or that
    it is too wide to tell.
    """

    metric: str
    label: str
    moved: Moved
    a: Side | None
    b: Side | None
    change: float | None = None
    low: float | None = None
    high: float | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Every metric, and one sentence over them."""

    by: str
    a: str
    b: str
    items: tuple[Difference, ...]
    sentence: str


def compare(by: str, a: str, b: str, readings: Mapping[str, Sequence[Reading]]) -> Comparison:
    """`b` against `a` on every metric that both have.

    Args:
        by: the dimension, such as `release`.
        a: the value before.
        b: the value after.
        readings: metric → its readings, of any time and value of the dimension.
    """
    items = tuple(
        difference(spec, by, a, b, readings.get(spec.metric, ()))
        for spec in COMPARED
        if any(r.dimensions.get(by) in {a, b} for r in readings.get(spec.metric, ()))
    )
    return Comparison(by, a, b, items, sentence(by, a, b, items))


def difference(spec: Compared, by: str, a: str, b: str, readings: Sequence[Reading]) -> Difference:
    """One metric. Only readings of one judge, basis and threshold that both sides have count."""
    sides = [[r for r in readings if r.dimensions.get(by) == name] for name in (a, b)]
    key = _common(*sides)
    if key is None:
        why = "no judge read both" if all(sides) else f"nothing scored of {a if sides[1] else b}"
        return Difference(spec.metric, spec.label, "cannot_tell", None, None, why=why)
    found = [_estimate(spec, [r for r in side if _key(r) == key]) for side in sides]
    before, after = (_side(item) for item in found)
    if before is None or after is None or min(before.n, after.n) < FEWEST:
        why = f"fewer than {FEWEST} scored turns on a side"
        return Difference(spec.metric, spec.label, "cannot_tell", before, after, why=why)
    change = after.value - before.value
    low = change - math.hypot(after.value - after.low, before.high - before.value)
    high = change + math.hypot(after.high - after.value, before.value - before.low)
    moved, why = _moved(low, high)
    return Difference(spec.metric, spec.label, moved, before, after, change, low, high, why)


def _moved(low: float, high: float) -> tuple[Moved, str]:
    if low > 0:
        return "up", ""
    if high < 0:
        return "down", ""
    if low >= -HELD_WITHIN and high <= HELD_WITHIN:
        return "held", ""
    return "cannot_tell", "the interval is too wide: more turns are needed"


_Key = tuple[str, str, float | None]


def _key(reading: Reading) -> _Key:
    return reading.fingerprint, reading.basis, reading.threshold


def _common(left: Sequence[Reading], right: Sequence[Reading]) -> _Key | None:
    """The judge, basis and threshold that both sides have most readings of."""
    one, two = Counter(map(_key, left)), Counter(map(_key, right))
    shared = [(min(one[key], two[key]), str(key), key) for key in one.keys() & two.keys()]
    return max(shared)[2] if shared else None


def _estimate(spec: Compared, readings: Sequence[Reading]) -> Estimate | None:
    kept = [(value_for(spec.stat, r), r) for r in readings]
    known = [(1.0 - v if spec.flip else v, r) for v, r in kept if v is not None]
    return mean_estimate(
        [v for v, _ in known], [r.inclusion for _, r in known],
        [r.conversation_id for _, r in known],
    )  # fmt: skip


def _side(found: Estimate | None) -> Side | None:
    return None if found is None else Side(found.n, found.value, found.low, found.high)


_SAID: Mapping[Moved, str] = {"up": "went up", "down": "went down", "held": "held"}


def sentence(by: str, a: str, b: str, items: Sequence[Difference]) -> str:
    """All metrics in one sentence: what went up, what went down, what held, what is unclear."""
    parts = []
    for moved, words in _SAID.items():
        named = [item for item in items if item.moved == moved]
        if moved == "held":
            text = ", ".join(item.label for item in named)
        else:
            text = ", ".join(f"{item.label} ({_points(item)})" for item in named)
        if named:
            parts.append(f"{text} {words}" if moved == "held" else f"{words}: {text}")
    unknown = [item.label for item in items if item.moved == "cannot_tell"]
    if unknown:
        parts.append(f"cannot tell of {', '.join(unknown)}")
    name = by.replace("_", " ")
    told = "; ".join(parts) if parts else "nothing scored to compare"
    return f"{name[:1].upper()}{name[1:]} {b} against {a}: {told}."


def _points(item: Difference) -> str:
    if item.a is None or item.b is None:
        return ""
    return f"{item.a.value:.0%} → {item.b.value:.0%}"
