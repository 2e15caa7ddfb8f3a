"""The window as the embedded judge reads it: sentences, their stems, and where each stem stands."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from stagewatch.scorer.text.sentences import sentence_spans
from stagewatch.scorer.text.words import Words, read_words


@dataclass(slots=True)
class Sentence:
    """One sentence of a passage. `passage` and `index` count from 0; offsets are the passage's."""

    passage: int
    index: int
    start: int
    end: int
    words: Words
    stems: frozenset[str]


@lru_cache(maxsize=1024)
def _read_passage(text: str) -> tuple[tuple[int, int, Words, frozenset[str]], ...]:
    found = []
    for start, end in sentence_spans(text):
        words = read_words(text[start:end])
        if words.words:
            found.append((start, end, words, frozenset(words.stems)))
    return tuple(found)


@dataclass(slots=True)
class Passages:
    """All passages of a window, read once for every claim of the answer.

    `memo` is for what readers work out and will be asked for again: values of a sentence by its
    index, the coverage of a claim by its text.
    """

    texts: tuple[str, ...]
    sentences: list[Sentence]
    where: dict[str, list[int]] = field(default_factory=dict)
    memo: dict[object, object] = field(default_factory=dict)
    _prefixes: dict[str, list[str]] = field(default_factory=dict)

    def near(self, root: str, letters: int) -> list[int]:
        """Sentences that hold a stem sharing its first `letters` with `root` (both as long)."""
        if len(root) < letters or root[0].isdigit():
            return []
        if not self._prefixes:
            for known in self.where:
                if len(known) >= letters and not known[0].isdigit():
                    self._prefixes.setdefault(known[:letters], []).append(known)
        found = {i for known in self._prefixes.get(root[:letters], ()) for i in self.where[known]}
        return sorted(found)

    def holds(self, root: str) -> bool:
        """True when the stem stands anywhere in the window."""
        return root in self.where


def read_passages(texts: Sequence[str]) -> Passages:
    """Read each passage and index its stems; what was read lately is taken from memory, since
    judge, guard and rules ask for the same window one after another. Do not change the result.

    `where` maps a stem to the ascending indexes of the sentences that hold it.
    """
    return _read_window(tuple(texts))


@lru_cache(maxsize=64)
def _read_window(texts: tuple[str, ...]) -> Passages:
    sentences: list[Sentence] = []
    where: defaultdict[str, list[int]] = defaultdict(list)
    for number, text in enumerate(texts):
        for index, (start, end, words, stems) in enumerate(_read_passage(text)):
            for root in stems:
                where[root].append(len(sentences))
            sentences.append(Sentence(number, index, start, end, words, stems))
    return Passages(texts, sentences, dict(where))


def forget_passages() -> None:
    """Drop the passages kept in memory, for measurements of the first read."""
    _read_passage.cache_clear()
    _read_window.cache_clear()
