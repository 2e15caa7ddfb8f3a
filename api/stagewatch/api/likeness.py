"""Questions that are alike: near-duplicates in a dataset, and what live questions it covers. Pure.

Likeness is the share of meaning-carrying words two questions have in common (Jaccard 1912, over
stems): it needs no model, and a number that differs keeps two questions apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stagewatch.core.model import DatasetRow
from stagewatch.scorer.text.words import content_stems, read_words

DUPLICATE = 0.85
"""At or above, two questions ask the same thing."""
COVERED = 0.34
"""At or above, a row is about what a live question asks: a third of all words are shared."""
_EXAMPLES = 20


def stems_of(text: str) -> frozenset[str]:
    """The stems of a question that carry meaning."""
    return frozenset(content_stems(read_words(text)))


def likeness(a: frozenset[str], b: frozenset[str]) -> float:
    """Shared words / all words, in [0, 1]; 0 when both are empty."""
    union = len(a | b)
    return len(a & b) / union if union else 0.0


def duplicates_of(question: str, kind: str, rows: Iterable[DatasetRow]) -> list[str]:
    """Ids of rows of the same kind that ask the same thing."""
    wanted = stems_of(question)
    return [
        row.row_id
        for row in rows
        if row.kind == kind and likeness(wanted, stems_of(row.question)) >= DUPLICATE
    ]


class Asked:
    """Questions seen so far, by kind; finds those that ask the same thing by shared words."""

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._stems: list[frozenset[str]] = []
        self._holders: dict[tuple[str, str], list[int]] = {}

    def alike(self, question: str, kind: str) -> list[str]:
        """Ids of the questions of this kind that ask the same thing, in the order added."""
        wanted = stems_of(question)
        seen = {number for word in wanted for number in self._holders.get((kind, word), ())}
        return [
            self._ids[number]
            for number in sorted(seen)
            if likeness(self._stems[number], wanted) >= DUPLICATE
        ]

    def add(self, row_id: str, question: str, kind: str) -> None:
        """Remember a question."""
        stems = stems_of(question)
        for word in stems:
            self._holders.setdefault((kind, word), []).append(len(self._ids))
        self._ids.append(row_id)
        self._stems.append(stems)


def duplicate_pairs(rows: Iterable[DatasetRow]) -> list[tuple[str, str]]:
    """Pairs of row ids of one kind that ask the same thing; compared by shared words only."""
    asked = Asked()
    found: list[tuple[str, str]] = []
    for row in rows:
        found += [(other, row.row_id) for other in asked.alike(row.question, row.kind)]
        asked.add(row.row_id, row.question, row.kind)
    return found


@dataclass(frozen=True, slots=True)
class Live:
    """A question that was asked, how often, and a turn that shows it."""

    question: str
    turn_id: str
    times: int


@dataclass(frozen=True, slots=True)
class Far:
    """A live question that no row is about; `nearest` is the likeness of the nearest one."""

    question: str
    turn_id: str
    times: int
    nearest: float


@dataclass(frozen=True, slots=True)
class Coverage:
    """Live questions by the kind of their nearest row; `far` counts those far from every row."""

    questions: int
    by_kind: dict[str, int]
    far: int
    examples: tuple[Far, ...]


def coverage_of(live: Sequence[Live], rows: Sequence[DatasetRow]) -> Coverage:
    """How much of what people ask the rows are about, each question weighed by its times."""
    labelled = [(stems_of(row.question), row.kind) for row in rows]
    by_kind: dict[str, int] = {}
    far: list[Far] = []
    for item in live:
        wanted = stems_of(item.question)
        best, kind = max(
            ((likeness(wanted, stems), kind) for stems, kind in labelled), default=(0.0, "")
        )
        if best >= COVERED:
            by_kind[kind] = by_kind.get(kind, 0) + item.times
        else:
            far.append(Far(item.question, item.turn_id, item.times, best))
    far.sort(key=lambda item: (-item.times, item.nearest, item.question))
    return Coverage(
        questions=sum(item.times for item in live),
        by_kind=dict(sorted(by_kind.items())),
        far=sum(item.times for item in far),
        examples=tuple(far[:_EXAMPLES]),
    )
