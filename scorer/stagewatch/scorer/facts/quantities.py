"""Quantities of a sentence: numbers with their unit, money, percentages, years, identifiers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from stagewatch.scorer.facts.dates import DateSpan, read_dates
from stagewatch.scorer.facts.numbers import (
    OPENING_WORDS,
    ORDINAL_TAILS,
    Number,
    number_word_run,
    read_digits,
    read_number_words,
)
from stagewatch.scorer.facts.units import CENTS, CURRENCIES, SCALES, SYMBOL_LIKE, UNITS, WORKING
from stagewatch.scorer.text.words import Words
from stagewatch.scorer.text.wordset import word_set

Kind = Literal["number", "measure", "percent", "points", "money", "year", "date", "time", "ident"]
Bound = Literal["", "min", "max"]

_APPROX = word_set(
    "about around approximately roughly nearly almost circa some approx c ca ~ estimated"
)
_MIN_1 = frozenset({"over", "above", "minimum", "exceeding", "exceeds", "exceed"})
_MAX_1 = frozenset({"under", "below", "within", "maximum", "max"})
_MIN_2 = frozenset({("at", "least"), ("more", "than"), ("greater", "than"), ("longer", "than"),
                    ("older", "than"), ("higher", "than"), ("minimum", "of")})  # fmt: skip
_MAX_2 = frozenset({("at", "most"), ("less", "than"), ("fewer", "than"), ("up", "to"),
                    ("shorter", "than"), ("lower", "than"), ("maximum", "of")})  # fmt: skip
_RANGE_WORDS = frozenset({"to", "or", "and"})


@dataclass(frozen=True, slots=True)
class Quantity:
    """One checkable value. `first`..`last` are its words in the sentence, unit included.

    `value` and `step` (size of one step of the last digit) are in the base unit of `unit`, the
    dimension or currency; `raw` is the number before unit and scale. Dates keep their parts in
    `parts` (year, month, day; None where not given), clock times are minutes after midnight.
    `inferred`: the unit was taken from the other end of a range.
    """

    kind: Kind
    value: float
    unit: str
    raw: float
    digits: int
    step: float
    first: int
    last: int
    text: str
    approx: bool = False
    bound: Bound = ""
    inferred: bool = False
    parts: tuple[int | None, int | None, int | None] = (None, None, None)


def read_quantities(words: Words) -> list[Quantity]:
    """Every quantity of the sentence, left to right; a word belongs to one of them at most."""
    if not may_hold_quantity(words):
        return []
    found: list[Quantity] = []
    taken: set[int] = set()
    for date in read_dates(words):
        taken.update(range(date.first, date.last + 1))
        found.append(_of_date(words, date))
    index = 0
    while index < len(words):
        quantity = None if index in taken else _at(words, index, taken)
        if quantity is None:
            index += 1
            continue
        found.append(quantity)
        taken.update(range(quantity.first, quantity.last + 1))
        index = quantity.last + 1
    found.sort(key=lambda quantity: quantity.first)
    return [_with_prefix(words, q) for q in _share_units(words, found)]


def _of_date(words: Words, date: DateSpan) -> Quantity:
    minutes = float(date.minutes or 0)
    return Quantity(
        kind="time" if date.minutes is not None else "date",
        value=minutes,
        unit="",
        raw=minutes,
        digits=1,
        step=1.0,
        first=date.first,
        last=date.last,
        text=words.span(date.first, date.last),
        parts=date.parts,
    )


def may_hold_quantity(words: Words) -> bool:
    """A cheap test that spares most sentences the scan."""
    return any(word[0].isdigit() or word in OPENING_WORDS for word in words.words)


def _at(words: Words, index: int, taken: set[int]) -> Quantity | None:
    word = words.words[index]
    if word[0].isdigit():
        if words.glued(index) and words.words[index - 1][0].isalpha():
            return _identifier(words, index, taken)
        number = read_digits(word)
        if number is None:
            return _identifier(words, index, taken)
        return _after_number(words, index, index, number, taken)
    run = number_word_run(words.words, index)
    if run:
        number = read_number_words(words.words[index : index + run])
        if number is not None:
            return _after_number(words, index, index + run - 1, number, taken)
    return None


def _identifier(words: Words, index: int, taken: set[int]) -> Quantity:
    """A code such as CYP1A2, 401K or 1.2.3: compared letter by letter, never as a size."""
    first = last = index
    while words.glued(first) and first - 1 not in taken:
        first -= 1
    while last + 1 < len(words) and words.glued(last + 1):
        last += 1
    text = words.span(first, last)
    return Quantity("ident", 0.0, text.lower(), 0.0, 1, 1.0, first, last, text)


def _after_number(
    words: Words, first: int, last: int, number: Number, taken: set[int]
) -> Quantity | None:
    size = len(words)
    follow = last + 1
    glued = follow < size and words.glued(follow)
    nxt = words.words[follow] if follow < size and follow not in taken else ""
    if glued and nxt in ORDINAL_TAILS:
        return Quantity("number", number.value, "ordinal", number.value, number.digits,
                        number.step, first, follow, words.span(first, follow))  # fmt: skip
    known = nxt in SCALES or nxt in UNITS or nxt in CURRENCIES or nxt in CENTS
    if glued and nxt and nxt[0].isalpha() and not known:
        return _identifier(words, first, taken)
    if words.words[follow : follow + 3] == ["and", "a", "half"]:
        number, last, follow = replace(number, value=number.value + 0.5), last + 3, follow + 3
        nxt = words.words[follow] if follow < size and follow not in taken else ""
        glued = False
    scale = 1.0
    if nxt in SCALES and not (nxt == "k" and not glued):
        scale, last, follow = SCALES[nxt], follow, follow + 1
        glued = False
        nxt = words.words[follow] if follow < size and follow not in taken else ""
    value, step = number.value * scale, number.step * scale
    base = Quantity("number", value, "", number.value, number.digits, step, first, last,
                    words.span(first, last))  # fmt: skip
    with_unit = _money(words, base, nxt, taken) or _measure(words, base, nxt, glued=glued)
    if with_unit is not None:
        return with_unit
    if number.plain_integer and scale == 1.0 and 1500 <= value <= 2100:
        return replace(base, kind="year")
    return base


def _money(words: Words, base: Quantity, nxt: str, taken: set[int]) -> Quantity | None:
    free = base.first > 0 and base.first - 1 not in taken
    before = words.words[base.first - 1] if free else ""
    if before in CURRENCIES:
        first = base.first - 1
        return replace(base, kind="money", unit=CURRENCIES[before], first=first,
                       text=words.span(first, base.last))  # fmt: skip
    if nxt in CURRENCIES:
        return replace(base, kind="money", unit=CURRENCIES[nxt], last=base.last + 1,
                       text=words.span(base.first, base.last + 1))  # fmt: skip
    if nxt in CENTS:
        return replace(base, kind="money", unit="", value=base.value * CENTS[nxt],
                       step=base.step * CENTS[nxt], last=base.last + 1,
                       text=words.span(base.first, base.last + 1))  # fmt: skip
    return None


def _measure(words: Words, base: Quantity, nxt: str, *, glued: bool) -> Quantity | None:
    last = base.last + 1
    if nxt in WORKING and last + 1 < len(words) and words.words[last + 1] in {"day", "days"}:
        return _in_unit(words, base, last + 1, "working days", 1.0)
    if nxt == "calendar" and last + 1 < len(words) and words.words[last + 1] in {"day", "days"}:
        return _in_unit(words, base, last + 1, "time", 86400.0)
    if nxt not in UNITS or (nxt in SYMBOL_LIKE and not glued and not _lone_unit(words, last)):
        return None
    dimension, factor = UNITS[nxt]
    after = words.words[last + 1] if last + 1 < len(words) else ""
    if dimension == "percent":
        kind: Kind = "points" if after in {"point", "points"} else "percent"
        end = last + 1 if kind == "points" else last
        return replace(base, kind=kind, unit=kind, last=end, text=words.span(base.first, end))
    if dimension == "degrees" and after in {"c", "celsius", "f", "fahrenheit"}:
        return _in_unit(words, base, last + 1, "celsius" if after[0] == "c" else "fahrenheit", 1.0)
    return _in_unit(words, base, last, dimension, factor)


def _lone_unit(words: Words, index: int) -> bool:
    """A symbol such as m or min behind a number stands for a unit when it is a word of its own."""
    return (
        words.words[index] in {"m", "min", "h", "g", "l", "t", "ha"} and words.raw(index).islower()
    )


def _in_unit(words: Words, base: Quantity, last: int, dimension: str, factor: float) -> Quantity:
    return replace(
        base, kind="measure", unit=dimension, value=base.value * factor, step=base.step * factor,
        last=last, text=words.span(base.first, last),
    )  # fmt: skip


def _share_units(words: Words, found: list[Quantity]) -> list[Quantity]:
    """The first number of a range has the unit of the second: 10 to 20 mg, 20-30 %."""
    shared = list(found)
    for i in range(len(shared) - 2, -1, -1):
        left, right = shared[i], shared[i + 1]
        if left.kind != "number" or left.unit or right.kind not in {"measure", "percent", "money"}:
            continue
        gap = words.words[left.last + 1 : right.first]
        between = words.between(left.last, right.first).strip()
        joined = (len(gap) == 1 and gap[0] in _RANGE_WORDS) or between in {"-", "–", "—", "/"}
        if joined and right.raw:
            factor = right.value / right.raw
            shared[i] = replace(left, kind=right.kind, unit=right.unit,
                                value=left.value * factor, step=left.step * factor,
                                inferred=True)  # fmt: skip
    return shared


def _with_prefix(words: Words, quantity: Quantity) -> Quantity:
    """Read "about", "at least", "up to" … in front of the value."""
    back = words.words[max(0, quantity.first - 3) : quantity.first]
    one = back[-1] if back else ""
    two = tuple(back[-2:])
    tilde = words.before(quantity.first).rstrip()[-1:] == "~"
    approx = one in _APPROX or tilde or (one in CURRENCIES and back[-2:-1] == ["about"])
    bound: Bound = ""
    if one in _MIN_1 or two in _MIN_2:
        bound = "min"
    elif one in _MAX_1 or two in _MAX_2:
        bound = "max"
    if bound and len(back) == 3 and back[0] in {"no", "not"} and two in (_MIN_2 | _MAX_2):
        bound = "max" if bound == "min" else "min"
    tail = words.words[quantity.last + 1 : quantity.last + 3]
    if not bound and tail[:2] in (["or", "more"], ["or", "longer"], ["or", "older"]):
        bound = "min"
    elif not bound and tail[:2] in (["or", "less"], ["or", "fewer"]):
        bound = "max"
    if not approx and not bound:
        return quantity
    return replace(quantity, approx=approx, bound=bound)
