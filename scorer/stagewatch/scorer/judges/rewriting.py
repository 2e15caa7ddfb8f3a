"""Rules for the rewrite stage: what a rewritten query kept of the question and its dialogue."""

from __future__ import annotations

import re
from collections.abc import Sequence

from stagewatch.core.model import Message
from stagewatch.scorer.facts.compare import compare
from stagewatch.scorer.facts.opposites import negations
from stagewatch.scorer.facts.quantities import Quantity, read_quantities
from stagewatch.scorer.judges.protocol import Constraint, RewriteReading
from stagewatch.scorer.judges.topic import subject_words
from stagewatch.scorer.text.synonyms import alike
from stagewatch.scorer.text.words import STOP, Words, read_words

_PRONOUN = re.compile(
    r"\b(?:it|they|them|this|that|these|those|he|she|him|her|there)\b", re.IGNORECASE
)
_KEPT_SHARE = 0.5
"""People who rewrite well keep about four fifths of the content words, and rephrase the rest."""


def read_rewrite(
    history: Sequence[Message], question: str, rewritten: str, standalone: str | None
) -> RewriteReading:
    """Constraints of `standalone` (gold) or of the question, and what the rewrite did with them.

    A constraint is the subject as a whole, and each number, name and negation. A number or name
    is `changed` when the rewrite has another one in its stead that the dialogue never held,
    `dropped` when it is simply gone.
    """
    wanted = read_words(standalone if standalone is not None else question)
    found = read_words(rewritten)
    dialogue = read_words(" \n".join([*(m.content for m in history), question, standalone or ""]))
    constraints = [
        *_subject(wanted, found),
        *_numbers(wanted, found, dialogue),
        *_names(wanted, found, dialogue),
        *_negation(wanted, found),
    ]
    return RewriteReading(tuple(constraints), tuple(_hints(found, dialogue, rewritten)))


def _subject(wanted: Words, found: Words) -> list[Constraint]:
    roots = [wanted.stems[i] for i in subject_words(wanted)]
    if not roots:
        return []
    there = set(found.stems)
    kept = sum(root in there or bool(alike(root) & there) for root in roots)
    state = "kept" if kept / len(roots) >= _KEPT_SHARE else "dropped"
    return [Constraint("the subject of the question", "kept" if state == "kept" else "dropped")]


def _numbers(wanted: Words, found: Words, dialogue: Words) -> list[Constraint]:
    there, known = read_quantities(found), read_quantities(dialogue)
    new = [q for q in there if not _held(q, known)]
    constraints = []
    for quantity in read_quantities(wanted):
        if _held(quantity, there):
            constraints.append(Constraint(quantity.text, "kept"))
        else:
            other = any(compare(quantity, q) == "different" for q in new)
            constraints.append(Constraint(quantity.text, "changed" if other else "dropped"))
    return constraints


def _held(quantity: Quantity, among: Sequence[Quantity]) -> bool:
    return any(compare(quantity, other) == "same" for other in among)


def _names(wanted: Words, found: Words, dialogue: Words) -> list[Constraint]:
    there, known = set(found.stems), set(dialogue.stems)
    new = [i for i in _capitals(found) if found.stems[i] not in known]
    return [
        Constraint(
            wanted.raw(i),
            "kept" if wanted.stems[i] in there else "changed" if new else "dropped",
        )
        for i in _capitals(wanted)
    ]


def _capitals(words: Words) -> list[int]:
    """Words written with a capital inside the text, in a text that is not all capitals."""
    if words.text.isupper():
        return []
    return [
        i
        for i in range(1, len(words))
        if words.raw(i)[0].isupper()
        and words.words[i] not in STOP
        and len(words.words[i]) > 1
        and words.before(i).rstrip()[-1:] not in {".", "?", "!", "\n", ":"}
    ]


def _negation(wanted: Words, found: Words) -> list[Constraint]:
    if not negations(wanted.words):
        return []
    return [Constraint("not", "kept" if negations(found.words) else "changed")]


def _hints(found: Words, dialogue: Words, rewritten: str) -> list[str]:
    hints = []
    known = read_quantities(dialogue)
    if any(not _held(q, known) for q in read_quantities(found)):
        hints.append("a number the dialogue never held")
    stems = set(dialogue.stems)
    if any(found.stems[i] not in stems for i in _capitals(found)):
        hints.append("a name the dialogue never held")
    if _PRONOUN.search(rewritten):
        hints.append("a pronoun left hanging")
    return hints
