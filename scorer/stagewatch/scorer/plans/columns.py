"""What a plan needs of its rows, checked before anything is asked. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from stagewatch.core.errors import InvalidInputError
from stagewatch.core.model import DatasetRow
from stagewatch.scorer.plans.plan import Plan

_HAS: Mapping[str, Callable[[DatasetRow], bool]] = {
    "needs": lambda row: bool(row.needs),
    "expected_output": lambda row: bool(row.expected_output),
    "history or standalone_question": lambda row: bool(row.history or row.standalone_question),
    "turn.window (stored passages)": lambda row: row.turn is not None and bool(row.turn.window),
}

_COLUMN_OF: Mapping[str, str] = {
    "context_recall": "needs",
    "answer_precision": "expected_output",
    "context_recall_claims": "expected_output",
    "rewrite_fidelity": "history or standalone_question",
}


@dataclass(frozen=True, slots=True)
class Gap:
    """A column that some rows lack, the metrics that need it, and how many of `rows` lack it."""

    column: str
    metrics: tuple[str, ...]
    lacking: int
    rows: int

    @property
    def sentence(self) -> str:
        """For a person."""
        how = (
            "no row has it"
            if self.lacking == self.rows
            else f"{self.lacking} of {self.rows} lack it"
        )
        return f"{', '.join(self.metrics)} needs {self.column}: {how}"


def chosen_rows(plan: Plan, rows: Sequence[DatasetRow]) -> list[DatasetRow]:
    """The rows a plan asks: not retired, and with one of its tags when it names some."""
    wanted = set(plan.tags)
    return [
        row for row in rows if row.status != "retired" and (not wanted or wanted & set(row.tags))
    ]


def gaps_of(plan: Plan, rows: Sequence[DatasetRow]) -> list[Gap]:
    """Columns that metrics named in the plan need and rows lack.

    Rows that have no value of the metric by definition are left out: an unanswerable row has no
    needs and expects nothing but a refusal.
    """
    wanted: dict[str, list[str]] = {}
    for metric in plan.metrics:
        if metric in _COLUMN_OF:
            wanted.setdefault(_COLUMN_OF[metric], []).append(metric)
    if plan.mode == "fixed_context":
        wanted.setdefault("turn.window (stored passages)", []).append("fixed_context mode")
    found = []
    for column, metrics in wanted.items():
        meant = rows if column.startswith("turn") else [r for r in rows if r.kind != "unanswerable"]
        lacking = sum(not _HAS[column](row) for row in meant)
        if lacking:
            found.append(Gap(column, tuple(metrics), lacking, len(meant)))
    return found


def check_columns(plan: Plan, rows: Sequence[DatasetRow]) -> list[str]:
    """Warnings about columns that some rows lack.

    Raises:
        InvalidInputError: there is no row, or a metric named in the plan cannot be scored on any
            row; the columns that are missing are named.
    """
    if not rows:
        tagged = f" with tag {' or '.join(plan.tags)}" if plan.tags else ""
        raise InvalidInputError(f"the dataset has no rows{tagged} to ask")
    gaps = gaps_of(plan, rows)
    hopeless = [gap for gap in gaps if gap.lacking == gap.rows]
    if hopeless:
        missing = ", ".join(gap.column for gap in hopeless)
        said = "; ".join(gap.sentence for gap in hopeless)
        raise InvalidInputError(f"missing columns: {missing} ({said})")
    return [gap.sentence for gap in gaps]
