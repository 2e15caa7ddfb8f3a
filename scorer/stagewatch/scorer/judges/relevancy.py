"""Answer relevancy by rule: an engine without a model can only see the obvious evasions."""

from __future__ import annotations

import re

from stagewatch.scorer.facts.quantities import read_quantities
from stagewatch.scorer.judges.protocol import RelevancyReading
from stagewatch.scorer.judges.topic import gives_moment, read_topic, subject_words
from stagewatch.scorer.text.passages import read_passages
from stagewatch.scorer.text.synonyms import alike
from stagewatch.scorer.text.words import content_stems, read_words

_JOIN = re.compile(
    r"\?\s+|\s+and (?=(?:how|what|when|where|who|which|why|can|do|does|is|are)\b)", re.IGNORECASE
)
_YES_NO = re.compile(
    r"^\W*(?:can|could|do|does|did|is|are|was|were|will|would|may|should|has|have)\b", re.IGNORECASE
)
_VERDICT = re.compile(r"^\W*(?:yes|no)\b", re.IGNORECASE)
_NEAR_NOTHING = 0.15


def asked_things(question: str) -> list[str]:
    """The questions within a message, split at question marks and before question words."""
    evened = " ".join(question.split())
    parts = [part.strip() for part in _JOIN.split(evened)]
    return [part for part in parts if subject_words(read_words(part))] or [evened]


def read_relevancy(question: str, answer: str) -> RelevancyReading:
    """Counts the asked things that `answer` addresses.

    A thing counts as addressed when the answer shares a word of its subject (or a synonym), or
    gives the kind of value it asks for, or answers yes or no to a yes-no question. An answer that
    only echoes the question addresses nothing. Never `sure`: shown with low confidence.
    """
    things = asked_things(question)
    words = read_words(answer)
    roots = set(content_stems(words))
    if roots and roots <= set(read_words(question).stems) and not _VERDICT.match(answer):
        return RelevancyReading(len(things), 0, _NEAR_NOTHING, sure=False)
    kinds: set[str] = {quantity.kind for quantity in read_quantities(words)}
    addressed = sum(_addressed(thing, answer, roots, kinds) for thing in things)
    return RelevancyReading(len(things), addressed, None, sure=False)


def _addressed(thing: str, answer: str, roots: set[str], kinds: set[str]) -> bool:
    asked = read_words(thing)
    subject = {asked.stems[i] for i in subject_words(asked)}
    shared = any(root in roots or alike(root) & roots for root in subject)
    expects = read_topic(thing, read_passages([])).expects
    if expects:
        return (
            bool(expects & kinds)
            or gives_moment(answer, expects)
            or (shared and _VERDICT.match(answer) is not None)
        )
    if not subject:
        return bool(roots)
    return shared or (_YES_NO.match(thing) is not None and _VERDICT.match(answer) is not None)
