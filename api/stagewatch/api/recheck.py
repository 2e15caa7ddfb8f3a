"""Labels worth a second look: every stage passes and the answer is wrong all the same.

Then the label, or the corpus behind it, is the suspect. Rows are found in runs, turns in disputes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from stagewatch.core.store.client import Store
from stagewatch.core.store.datasets import row_times
from stagewatch.core.store.runs import list_runs

_RUNS_LOOKED_AT = 500
_MOST_TURNS = 200
_QUESTION_CHARS = 300


@dataclass(frozen=True, slots=True)
class RowToCheck:
    """A dataset row that a run found wrong with every stage passing."""

    row_id: str
    kind: str
    question: str
    why: str
    run_id: str
    plan_id: str
    at: datetime


@dataclass(frozen=True, slots=True)
class TurnToCheck:
    """A live turn that somebody disputes although every stage passes."""

    turn_id: str
    question: str
    reasons: tuple[str, ...]
    why: str
    started_at: datetime


def rows_to_check(store: Store, project: str, dataset: str) -> list[RowToCheck]:
    """Rows diagnosed `label_or_corpus` in the newest finished run of each plan on this dataset.

    A row that was edited, confirmed or refused after that run began is left out: somebody looked.
    """
    runs = _newest_runs(store, project, dataset)
    if not runs:
        return []
    written = row_times(store, project, dataset)
    found = store.rows(
        """SELECT run_id, row_id, summary FROM run_rows FINAL
           WHERE project = {project:String} AND run_id IN {runs:Array(String)}
             AND JSONExtractString(summary, 'stage') = 'label_or_corpus'
           ORDER BY row_id, run_id""",
        {"project": project, "runs": sorted(runs)},
    )
    kept: dict[str, RowToCheck] = {}
    for line in found:
        run, body = runs[line["run_id"]], orjson.loads(line["summary"])
        at = datetime.fromisoformat(run["started_at"])
        if line["row_id"] not in written or written[line["row_id"]] > at:
            continue
        item = RowToCheck(
            line["row_id"], body["kind"], body["question"], body["why"], line["run_id"],
            run["plan_id"], at,
        )  # fmt: skip
        before = kept.get(item.row_id)
        kept[item.row_id] = item if before is None or before.at < at else before
    return list(kept.values())


def _newest_runs(store: Store, project: str, dataset: str) -> dict[str, dict[str, Any]]:
    """Run id → record of the newest finished run of each plan on the dataset."""
    newest: dict[str, dict[str, Any]] = {}
    for run in list_runs(store, project, limit=_RUNS_LOOKED_AT):
        if run["dataset"] == dataset and run["state"] == "finished":
            newest.setdefault(run["plan_id"], run)
    return {run["run_id"]: run for run in newest.values()}


def turns_to_check(store: Store, project: str) -> list[TurnToCheck]:
    """Turns with an open dispute or correction whose stages all pass, newest first.

    At most 200; questions are cut to 300 characters.
    """
    found = store.rows(
        """SELECT t.turn_id AS turn_id, leftUTF8(t.question, {chars:UInt32}) AS question,
                  f.reasons AS reasons, d.why AS why, t.started_at AS started_at
           FROM turns AS t FINAL
           INNER JOIN (SELECT turn_id, groupUniqArray(reason) AS reasons FROM flags FINAL
                       WHERE project = {project:String} AND state = 'open'
                         AND reason IN ('disputed', 'corrected') GROUP BY turn_id) AS f
             ON f.turn_id = t.turn_id
           INNER JOIN (SELECT turn_id, why FROM diagnoses FINAL WHERE project = {project:String}
                         AND stage IN ('ok', 'label_or_corpus')) AS d
             ON d.turn_id = t.turn_id
           WHERE t.project = {project:String} AND t.replaced_by = ''
             AND t.turn_id IN (SELECT turn_id FROM flags FINAL WHERE project = {project:String}
                               AND state = 'open' AND reason IN ('disputed', 'corrected'))
           ORDER BY started_at DESC, turn_id LIMIT {limit:UInt32}""",
        {"project": project, "limit": _MOST_TURNS, "chars": _QUESTION_CHARS},
    )
    return [
        TurnToCheck(
            row["turn_id"], row["question"], tuple(sorted(row["reasons"])), row["why"],
            row["started_at"].replace(tzinfo=UTC),
        )
        for row in found
    ]  # fmt: skip
