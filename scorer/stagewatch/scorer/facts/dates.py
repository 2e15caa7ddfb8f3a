"""Dates, months, weekdays and clock times, as parts that can be compared one by one."""

from __future__ import annotations

from dataclasses import dataclass

from stagewatch.scorer.facts.numbers import ORDINAL_TAILS
from stagewatch.scorer.text.words import Words

_NAMES = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip
MONTHS = {name: i for i, name in enumerate(_NAMES, start=1)}
MONTHS |= {name[:3]: i for i, name in enumerate(_NAMES, start=1)} | {"sept": 9}
# "may", "march", "mar" and "sun" are other words too: they need a number beside them.
_DOUBTFUL = frozenset({"may", "march", "mar", "dec", "jan"})
WEEKDAYS = {
    name: i
    for i, names in enumerate(
        ("monday mondays", "tuesday tuesdays", "wednesday wednesdays", "thursday thursdays",
         "friday fridays", "saturday saturdays", "sunday sundays")
    )
    for name in names.split()
}  # fmt: skip

Parts = tuple[int | None, int | None, int | None]


@dataclass(frozen=True, slots=True)
class DateSpan:
    """A date (`parts`: year, month, day) or a clock time (`minutes` after midnight)."""

    first: int
    last: int
    parts: Parts
    minutes: int | None = None


def read_dates(words: Words) -> list[DateSpan]:
    """Dates and clock times of a sentence. Dates in digits must be year-month-day: 03/04 is
    unclear.
    """
    found: list[DateSpan] = []
    index = 0
    while index < len(words):
        word = words.words[index]
        span = None
        if word[0].isdigit():
            span = _iso(words, index) or _clock(words, index)
        elif word in MONTHS:
            span = _named(words, index, found[-1].last + 1 if found else 0)
        if span is None:
            index += 1
            continue
        found.append(span)
        index = span.last + 1
    return found


def _integer(words: Words, index: int) -> int | None:
    if not 0 <= index < len(words):
        return None
    word = words.words[index]
    return int(word) if word.isdigit() and len(word) <= 4 else None


def _is_year(value: int | None) -> bool:
    return value is not None and 1000 <= value <= 2199


def _iso(words: Words, index: int) -> DateSpan | None:
    year, month, day = (_integer(words, index + offset) for offset in range(3))
    if not _is_year(year) or month is None or day is None:
        return None
    gaps = {words.between(index + i, index + i + 1) for i in range(2)}
    if gaps not in ({"-"}, {"/"}) or not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    return DateSpan(index, index + 2, (year, month, day))


def _named(words: Words, index: int, floor: int) -> DateSpan | None:
    """A date around the month at `index`; words before `floor` belong to another one."""
    month = MONTHS.get(words.words[index])
    if month is None:
        return None
    first, last = index, index
    before = _integer(words, index - 1) if index > floor else None
    after = _integer(words, index + 1)
    day = year = None
    tail = words.words[index - 1] if index - 1 > floor else ""
    if tail in ORDINAL_TAILS and words.glued(index - 1) and _integer(words, index - 2) is not None:
        day, first = _integer(words, index - 2), index - 2
    elif before is not None and before <= 31:
        day, first = before, index - 1
    if day is None and after is not None and after <= 99:
        day, last = after, index + 1
        if last + 1 < len(words) and words.words[last + 1] in ORDINAL_TAILS:
            last += 1
    follow = _integer(words, last + 1)
    if _is_year(follow):
        year, last = follow, last + 1
    doubtful = words.words[index] in _DOUBTFUL and not words.raw(index)[0].isupper()
    alone = day is None and year is None
    if doubtful or (alone and words.words[index] in {"may", "march", "mar"}):
        return None
    return DateSpan(first, last, (year, month, day))


def _clock(words: Words, index: int) -> DateSpan | None:
    hour = _integer(words, index)
    if hour is None or hour > 24:
        return None
    minute, last = 0, index
    colon = index + 1 < len(words) and words.between(index, index + 1) == ":"
    if colon:
        found = _integer(words, index + 1)
        if found is None or found > 59 or len(words.words[index + 1]) != 2:
            return None
        minute, last = found, index + 1
    half = _half(words, last + 1)
    if half is None:
        return DateSpan(index, last, (None, None, None), hour * 60 + minute) if colon else None
    afternoon, end = half
    if hour > 12:
        return None
    return DateSpan(index, end, (None, None, None), (hour % 12 + 12 * afternoon) * 60 + minute)


def _half(words: Words, index: int) -> tuple[bool, int] | None:
    """(is afternoon, last word) of "am", "p.m." at `index`."""
    if index >= len(words):
        return None
    word = words.words[index]
    if word in {"am", "pm"}:
        return word == "pm", index
    spelled = word in {"a", "p"} and words.words[index + 1 : index + 2] == ["m"]
    if spelled and words.between(index, index + 1) == ".":
        return word == "p", index + 1
    return None
