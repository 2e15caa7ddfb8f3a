"""The rows of a run as columns: comparing 10,000 rows metric by metric is array work. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from stagewatch.core.model import Basis
from stagewatch.scorer.plans.results import (
    BASIS_CODE,
    CODE_LETTERS,
    STATUS_CODE,
    VERDICT_CODE,
    label_counts,
)

Codes = NDArray[np.int8]
Floats = NDArray[np.float64]
Places = NDArray[np.intp]

ABSENT, SCORED, UNSCORED, NOT_APPLICABLE = range(4)
NO_VERDICT, PASS, FAIL = range(3)

_STATUS: Mapping[str, int] = {
    "scored": SCORED,
    "unscored": UNSCORED,
    "not_applicable": NOT_APPLICABLE,
}
_VERDICT: Mapping[str | None, int] = {None: NO_VERDICT, "pass": PASS, "fail": FAIL}
BASES: tuple[Basis, ...] = ("gold", "judge", "rule")


class Head(NamedTuple):
    """What a row says of itself besides its scores."""

    row_id: str
    kind: str
    question: str
    verdict: str
    stage: str
    why: str
    error: str
    counts: bool


@dataclass(frozen=True, slots=True)
class Column:
    """One metric: codes of status and verdict, values (NaN: none), numbers into `BASES`."""

    status: Codes
    value: Floats
    verdict: Codes
    basis: Codes

    def at(self, places: Places) -> Column:
        """The rows at `places`, in that order."""
        return Column(
            self.status[places], self.value[places], self.verdict[places], self.basis[places]
        )


@dataclass(frozen=True, slots=True)
class RunTable:
    """A run's rows; every column has one entry a row, `ABSENT` where it has no such score."""

    heads: tuple[Head, ...]
    columns: Mapping[str, Column]

    def at(self, places: Places) -> RunTable:
        """The rows at `places`, in that order."""
        return RunTable(
            tuple(self.heads[place] for place in places),
            {name: column.at(places) for name, column in self.columns.items()},
        )

    def column(self, metric: str) -> Column:
        """The column of a metric, all absent when the run has none."""
        found = self.columns.get(metric)
        return found if found is not None else _blank(len(self.heads))


def _blank(rows: int) -> Column:
    return Column(
        np.full(rows, ABSENT, dtype=np.int8),
        np.full(rows, np.nan),
        np.full(rows, NO_VERDICT, dtype=np.int8),
        np.zeros(rows, dtype=np.int8),
    )


def _numbers(codes: Mapping[Any, str], order: Mapping[Any, int]) -> Codes:
    """Letter (as a byte) → number."""
    table = np.zeros(128, dtype=np.int8)
    for word, letter in codes.items():
        table[ord(letter)] = order[word]
    return table


_STATUS_NUMBER = _numbers(STATUS_CODE, _STATUS)
_VERDICT_NUMBER = _numbers(VERDICT_CODE, _VERDICT)
_BASIS_NUMBER = _numbers(BASIS_CODE, {name: number for number, name in enumerate(BASES)})


class _Same(NamedTuple):
    """Rows that have the same metrics: where they stand, their letters and their values."""

    places: list[int]
    codes: list[str]
    values: list[list[float | None]]


def table_from_texts(texts: Sequence[str]) -> RunTable:
    """The table of stored short forms (`results.summary_text`)."""
    heads: list[Head] = []
    groups: dict[str, _Same] = {}
    # Row by row: what a row held is gone before the next is read. Ten thousand of them alive at
    # once cost the garbage collector more than the reading.
    for place, text in enumerate(texts):
        row: dict[str, Any] = orjson.loads(text)
        heads.append(
            Head(
                row["row_id"], row["kind"], row["question"], row["verdict"], row["stage"],
                row["why"], row["error"], label_counts(row["status"]),
            )
        )  # fmt: skip
        if row["metrics"]:
            same = groups.get(row["metrics"])
            if same is None:
                same = groups[row["metrics"]] = _Same([], [], [])
            same.places.append(place)
            same.codes.append(row["codes"])
            same.values.append(row["values"])
    columns: dict[str, Column] = {}
    for names, same in groups.items():
        _fill(columns, names.split(","), same, len(texts))
    return RunTable(tuple(heads), columns)


def _fill(columns: dict[str, Column], names: Sequence[str], same: _Same, total: int) -> None:
    """Write the scores of rows that have the same metrics."""
    letters = np.frombuffer("".join(same.codes).encode("ascii"), dtype=np.uint8)
    codes = letters.reshape(len(same.places), len(names), CODE_LETTERS)
    values = np.array(same.values, dtype=np.float64)
    places = np.array(same.places, dtype=np.intp)
    for number, name in enumerate(names):
        column = columns.setdefault(name, _blank(total))
        column.status[places] = _STATUS_NUMBER[codes[:, number, 0]]
        column.value[places] = values[:, number]
        column.verdict[places] = _VERDICT_NUMBER[codes[:, number, 1]]
        column.basis[places] = _BASIS_NUMBER[codes[:, number, 3]]


def aligned(before: RunTable, after: RunTable) -> tuple[RunTable, RunTable]:
    """Both tables cut to the rows they share, in the first one's order."""
    if [head.row_id for head in before.heads] == [head.row_id for head in after.heads]:
        return before, after
    places = {head.row_id: place for place, head in enumerate(after.heads)}
    shared = [
        (place, places[head.row_id])
        for place, head in enumerate(before.heads)
        if head.row_id in places
    ]
    first = np.array([a for a, _ in shared], dtype=np.intp)
    second = np.array([b for _, b in shared], dtype=np.intp)
    return before.at(first), after.at(second)
