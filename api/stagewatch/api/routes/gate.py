"""Two runs: what changed between them, and whether the second may go out."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from stagewatch.api.deps import ContextDep, Reader
from stagewatch.api.routes.plans import RunId
from stagewatch.api.routes.turns import json_response
from stagewatch.core.codec import to_json, to_plain
from stagewatch.core.errors import NotFoundError
from stagewatch.core.service import Context
from stagewatch.core.store.runs import list_runs
from stagewatch.scorer.calibration_state import calibration_check
from stagewatch.scorer.plans.diff import Diff, diff_runs
from stagewatch.scorer.plans.gate import GateResult, decide_gate
from stagewatch.scorer.plans.launch import load_summaries, load_table, need_run
from stagewatch.scorer.plans.plan import GateOptions, parse_plan

router = APIRouter(tags=["plans"])


class GateIn(BaseModel):
    """Body of POST /gate. Left out: the newest run against the one before it of the same plan,
    by the conditions of the candidate's plan.
    """

    model_config = ConfigDict(extra="forbid")

    baseline: RunId | None = None
    candidate: RunId | None = None
    plan_id: Annotated[str, Field(max_length=64)] | None = None
    options: dict[str, Any] | None = None


def load_diff(context: Context, project: str, a: str, b: str) -> Diff:
    """What changed from run `a` to run `b`; raises NotFoundError."""
    store = context.store
    return diff_runs(
        need_run(store, project, a), need_run(store, project, b),
        load_table(store, project, a), load_table(store, project, b),
    )  # fmt: skip


@router.get("/runs/{a}/diff/{b}")
def get_diff(context: ContextDep, caller: Reader, a: str, b: str) -> Response:
    """Rows that flipped, numbers that moved, and what makes the runs less than comparable."""
    return json_response(to_json(load_diff(context, caller.project, a, b)))


def load_gate(
    context: Context, project: str, baseline: str, candidate: str, options: GateOptions | None
) -> GateResult:
    """The gate between two runs; raises NotFoundError."""
    store = context.store
    before, after = need_run(store, project, baseline), need_run(store, project, candidate)
    return decide_gate(
        before, after,
        load_summaries(store, project, baseline), load_summaries(store, project, candidate),
        options=options or parse_plan(after.plan).gate,
        calibrated=calibration_check(store, project),
    )  # fmt: skip


def pick_runs(context: Context, project: str, sent: GateIn) -> tuple[str, str]:
    """(baseline, candidate), the newest ones where none is named.

    Raises:
        NotFoundError: there are not two runs to compare.
    """
    found = list_runs(context.store, project, plan_id=sent.plan_id, limit=1)
    candidate = sent.candidate or (str(found[0]["run_id"]) if found else None)
    if candidate is None:
        raise NotFoundError(f"no run in project {project!r}")
    if sent.baseline is not None:
        return sent.baseline, candidate
    own = need_run(context.store, project, candidate)
    older = [
        run
        for run in list_runs(context.store, project, plan_id=own.plan_id)
        if run["state"] == "finished"
        and run["run_id"] != candidate
        and run["started_at"] <= to_plain(own.started_at)
    ]
    if not older:
        raise NotFoundError(f"plan {own.plan_id!r} has no finished run before {candidate}")
    return str(older[0]["run_id"]), candidate


@router.post("/gate")
def post_gate(context: ContextDep, caller: Reader, sent: GateIn) -> Response:
    """Whether the candidate may go out: pass, blocked or cannot tell, condition by condition."""
    baseline, candidate = pick_runs(context, caller.project, sent)
    options = None
    if sent.options is not None:
        known = need_run(context.store, caller.project, candidate)
        options = parse_plan({**known.plan, "gate": sent.options}).gate
    return json_response(to_json(load_gate(context, caller.project, baseline, candidate, options)))
