"""What a question is about and how much of it a passage speaks of."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from stagewatch.scorer.facts.quantities import read_quantities
from stagewatch.scorer.text.passages import Passages, Sentence
from stagewatch.scorer.text.synonyms import alike
from stagewatch.scorer.text.words import STOP, Words, read_words
from stagewatch.scorer.text.wordset import word_set

_ASKING = word_set(
    """
    tell know explain describe want like would find give show question information info details
    anything something happen happens mean means difference possible way thing things kind type
    long much many often far soon time people person help need i'm im hi hello thanks ok okay
    """
)
_EXPECTS: tuple[tuple[re.Pattern[str], frozenset[str]], ...] = (
    (re.compile(r"\bhow (?:long|soon|often|old)\b|\bdeadline\b", re.IGNORECASE),
     frozenset({"measure", "date", "time"})),
    (re.compile(r"\bhow (?:much|expensive)\b|\b(?:cost|price|fee)s?\b", re.IGNORECASE),
     frozenset({"money", "percent", "number", "measure"})),
    (re.compile(r"\bhow (?:many|far|big|large|tall|high|fast)\b", re.IGNORECASE),
     frozenset({"number", "measure", "percent", "year", "money"})),
    (re.compile(r"\b(?:when|what (?:time|date|year|day)|opening hours)\b", re.IGNORECASE),
     frozenset({"date", "time", "year", "measure"})),
)  # fmt: skip


_MOMENT_KINDS = frozenset({"date", "time"})
_RELATIVE_MOMENT = re.compile(
    r"\b(?:next|same|following|every|each|working|business|first|last)\s+(?:\w+\s+)?"
    r"(?:day|morning|evening|week|weekend|month|quarter|year)s?\b"
    r"|\b(?:today|tomorrow|yesterday|tonight|immediately|instantly|at once|right away|overnight"
    r"|daily|weekly|monthly|yearly|annually|always|never|(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b",
    re.IGNORECASE,
)


def gives_moment(text: str, expects: frozenset[str]) -> bool:
    """Whether `text` answers a question for a time without a number: "the next business day"."""
    return bool(expects & _MOMENT_KINDS) and _RELATIVE_MOMENT.search(text) is not None


@dataclass(frozen=True, slots=True)
class Topic:
    """The words of a question that name its subject, and the kinds of value it expects."""

    stems: tuple[str, ...]
    weights: tuple[float, ...]
    expects: frozenset[str]


def read_topic(question: str, passages: Passages) -> Topic:
    """The topic of `question`; words that few of the passages hold weigh more.

    A question of stop words only has no topic: every share of it is then 0.
    """
    words = read_words(question)
    stems = list(
        dict.fromkeys(
            root
            for word, root in zip(words.words, words.stems, strict=True)
            if word not in STOP and word not in _ASKING and (len(word) > 1 or word.isdigit())
        )
    )
    total = len(passages.texts)
    weights = []
    for root in stems:
        holding = {passages.sentences[i].passage for i in _places(root, passages)}
        weights.append(1.0 + math.log((total + 1) / (len(holding) + 1)))
    expects = next((kinds for pattern, kinds in _EXPECTS if pattern.search(question)), frozenset())
    return Topic(tuple(stems), tuple(weights), expects)


def _places(root: str, passages: Passages) -> list[int]:
    found = list(passages.where.get(root, ()))
    for other in alike(root):
        found.extend(passages.where.get(other, ()))
    return found or passages.near(root, 5)


@dataclass(frozen=True, slots=True)
class Match:
    """How far one passage meets a topic, in [0, 1]: over all of it, and in its best sentences.

    `answers` is False when the question expects a kind of value (a duration, a price) that the
    passage does not hold.
    """

    passage: float
    sentences: float
    answers: bool


def match_passages(topic: Topic, passages: Passages) -> list[Match]:
    """One `Match` a passage, in order."""
    total = sum(topic.weights) or 1.0
    covered: list[set[int]] = [set() for _ in passages.texts]
    by_sentence: dict[int, set[int]] = {}
    for number, root in enumerate(topic.stems):
        for place in _places(root, passages):
            covered[passages.sentences[place].passage].add(number)
            by_sentence.setdefault(place, set()).add(number)
    best = [0.0] * len(passages.texts)
    for place, roots in by_sentence.items():
        here = passages.sentences[place]
        near = by_sentence.get(place + 1, set())
        same = place + 1 < len(passages.sentences) and (
            passages.sentences[place + 1].passage == here.passage
        )
        joined = roots | near if same else roots
        best[here.passage] = max(best[here.passage], _weight(joined, topic) / total)
    return [
        Match(_weight(covered[i], topic) / total, best[i], _holds_expected(topic, i, passages))
        for i in range(len(passages.texts))
    ]


def _weight(numbers: set[int], topic: Topic) -> float:
    return sum(topic.weights[number] for number in numbers)


def _holds_expected(topic: Topic, passage: int, passages: Passages) -> bool:
    if not topic.expects:
        return True
    return gives_moment(passages.texts[passage], topic.expects) or any(
        quantity.kind in topic.expects
        for sentence in _of(passages, passage)
        for quantity in read_quantities(sentence.words)
    )


def _of(passages: Passages, passage: int) -> Sequence[Sentence]:
    return [sentence for sentence in passages.sentences if sentence.passage == passage]


def subject_words(words: Words) -> list[int]:
    """Positions of the words of a question that name its subject."""
    return [i for i, word in enumerate(words.words) if word not in STOP and word not in _ASKING]
