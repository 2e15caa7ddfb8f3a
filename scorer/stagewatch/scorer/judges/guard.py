"""The rule check over every SUPPORTED label, whoever gave it.

Judges accept changed numbers, miss units, dates and negation. This reads the claim beside the
sentences that cover it best: another value in the same place of closely aligned evidence is a
contradiction, a value the window never holds is absent, and a clean supporting sentence anywhere
wins over a conflict elsewhere. It never turns a label into SUPPORTED.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from stagewatch.core.model import ClaimLabel
from stagewatch.scorer.facts.compare import compare
from stagewatch.scorer.facts.quantities import Quantity, read_quantities
from stagewatch.scorer.judges.alignment import Alignment, align
from stagewatch.scorer.judges.contrasts import polarity_flip, swapped_name
from stagewatch.scorer.judges.coverage import Coverage, measure, measure_text
from stagewatch.scorer.text.passages import Passages
from stagewatch.scorer.text.words import STOP, Words

VERSION = "guard-1"

NEAR_COPY = 0.5
"""From this share of matched words on, another value in the same slot contradicts."""
SURE_COPY = 0.8
"""From here on the slot decides even when the sentence holds the value somewhere else too."""
MATCHED_WORDS = 2
"""Content words beside the values that must match: "around 2000" alone aligns with anything."""
SAME_SUBJECT = 0.6
"""A paraphrase that covers this much of the claim's other words speaks of the same thing."""
CANDIDATES = 4


@dataclass(frozen=True, slots=True)
class Finding:
    """What the guard found: the label it would give, a kind, words for a person, the sentence."""

    label: ClaimLabel
    kind: str
    reason: str
    sentence: int | None = None
    disputed: bool = False


def check(claim: Words, passages: Passages, coverage: Coverage | None = None) -> Finding | None:
    """The first thing wrong with calling `claim` supported by `passages`, or None.

    Args:
        claim: the words of the claim, tone words taken out.
        passages: the window.
        coverage: what `measure` says of the two, when the caller has it.
    """
    cover = coverage if coverage is not None else measure(claim, passages)
    quantities = read_quantities(claim)
    conflicts: list[tuple[float, Finding]] = []
    for index in cover.best[:CANDIDATES]:
        source = passages.sentences[index].words
        alignment = align(claim, source)
        found = _conflict(alignment, quantities, passages, index)
        if found is not None:
            conflicts.append((alignment.near, found))
            continue
        as_near = not conflicts or alignment.near >= 0.9 * conflicts[0][0]
        if as_near and alignment.near >= NEAR_COPY and _holds_all(quantities, passages, index):
            return None
    if conflicts:
        return max(conflicts, key=lambda pair: pair[0])[1]
    return _missing_value(claim, quantities, passages, cover)


def check_text(claim: str, passages: Passages) -> Finding | None:
    """`check` for a claim given as text."""
    found = measure_text(claim, passages)
    return check(found.words, passages, found.coverage)


def _conflict(
    alignment: Alignment, quantities: Sequence[Quantity], passages: Passages, index: int
) -> Finding | None:
    wanted = max(1, min(MATCHED_WORDS, alignment.claim_content))
    if alignment.near < NEAR_COPY or alignment.matched_content < wanted:
        return None
    values = _values(passages, index) if quantities else []
    for quantity in quantities:
        other = _slot_conflict(alignment, quantity, values)
        if other is not None:
            return Finding(
                "CONTRADICTED",
                _kind(quantity),
                f"{quantity.text} against {other.text} in the source",
                index,
            )
    flip = polarity_flip(alignment)
    if flip is not None:
        return Finding("CONTRADICTED", flip[0], flip[1], index)
    name = swapped_name(alignment)
    return None if name is None else Finding("CONTRADICTED", "name", name, index)


def _values(passages: Passages, index: int) -> list[Quantity]:
    """The quantities of a sentence of the window, read once however many claims ask."""
    known = passages.memo.get(index)
    if known is None:
        known = passages.memo[index] = read_quantities(passages.sentences[index].words)
    return cast("list[Quantity]", known)


def _kind(quantity: Quantity) -> str:
    return "unit" if quantity.kind == "measure" else quantity.kind


def _slot_conflict(
    alignment: Alignment, quantity: Quantity, values: Sequence[Quantity]
) -> Quantity | None:
    """The value that stands in the sentence where the claim has another one."""
    slot = alignment.slot(quantity.first, quantity.last)
    inside = {
        alignment.partner[i]
        for i in range(quantity.first, quantity.last + 1)
        if i in alignment.partner
    }
    rivals = [
        value
        for value in values
        if inside.intersection(range(value.first, value.last + 1))
        or (slot is not None and value.first < slot[1] and value.last >= slot[0])
    ]
    relations = [compare(quantity, value) for value in rivals]
    if "same" in relations:
        return None
    if alignment.near < SURE_COPY and any(compare(quantity, v) == "same" for v in values):
        return None
    for value, relation in zip(rivals, relations, strict=True):
        if relation == "different" or (quantity.raw == value.raw and quantity.unit and value.unit):
            return value
    return None


def _near_sentences(passages: Passages, index: int) -> list[int]:
    here = passages.sentences[index]
    return [
        i
        for i in (index, index - 1, index + 1)
        if 0 <= i < len(passages.sentences) and passages.sentences[i].passage == here.passage
    ]


def _holds_all(quantities: Sequence[Quantity], passages: Passages, index: int) -> bool:
    if not quantities:
        return True
    values = [value for i in _near_sentences(passages, index) for value in _values(passages, i)]
    return all(any(compare(q, v) == "same" for v in values) for q in quantities)


def _missing_value(
    claim: Words, quantities: Sequence[Quantity], passages: Passages, cover: Coverage
) -> Finding | None:
    """A value the window never holds: absent, or contradicted when the best sentence speaks of
    the same thing and gives one other value of that kind. A value that only stands beside other
    subjects is unclear: absent, and disputed for a person to look at.
    """
    for quantity in quantities:
        # Mostly the same figure stands there: sentences without it are read only if need be.
        figures = [claim.stems[i] for i in range(quantity.first, quantity.last + 1)]
        likely = sorted({i for root in figures for i in passages.where.get(root, ())})
        if _speaks_of(claim, quantity, passages, _holders(quantity, passages, likely)):
            continue
        holders = _holders(quantity, passages, range(len(passages.sentences)))
        if _speaks_of(claim, quantity, passages, holders):
            continue
        if holders:
            reason = (
                f"{quantity.text} stands in the window, but not beside what the claim speaks of"
            )
            return Finding("ABSENT", _kind(quantity), reason, disputed=True)
        rival = _rival(claim, quantity, passages, cover)
        if rival is not None:
            reason = f"{quantity.text} against {rival[1].text} in the source"
            return Finding("CONTRADICTED", _kind(quantity), reason, rival[0])
        return Finding("ABSENT", _kind(quantity), f"{quantity.text} is not in the window")
    return None


def _holders(quantity: Quantity, passages: Passages, places: Iterable[int]) -> list[int]:
    """Those of the sentences that hold the value."""
    return [i for i in places if any(compare(quantity, v) == "same" for v in _values(passages, i))]


def _subject(claim: Words, quantity: Quantity) -> set[str]:
    """Stems of the claim's words that carry meaning, the value itself and other figures aside."""
    return {
        claim.stems[i]
        for i in range(len(claim))
        if not quantity.first <= i <= quantity.last
        and claim.words[i] not in STOP
        and not claim.words[i][0].isdigit()
    }


def _speaks_of(
    claim: Words, quantity: Quantity, passages: Passages, holders: Sequence[int]
) -> bool:
    """True when a sentence with the value, or one beside it, shares a word with the claim."""
    roots = _subject(claim, quantity)
    if not roots:
        return bool(holders)
    return any(
        roots & passages.sentences[i].stems
        for holder in holders
        for i in _near_sentences(passages, holder)
    )


def _rival(
    claim: Words, quantity: Quantity, passages: Passages, cover: Coverage
) -> tuple[int, Quantity] | None:
    if quantity.kind not in {"measure", "percent", "money", "time"}:
        return None
    roots = _subject(claim, quantity)
    for index in cover.best[:2]:
        sentence = passages.sentences[index]
        if len(roots) < 2 or len(roots & sentence.stems) / len(roots) < SAME_SUBJECT:
            continue
        rivals = [
            value
            for value in _values(passages, index)
            if value.kind == quantity.kind and value.unit == quantity.unit
        ]
        if len(rivals) == 1 and compare(quantity, rivals[0]) == "different":
            return index, rivals[0]
    return None
