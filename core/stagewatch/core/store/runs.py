"""Runs of plans and their rows. The newest body of a run or row wins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

import orjson

from stagewatch.core.codec import to_text
from stagewatch.core.store.client import Store


class Row(Protocol):
    """What a stored row must say of itself."""

    @property
    def row_id(self) -> str:
        """The dataset row's id."""
        ...

    @property
    def verdict(self) -> str:
        """pass, fail or errored."""
        ...


def put_run(
    store: Store, project: str, run_id: str, plan_id: str, body: Mapping[str, Any], *, at: datetime
) -> None:
    """Store or replace the record of a run."""
    store.put(
        "runs",
        [{"project": project, "run_id": run_id, "plan_id": plan_id, "body": to_text(body),
          "at": at}],
    )  # fmt: skip


def get_run(store: Store, project: str, run_id: str) -> dict[str, Any] | None:
    """The record of a run, or None."""
    found = store.row(
        """SELECT body FROM runs WHERE project = {project:String} AND run_id = {run_id:String}
           ORDER BY at DESC LIMIT 1""",
        {"project": project, "run_id": run_id},
    )
    return orjson.loads(found["body"]) if found else None


def list_runs(
    store: Store, project: str, *, plan_id: str | None = None, limit: int = 100
) -> list[dict[str, Any]]:
    """Records of runs, newest start first."""
    found = store.rows(
        """SELECT body FROM (
               SELECT run_id, body FROM runs WHERE project = {project:String}
                 AND ({plan:String} = '' OR plan_id = {plan:String})
               ORDER BY at DESC LIMIT 1 BY run_id)
           ORDER BY JSONExtractString(body, 'started_at') DESC LIMIT {limit:UInt32}""",
        {"project": project, "plan": plan_id or "", "limit": limit},
    )
    return [orjson.loads(row["body"]) for row in found]


def put_run_rows(
    store: Store, project: str, run_id: str, rows: Sequence[tuple[Row, str]], *, at: datetime
) -> None:
    """Store rows with their short forms (see `stagewatch.scorer.plans.results`)."""
    store.put(
        "run_rows",
        [
            {
                "project": project,
                "run_id": run_id,
                "row_id": row.row_id,
                "verdict": row.verdict,
                "summary": summary,
                "body": to_text(row),
                "at": at,
            }
            for row, summary in rows
        ],
    )


def run_row_ids(store: Store, project: str, run_id: str) -> set[str]:
    """Ids of the rows that are stored."""
    found = store.rows(
        """SELECT DISTINCT row_id FROM run_rows
           WHERE project = {project:String} AND run_id = {run_id:String}""",
        {"project": project, "run_id": run_id},
    )
    return {row["row_id"] for row in found}


def run_summaries(store: Store, project: str, run_id: str) -> list[str]:
    """Short forms of all rows, by row id."""
    found = store.rows(
        """SELECT summary FROM run_rows
           WHERE project = {project:String} AND run_id = {run_id:String}
           ORDER BY row_id, at DESC LIMIT 1 BY row_id""",
        {"project": project, "run_id": run_id},
    )
    return [row["summary"] for row in found]


def run_row_bodies(
    store: Store, project: str, run_id: str, row_ids: Sequence[str] | None = None
) -> list[str]:
    """Whole rows by row id; `row_ids` None gives all of them."""
    found = store.rows(
        """SELECT body FROM run_rows
           WHERE project = {project:String} AND run_id = {run_id:String}
             AND ({every:Bool} OR row_id IN {ids:Array(String)})
           ORDER BY row_id, at DESC LIMIT 1 BY row_id""",
        {
            "project": project,
            "run_id": run_id,
            "every": row_ids is None,
            "ids": list(row_ids or []),
        },
    )
    return [row["body"] for row in found]
