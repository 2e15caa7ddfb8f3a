"""Numbers as written in digits or in words."""

from __future__ import annotations

from dataclasses import dataclass

from text_to_num import text2num

from stagewatch.scorer.facts.units import UNITS
from stagewatch.scorer.text.wordset import word_set

NUMBER_WORDS = word_set(
    """
    zero two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
    sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety
    hundred thousand million billion trillion
    """
)
_LARGE = frozenset({"hundred", "thousand", "million", "billion", "trillion"})
OPENING_WORDS = (
    NUMBER_WORDS
    | {"one"}
    | word_set(
        """
    january february march april may june july august september october november december jan feb
    mar apr jun jul aug sep sept oct nov dec
    """
    )
)
"""Words without which a sentence without digits holds neither number nor date."""
ORDINAL_TAILS = frozenset({"st", "nd", "rd", "th"})


@dataclass(frozen=True, slots=True)
class Number:
    """A value, its number of significant digits and the size of one step of its last digit.

    `integer` is how it was written: 1999 is, 1,999 and 1999.0 are not candidates for a year.
    """

    value: float
    digits: int
    step: float
    plain_integer: bool


def read_digits(text: str) -> Number | None:
    """The number a digit token stands for; None for dotted ids such as 1.2.3.

    A comma before three digits groups thousands, before one or two it is a decimal comma.
    """
    commas, dots = text.count(","), text.count(".")
    body = text
    if commas and dots == 0 and all(len(part) == 3 for part in text.split(",")[1:]):
        body = text.replace(",", "")
    elif commas == 1 and dots == 0:
        body = text.replace(",", ".")
    elif commas and dots == 1 and text.rindex(".") > text.rindex(","):
        body = text.replace(",", "")
    elif commas == 1 and dots and text.rindex(",") > text.rindex("."):
        body = text.replace(".", "").replace(",", ".")
    elif commas or dots > 1:
        return None
    whole, _, decimals = body.partition(".")
    shown = (whole + decimals).lstrip("0")
    if decimals:
        return Number(float(body), max(1, len(shown)), 10.0 ** -len(decimals), False)
    kept = shown.rstrip("0") or "0"
    return Number(float(body), len(kept), 10.0 ** (len(shown) - len(kept)), text.isdigit())


def read_number_words(words: list[str]) -> Number | None:
    """The number that a run of number words stands for, such as "twenty", "five"."""
    try:
        spoken = ["one" if word == "a" else word for word in words]
        value = float(text2num(" ".join(spoken), "en"))
    except ValueError:
        return None
    exact = read_digits(str(int(value)))
    return None if exact is None else Number(value, exact.digits, exact.step, False)


def number_word_run(words: list[str], start: int) -> int:
    """How many words from `start` form one number in words; 0 when none.

    "one" counts only before a large word or a unit ("one hundred", "one month"): alone it is
    mostly a pronoun.
    """
    end = start
    while end < len(words):
        word = words[end]
        after = words[end + 1] if end + 1 < len(words) else ""
        joins_and = word == "and" and end > start and words[end - 1] in _LARGE
        opens_one = end == start and (
            (word in {"one", "a"} and after in _LARGE) or (word == "one" and after in UNITS)
        )
        tail_one = word == "one" and end > start
        if not (
            word in NUMBER_WORDS or (joins_and and after in NUMBER_WORDS) or opens_one or tail_one
        ):
            break
        end += 1
    return end - start
