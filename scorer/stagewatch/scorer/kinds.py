"""Which kinds of questions an alert is about: what failing turns share and others don't. Pure.

Every word of the questions and every value of service, release, model, environment and tags is
tried. What counts is Fisher's exact test, one-sided, at 1 % divided by the number of things tried
(Bonferroni), and at least twice the share among failing turns.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from stagewatch.core.model import Turn
from stagewatch.scorer.text.words import STOP, read_words

ALPHA = 0.01
FEWEST = 5
"""Failing turns that must share a thing before it is one."""

_TWICE = 2.0
_MAX_WORDS = 3
_LONGEST = 40
_WORDS = "words"


@dataclass(frozen=True, slots=True)
class Kind:
    """A thing that failing turns share.

    `what` is `words` or the name of a field; `words` stem from users' texts. Counts are turns:
    `failing` of `all_failing` have it, `passing` of `all_passing` too.
    """

    what: str
    value: str
    failing: int
    all_failing: int
    passing: int
    all_passing: int
    sentence: str


def kinds_of(failing: Sequence[Turn], passing: Sequence[Turn]) -> list[Kind]:
    """What failing turns share, the most telling thing of each sort first; three words at most."""
    if len(failing) < FEWEST or not passing:
        return []
    bad, good = _counts(failing), _counts(passing)
    level = ALPHA / max(1, len(bad))
    found: list[tuple[float, Kind]] = []
    for key, count in bad.items():
        if count < FEWEST:
            continue
        other = good.get(key, 0)
        if count / len(failing) < _TWICE * other / len(passing):
            continue
        chance = fisher(count, len(failing), other, len(passing))
        if chance <= level:
            kind = Kind(*key, count, len(failing), other, len(passing), "")
            found.append((chance, kind))
    found.sort(key=lambda item: (item[0], item[1].what, item[1].value))
    return _spoken([kind for _, kind in found])


def fisher(a: int, a_of: int, b: int, b_of: int) -> float:
    """Chance of at least `a` of `a_of` when `a + b` of `a_of + b_of` have a thing by luck: the
    upper tail of the hypergeometric distribution (Fisher 1935).
    """
    total, having = a_of + b_of, a + b

    def log_choose(n: int, k: int) -> float:
        return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)

    every = log_choose(total, a_of)
    most = min(a_of, having)
    tail = (
        math.exp(log_choose(having, k) + log_choose(total - having, a_of - k) - every)
        for k in range(a, most + 1)
        if a_of - k <= total - having
    )
    return min(1.0, math.fsum(tail))


def _counts(turns: Iterable[Turn]) -> Counter[tuple[str, str]]:
    """(what, value) → turns that have it."""
    counts: Counter[tuple[str, str]] = Counter()
    for turn in turns:
        counts.update(set(_things(turn)))
    return counts


_FIELDS: Mapping[str, Callable[[Turn], str | None]] = {
    "service": lambda turn: turn.service,
    "release": lambda turn: turn.release,
    "model": lambda turn: turn.model,
    "environment": lambda turn: turn.environment,
}


def _things(turn: Turn) -> Iterable[tuple[str, str]]:
    for name, read in _FIELDS.items():
        value = read(turn)
        if value:
            yield name, value
    for name, value in turn.tags.items():
        yield f"tag {name}", str(value)
    words = read_words(turn.question or "")
    for word in words.words:
        if word not in STOP and len(word) > 1 and not word.isdigit():
            yield _WORDS, word[:_LONGEST]


def _spoken(found: Sequence[Kind]) -> list[Kind]:
    """One kind a field, and words that are not all of the same turns, with their sentences."""
    kept: dict[str, list[Kind]] = {}
    for kind in found:
        kept.setdefault(kind.what, []).append(kind)
    spoken = []
    for what, kinds in kept.items():
        limit = _MAX_WORDS if what == _WORDS else 1
        spoken += [_with_sentence(kind) for kind in kinds[:limit]]
    return spoken


def _with_sentence(kind: Kind) -> Kind:
    has = f"ask with “{kind.value}”" if kind.what == _WORDS else f"have {kind.what} {kind.value}"
    sentence = (
        f"{kind.failing} of {kind.all_failing} failing turns {has}, "
        f"{kind.passing} of {kind.all_passing} passing ones do."
    )
    return Kind(
        kind.what, kind.value, kind.failing, kind.all_failing, kind.passing, kind.all_passing,
        sentence,
    )  # fmt: skip
