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


def duplicate_pairs(rows: Sequence[DatasetRow]) -> list[tuple[str, str]]:
    """Pairs of row ids of one kind that ask the same thing; compared by shared words only."""
    stems = [stems_of(row.question) for row in rows]
    holders: dict[tuple[str, str], list[int]] = {}
    found: list[tuple[str, str]] = []
    for number, row in enumerate(rows):
        seen: set[int] = set()
        for word in stems[number]:
            seen.update(holders.setdefault((row.kind, word), []))
            holders[(row.kind, word)].append(number)
        found += [
            (rows[other].row_id, row.row_id)
            for other in sorted(seen)
            if likeness(stems[other], stems[number]) >= DUPLICATE
        ]
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
