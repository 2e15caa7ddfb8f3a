"""Many turns into a dataset at once: what each becomes, and what is left out and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from stagewatch.api.likeness import Asked
from stagewatch.api.promote import Overrides, build_row
from stagewatch.api.views import TurnView, marked
from stagewatch.core.model import DatasetRow, Turn
from stagewatch.core.store.client import Store
from stagewatch.core.store.datasets import current_rows, latest_version, rows_of_turns
from stagewatch.core.store.feedback import feedback_of_traces, flags_of
from stagewatch.core.store.scores import diagnoses_of, scores_of

Outcome = Literal["promote", "already", "retired", "duplicate", "no_question"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A turn and what becomes of it. `row` is set for `promote` only; `other` names the row that
    is there already or asks the same thing.
    """

    turn: Turn
    outcome: Outcome
    row: DatasetRow | None = None
    other: str | None = None

    def as_plain(self) -> dict[str, Any]:
        """The API's shape."""
        row = self.row
        return {
            "turn_id": self.turn.turn_id,
            "question": self.turn.question,
            "outcome": self.outcome,
            "row_id": row.row_id if row else self.other,
            "kind": row.kind if row else None,
            "failure": row.failure if row else None,
            "status": row.status if row else None,
        }


def views_of(store: Store, project: str, turns: Sequence[Turn]) -> list[TurnView]:
    """The turns with scores, diagnosis, feedback and flags in four queries; no claims, no decision:
    a row takes nothing from them.
    """
    ids = [turn.turn_id for turn in turns]
    scores, diagnoses, flags = scores_of(store, ids), diagnoses_of(store, ids), flags_of(store, ids)
    said = feedback_of_traces(store, project, [turn.trace_id for turn in turns])
    views = []
    for turn in turns:
        diagnosed = diagnoses.get(turn.turn_id)
        views.append(
            TurnView(
                turn=marked(turn, diagnosed),
                scores=scores.get(turn.turn_id, []),
                claims=[],
                diagnosis=diagnosed.diagnosis if diagnosed else None,
                passed=diagnosed.passed if diagnosed else None,
                decision=None,
                feedback=[
                    item
                    for item in said.get(turn.trace_id, [])
                    if item.turn_id in {None, turn.turn_id}
                ],
                flags=flags.get(turn.turn_id, []),
            )
        )
    return views


def candidates(
    store: Store,
    project: str,
    dataset: str,
    turns: Sequence[Turn],
    *,
    by: str,
    chosen: Overrides,
    with_duplicates: bool,
) -> list[Candidate]:
    """What becomes of each turn, in their order.

    A turn whose row was retired stays out: somebody decided so. Near-duplicates, of rows that are
    there and of turns earlier in the list, stay out unless asked for.
    """
    there = rows_of_turns(store, project, dataset, [turn.turn_id for turn in turns])
    version = latest_version(store, project, dataset) + 1
    asked = Asked()
    for row in current_rows(store, project, dataset):
        asked.add(row.row_id, row.question, row.kind)
    found = []
    for view in views_of(store, project, turns):
        turn = view.turn
        row_id, status = there.get(turn.turn_id, ("", ""))
        if row_id:
            outcome: Outcome = "retired" if status == "retired" else "already"
            found.append(Candidate(turn, outcome, other=row_id))
            continue
        if not turn.question:
            found.append(Candidate(turn, "no_question"))
            continue
        row = build_row(view, dataset, version=version, by=by, chosen=chosen)
        alike = asked.alike(row.question, row.kind)
        if alike and not with_duplicates:
            found.append(Candidate(turn, "duplicate", other=alike[0]))
            continue
        asked.add(row.row_id, row.question, row.kind)
        found.append(Candidate(turn, "promote", row))
    return found


def counted(found: Sequence[Candidate]) -> dict[str, Any]:
    """How many of each outcome, the kinds of the new rows, and how many need a second person."""
    outcomes = Counter(item.outcome for item in found)
    rows = [item.row for item in found if item.row]
    return {
        "promoted": outcomes["promote"],
        "already": outcomes["already"],
        "retired": outcomes["retired"],
        "duplicates": outcomes["duplicate"],
        "no_question": outcomes["no_question"],
        "kinds": dict(sorted(Counter(row.kind for row in rows).items())),
        "needs_review": sum(row.status == "needs_review" for row in rows),
    }
