"""Runs made by hand, row by row, for diffs and gates."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from stagewatch.core.model import Score
from stagewatch.scorer.plans.plan import GateOptions, parse_plan, plan_body
from stagewatch.scorer.plans.results import RowSummary, Run, RunRow, summarise, summary_text
from stagewatch.scorer.plans.table import RunTable, table_from_texts

AT = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
PLAN = {"name": "p", "connector": {"url": "http://127.0.0.1:9"}}


def score(
    metric: str, value: float | None, *, basis: str = "gold", hard: bool = False, limit: float = 0.7,
    status: str = "scored",
) -> Score:  # fmt: skip
    verdict = None
    if status == "scored":
        if metric == "first_relevant_rank":
            verdict = "pass" if value is not None and value <= 3 else "fail"
        else:
            verdict = "fail" if hard or value is None or value < limit else "pass"
    return Score(metric, status, value, verdict, hard, basis)  # type: ignore[arg-type]


def row(
    row_id: str, kind: str = "happy_path", *scores: Score, status: str = "confirmed",
    stage: str = "ok", error: str = "", verdict: str | None = None,
) -> RunRow:  # fmt: skip
    failed = any(s.verdict == "fail" for s in scores)
    told = verdict or ("errored" if error else "fail" if failed else "pass")
    return RunRow(
        row_id, kind, status, f"question of {row_id}", told, stage, "because", error,  # type: ignore[arg-type]
        12.0, 3.0, tuple(scores),
    )  # fmt: skip


def run(run_id: str = "r", **fields: Any) -> Run:
    base: dict[str, Any] = {
        "run_id": run_id, "project": "p", "plan_id": "p", "plan": plan_body(parse_plan(PLAN)),
        "dataset": "d", "version": 1, "state": "finished", "started_at": AT, "rows": 1,
        "fingerprint": "judge-1",
    }  # fmt: skip
    return Run(**{**base, **fields})


def summaries(rows: Sequence[RunRow]) -> list[RowSummary]:
    return [summarise(item) for item in rows]


def table(rows: Sequence[RunRow]) -> RunTable:
    return table_from_texts([summary_text(item) for item in rows])


def options(**fields: Any) -> GateOptions:
    return parse_plan({**PLAN, "gate": fields}).gate
