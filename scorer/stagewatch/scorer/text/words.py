"""Words of a text with their offsets, stems and whether they carry meaning."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

import snowballstemmer

from stagewatch.scorer.text.wordset import word_set

WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+(?:['’][^\W\d_]+)*|[%°$€£¥]")

STOP = word_set(
    """
    a an the this that these those there here it its he him his she her they them their we us
    our you your i me my mine myself itself themselves himself herself yourself who whom whose
    which what when where why how be is are was were been being am do does did done doing have
    has had having will would shall should can could may might must of in on at by for to from
    with without into onto upon about as than then so and or but nor if because while although
    though however also too very just only even still yet such some any each every both either
    neither all more most other another same own per via etc eg ie not no up down out off over
    under again further once during before after above below between through against within
    until since let s t d ll re ve m one ones yes well get got become became make made many much
    several like including include includes included said say says often usually generally
    typically around approximately roughly nearly almost according based provide provides
    provided use used using please note
    """
)
"""Words that tell nothing of the subject. Numbers, negation and bounds are the guard's business."""

_SAME = {
    word: form
    for form, words in {
        "2": "two", "3": "three", "4": "four", "5": "five", "6": "six", "7": "seven", "8": "eight",
        "9": "nine", "10": "ten", "11": "eleven", "12": "twelve", "20": "twenty", "30": "thirty",
        "januari": "jan", "februari": "feb", "april": "apr", "juli": "jul", "august": "aug",
        "septemb": "sep sept", "octob": "oct", "novemb": "nov", "decemb": "dec",
        "percent": "% pct", "hour": "hr hrs", "minut": "min mins",
        "kilometr": "km kilometer kilometers",
    }.items()
    for word in words.split()
}  # fmt: skip
"""Words that read as the stem of another spelling: numbers in words, short months, units."""

_CONTRACTION = re.compile(r"(?:n['’]t)$")
_TAIL = re.compile(r"['’](?:s|re|ve|ll|d|m)$")
_IRREGULAR = {"won't": "will", "can't": "can", "shan't": "shall", "ain't": "is"}


@lru_cache(maxsize=200_000)
def stem(word: str) -> str:
    """Snowball (English) stem of a lower-case word; words of other languages pass nearly as is."""
    return cast("str", _STEMMERS.of_this_thread.stemWord(word))


class _Stemmers(threading.local):
    """A stemmer keeps the word it works on: shared by threads it mixes their words up."""

    def __init__(self) -> None:
        self.of_this_thread = snowballstemmer.stemmer("english")


_STEMMERS = _Stemmers()


@lru_cache(maxsize=200_000)
def _forms(raw: str) -> tuple[tuple[str, str], ...]:
    """(word, stem) pairs of one raw token: a contraction with "not" gives two."""
    low = raw.lower().replace("’", "'")
    if low == "cannot":
        return (("can", "can"), ("not", "not"))
    if _CONTRACTION.search(low):
        base = _IRREGULAR.get(low, low[:-3])
        return ((base, stem(base)), ("not", "not"))
    base = _TAIL.sub("", low)
    return ((base, _SAME.get(base) or (base if base[0].isdigit() else stem(base))),)


@dataclass(slots=True)
class Words:
    """The words of a text in lower case and their stems, one entry a word.

    Offsets are worked out when first asked for: most sentences of a window are never looked at
    that closely.
    """

    text: str
    words: list[str]
    stems: list[str]
    _spans: list[tuple[int, int]] | None = None

    def __len__(self) -> int:
        return len(self.words)

    @property
    def spans(self) -> list[tuple[int, int]]:
        """(start, end) of each word in the text; both halves of a contraction share one."""
        if self._spans is None:
            self._spans = [
                match.span() for match in WORD.finditer(self.text) for _ in _forms(match.group())
            ]
        return self._spans

    def raw(self, index: int) -> str:
        """The word as written."""
        start, end = self.spans[index]
        return self.text[start:end]

    def span(self, first: int, last: int) -> str:
        """The text from word `first` to word `last`, both included."""
        return self.text[self.spans[first][0] : self.spans[last][1]]

    def between(self, left: int, right: int) -> str:
        """The text between two words."""
        return self.text[self.spans[left][1] : self.spans[right][0]]

    def before(self, index: int) -> str:
        """The text in front of a word."""
        return self.text[: self.spans[index][0]]

    def after(self, index: int) -> str:
        """The text behind a word."""
        return self.text[self.spans[index][1] :]

    def glued(self, index: int) -> bool:
        """True when the word follows the one before without a gap ("401" + "K")."""
        return index > 0 and self.spans[index][0] == self.spans[index - 1][1]


def read_words(text: str) -> Words:
    """The words of `text`. Hyphens and brackets separate; "can't" reads as "can", "not"."""
    forms = [form for raw in WORD.findall(text) for form in _forms(raw)]
    return Words(text, [word for word, _ in forms], [root for _, root in forms])


def content_stems(words: Words) -> list[str]:
    """Distinct stems that carry meaning, in order of appearance; numbers included."""
    seen: dict[str, None] = {}
    for word, root in zip(words.words, words.stems, strict=True):
        if word not in STOP and (len(word) > 1 or word.isdigit() or not word.isascii()):
            seen[root] = None
    return list(seen)
