"""Contrasts without numbers between a claim and a closely aligned sentence."""

from __future__ import annotations

from stagewatch.scorer.facts.opposites import SOFT_NEGATION, negated_form, negations, opposite
from stagewatch.scorer.judges.alignment import Alignment, Part
from stagewatch.scorer.text.words import STOP, Words

NEGATION_NEAR = 0.7
OPPOSITE_NEAR = 0.6
NAME_NEAR = 0.75
OPENING_NAME_NEAR = 0.78
_DENSE = 0.5


def polarity_flip(alignment: Alignment) -> tuple[str, str] | None:
    """(kind, reason) when one of the two states the opposite of the other, else None.

    Counts over the aligned stretch every negation and every word that stands where the other
    text has its opposite: an even count changes nothing ("not cheap" against "expensive", a
    contraction against "not"), an odd one turns the statement around.
    """
    if alignment.near < OPPOSITE_NEAR or alignment.density < _DENSE:
        return None
    claim, source = alignment.claim, alignment.source
    lo, hi = min(alignment.partner.values()), max(alignment.partner.values())
    first, last = min(alignment.partner), max(alignment.partner)
    ours = [i for i in _negations(claim) if first - 2 <= i <= last + 1]
    theirs = [i for i in _negations(source) if lo - 2 <= i <= hi + 1]
    swaps = _opposites(alignment)
    # "none" against "all" is one turn, not a negation and an opposite.
    ours = [i for i in ours if i not in {a for a, _ in swaps}]
    theirs = [j for j in theirs if j not in {b for _, b in swaps}]
    if (len(ours) + len(theirs) + len(swaps)) % 2 == 0:
        return None
    if swaps:
        i, j = swaps[0]
        return "opposite", f"“{claim.raw(i)}” against “{source.raw(j)}”"
    if alignment.near < NEGATION_NEAR or _soft(alignment, lo, hi):
        return None
    matched = set(alignment.partner.values())
    if any(i not in alignment.partner and _anchored(i, set(alignment.partner)) for i in ours):
        return "negation", "the claim negates what the source states"
    if any(j not in matched and _anchored(j, matched) for j in theirs):
        return "negation", "the source negates what the claim states"
    return None


def _negations(words: Words) -> list[int]:
    """Negating words, an answer's opening "No." left aside: it answers, it does not negate."""
    found = negations(words.words)
    if found[:1] == [0] and words.words[0] == "no" and words.after(0)[:1] in {".", ",", "!", ":"}:
        return found[1:]
    return found


def _soft(alignment: Alignment, lo: int, hi: int) -> bool:
    """Words without a partner that may carry the negation themselves."""
    matched = set(alignment.partner.values())
    reach = range(max(0, lo - 2), min(len(alignment.source), hi + 3))
    around = [alignment.source.words[j] for j in reach]
    theirs = [alignment.source.words[j] for j in reach if j not in matched]
    ours = [w for i, w in enumerate(alignment.claim.words) if i not in alignment.partner]
    return any(word in SOFT_NEGATION or negated_form(word, around) for word in ours) or any(
        word in SOFT_NEGATION or negated_form(word, alignment.claim.words) for word in theirs
    )


def _anchored(index: int, matched: set[int]) -> bool:
    """True when words on both sides, within two, are matched (one side at the edge)."""
    left = index - 1 in matched or index - 2 in matched
    right = index + 1 in matched or index + 2 in matched
    return (left and right) or (right and index <= 1)


def _opposites(alignment: Alignment) -> list[tuple[int, int]]:
    """(claim word, source word) pairs that stand in one place and are opposites, one a place."""
    found = []
    for part in alignment.parts:
        pairs = [
            (i, j)
            for i in range(part.a1, part.a2)
            for j in range(part.b1, part.b2)
            if opposite(alignment.claim.words[i], alignment.source.words[j])
        ]
        if _replacement(part) and pairs:
            found.append(pairs[0])
    return found


def _replacement(part: Part) -> bool:
    return 0 < part.a2 - part.a1 <= 3 and 0 < part.b2 - part.b1 <= 3


def swapped_name(alignment: Alignment) -> str | None:
    """A reason when a name stands where the source has another one, else None."""
    if alignment.near < NAME_NEAR or alignment.density < _DENSE:
        return None
    claim, source = alignment.claim, alignment.source
    for part in alignment.parts:
        if not (0 < part.a2 - part.a1 <= 2 and 0 < part.b2 - part.b1 <= 2):
            continue
        ours = _names(claim, part.a1, part.a2)
        theirs = _names(source, part.b1, part.b2)
        if not ours or not theirs:
            continue
        # A capital at the start of a sentence says nothing of a name.
        opens = part.a1 == 0 or part.b1 == 0
        if opens and alignment.near < OPENING_NAME_NEAR:
            continue
        if _heading(claim, ours[-1]) or _heading(source, theirs[-1]):
            continue
        if any(claim.stems[i] in source.stems for i in ours):
            continue
        if any(_alike(claim.words[i], source.words[j]) for i in ours for j in theirs):
            continue
        return f"“{claim.raw(ours[0])}” against “{source.raw(theirs[0])}”"
    return None


def _names(words: Words, start: int, stop: int) -> list[int]:
    return [
        i
        for i in range(start, stop)
        if words.raw(i)[0].isupper() and words.words[i] not in STOP and not words.raw(i).isdigit()
    ]


def _heading(words: Words, index: int) -> bool:
    """True when a colon follows: a label in front of the statement, not a name in it."""
    return words.after(index).lstrip(" *")[:1] == ":"


def _alike(one: str, two: str) -> bool:
    """Spelling variants, short forms and initials of one name."""
    if one[:4] == two[:4] or one in two or two in one:
        return True
    if min(len(one), len(two)) <= 3 and one[0] == two[0]:
        return True
    same = sum(a == b for a, b in zip(one, two, strict=False))
    return abs(len(one) - len(two)) <= 1 and same >= max(len(one), len(two)) - 1
