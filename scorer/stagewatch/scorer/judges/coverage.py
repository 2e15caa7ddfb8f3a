"""How much of a claim a passage covers: the measurements behind the embedded judge's label.

A claim is compared with single sentences, pairs of neighbouring sentences (with the passage's
first line, mostly a title) and whole passages. Words that few sentences hold weigh more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from stagewatch.scorer.text.passages import Passages
from stagewatch.scorer.text.words import STOP, Words, content_stems, read_words

_PREFIX = 5
"""Stems that share this many letters count as one word nearly: deliveri and deliver."""
_PREFIX_CREDIT = 0.8


@dataclass(frozen=True, slots=True)
class Coverage:
    """Shares in [0, 1] of the claim's weighted content words.

    `sentence`, `pair`, `passage`: the best single sentence, pair, passage; `window`: all of it;
    `order`: neighbouring content words of the claim that stand close together in the best
    pair; `figures` and `names`: numbers and capitalised words of the claim that the best
    passage holds (1.0 when it has none). `best` are sentence indexes, best first.
    """

    sentence: float
    pair: float
    passage: float
    window: float
    order: float
    figures: float
    names: float
    words: int
    best: tuple[int, ...]


def measure(claim: Words, passages: Passages) -> Coverage:
    """Measure `claim` against every sentence of the window.

    An empty claim or window gives zeros. Cost is linear in the occurrences of the claim's words.
    """
    stems = content_stems(claim)
    if not stems or not passages.sentences:
        return Coverage(0, 0, 0, 0, 0, 0, 0, len(stems), ())
    weights, credit = _weights(stems, passages)
    total = sum(weights.values())
    held: dict[int, dict[str, float]] = {}
    for root in stems:
        for index, share in credit[root].items():
            held.setdefault(index, {})[root] = weights[root] * share
    if not held:
        return Coverage(0, 0, 0, 0, 0, 0, 0, len(stems), ())
    single = {index: sum(found.values()) for index, found in held.items()}
    pair_of = {index: _pair(index, held, passages) for index in held}
    by_passage = _by_passage(held, passages)
    best = sorted(pair_of, key=lambda i: (-pair_of[i][0] - single[i], i))[:4]
    top = best[0]
    best_passage = by_passage[passages.sentences[top].passage]
    return Coverage(
        sentence=max(single.values()) / total,
        pair=max(value for value, _ in pair_of.values()) / total,
        passage=max(sum(found.values()) for found in by_passage.values()) / total,
        window=sum(weights[root] * max(credit[root].values(), default=0.0) for root in stems)
        / total,
        order=_order(stems, top, passages),
        figures=_share([s for s in stems if s[0].isdigit()], best_passage),
        names=_share(_names(claim), best_passage),
        words=len(stems),
        best=tuple(best),
    )


@dataclass(frozen=True, slots=True)
class Measured:
    """A claim's words beside its coverage."""

    words: Words
    coverage: Coverage


def measure_text(claim: str, passages: Passages) -> Measured:
    """`measure` for a claim given as text; judge and guard ask for the same ones."""
    known = passages.memo.get(claim)
    if not isinstance(known, Measured):
        words = read_words(claim)
        known = passages.memo[claim] = Measured(words, measure(words, passages))
    return known


def _weights(
    stems: list[str], passages: Passages
) -> tuple[dict[str, float], dict[str, dict[int, float]]]:
    """Weight of each stem, and for each the sentences that hold it with the credit it gets."""
    count = len(passages.sentences)
    weights: dict[str, float] = {}
    credit: dict[str, dict[int, float]] = {}
    for root in stems:
        places = passages.where.get(root)
        if places is not None:
            credit[root] = dict.fromkeys(places, 1.0)
        else:
            credit[root] = dict.fromkeys(passages.near(root, _PREFIX), _PREFIX_CREDIT)
        weights[root] = 1.0 + 0.5 * math.log((count + 1) / (len(credit[root]) + 1))
    return weights, credit


def _pair(index: int, held: dict[int, dict[str, float]], passages: Passages) -> tuple[float, int]:
    """Weight covered by the sentence, its better neighbour and the passage's first line."""
    here = passages.sentences[index]
    title = held.get(index - here.index, {})
    best, other = 0.0, index
    for neighbour in (index - 1, index + 1):
        near = held.get(neighbour)
        if near is None or passages.sentences[neighbour].passage != here.passage:
            near = {}
        joined = title | near | held[index]
        value = sum(joined.values())
        if value > best:
            best, other = value, neighbour
    return best, other


def _by_passage(
    held: dict[int, dict[str, float]], passages: Passages
) -> dict[int, dict[str, float]]:
    found: dict[int, dict[str, float]] = {}
    for index, roots in held.items():
        into = found.setdefault(passages.sentences[index].passage, {})
        for root, value in roots.items():
            into[root] = max(value, into.get(root, 0.0))
    return found


def _order(stems: list[str], index: int, passages: Passages) -> float:
    """Share of neighbouring content words that are close (within 3 words) in the best sentence."""
    if len(stems) < 2:
        return 1.0
    here = passages.sentences[index]
    places: dict[str, list[int]] = {}
    kept = [r for w, r in zip(here.words.words, here.words.stems, strict=True) if w not in STOP]
    for position, root in enumerate(kept):
        places.setdefault(root, []).append(position)
    close = 0
    for left, right in pairwise(stems):
        if any(abs(a - b) <= 3 for a in places.get(left, ()) for b in places.get(right, ())):
            close += 1
    return close / (len(stems) - 1)


def _names(claim: Words) -> list[str]:
    """Stems of words written with a capital that do not open the claim."""
    return [
        claim.stems[i]
        for i in range(1, len(claim))
        if claim.raw(i)[0].isupper() and claim.words[i] not in STOP and len(claim.words[i]) > 1
    ]


def _share(roots: list[str], held: dict[str, float]) -> float:
    return sum(root in held for root in roots) / len(roots) if roots else 1.0
