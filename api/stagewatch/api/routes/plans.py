"""Plans, and the runs that this server carries out."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from stagewatch.api.deps import Admin, Caller, ContextDep, Reader, Writer, note
from stagewatch.api.routes.turns import json_response
from stagewatch.api.running import desk_of
from stagewatch.api.views import page_json
from stagewatch.core.codec import from_json, from_plain, to_json, to_plain
from stagewatch.core.errors import ConflictError, InvalidInputError, NotFoundError
from stagewatch.core.service import Context
from stagewatch.core.store.datasets import current_rows, latest_version, rows_of_version
from stagewatch.core.store.documents import get_document, list_documents, put_document
from stagewatch.core.store.runs import get_run, list_runs, put_run, put_run_rows, run_row_bodies
from stagewatch.scorer.plans.credentials import shown_plan
from stagewatch.scorer.plans.launch import (
    Access,
    Launch,
    Source,
    load_summaries,
    need_run,
    prepare_run,
)
from stagewatch.scorer.plans.plan import Plan, parse_plan, plan_body
from stagewatch.scorer.plans.results import (
    RowSummary,
    Run,
    RunFile,
    RunRow,
    pass_share,
    run_body,
    run_to_bytes,
    summary_text,
)
from stagewatch.scorer.plans.tally import tally_kinds, tally_metrics

router = APIRouter(tags=["plans"])

Limit = Annotated[int, Query(ge=1, le=500)]
_RUN_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
RunId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


class RunIn(BaseModel):
    """Body of POST /plans/{plan_id}/runs."""

    model_config = ConfigDict(extra="forbid")

    dataset: Annotated[str, Field(max_length=64)] | None = None
    version: Annotated[int, Field(ge=1)] | None = None
    pipeline: dict[str, Annotated[str, Field(max_length=200)]] = {}


class ResumeIn(BaseModel):
    """Body of POST /runs/{run_id}/resume."""

    model_config = ConfigDict(extra="forbid")

    retry_errored: bool = False


def need_plan(context: Context, project: str, plan_id: str) -> Plan:
    """The newest body of a plan.

    Raises:
        NotFoundError: there is none.
    """
    body = get_document(context.store, "plans", plan_id, project=project)
    if body is None:
        raise NotFoundError(f"no plan {plan_id!r} in project {project!r}")
    return parse_plan(body)


def plan_view(caller: Caller, body: Mapping[str, Any]) -> dict[str, Any]:
    """A plan's body as the caller may see it."""
    return shown_plan(body, whole=caller.principal.may("write"))


@router.get("/plans")
def get_plans(context: ContextDep, caller: Reader) -> Response:
    """Every plan; credentials in their connectors are shown to those who may write only."""
    found = list_documents(context.store, "plans", project=caller.project)
    return json_response(page_json([plan_view(caller, body) for body in found]))


@router.post("/plans", status_code=201)
def post_plan(
    context: ContextDep, caller: Admin, sent: Annotated[dict[str, Any], Body()]
) -> Response:
    """Store a plan; one of the same name is replaced (runs keep the plan they ran).

    A plan says which address this server calls, so it takes an admin.
    """
    plan = parse_plan(sent)
    if plan.connector.kind != "http":
        raise InvalidInputError("python connectors run from the command line only")
    body = {**plan_body(plan), "id": plan.name}
    put_document(
        context.store, "plans", plan.name, plan_body(plan),
        at=context.clock.now(), project=caller.project,
    )  # fmt: skip
    note(context, caller, "plan.save", plan.name)
    return json_response(to_json(body), 201)


@router.get("/plans/{plan_id}")
def get_plan(context: ContextDep, caller: Reader, plan_id: str) -> Response:
    """One plan; credentials in its connector are shown to those who may write only."""
    plan = need_plan(context, caller.project, plan_id)
    return json_response(to_json(plan_view(caller, plan_body(plan))))


def _source(context: Context, project: str, plan: Plan) -> Source:
    """The rows of the plan's version; without one the newest frozen, else the working copy."""
    name = plan.dataset
    if name is None:
        raise InvalidInputError("the plan names no dataset")
    if get_document(context.store, "datasets", name, project=project) is None:
        raise NotFoundError(f"no dataset {name!r} in project {project!r}")
    version = plan.version or latest_version(context.store, project, name) or None
    if version is None:
        return Source(name, None, current_rows(context.store, project, name))
    return Source(name, version, rows_of_version(context.store, project, name, version))


def make_launch(context: Context, caller: Caller, plan: Plan, resume: Run | None = None) -> Launch:
    """A run of `plan` that this server may carry out; raises as `prepare_run`."""
    if resume is not None:
        plan = parse_plan({**resume.plan, "dataset": resume.dataset, "version": resume.version})
    allowed = {name.strip() for name in context.settings.plan_env.split(",") if name.strip()}
    return prepare_run(
        context.store, context.settings, context.clock, plan,
        _source(context, caller.project, plan),
        Access(os.environ, allowed, local=False),
        project=caller.project, by=caller.name, resume=resume.run_id if resume else None,
    )  # fmt: skip


def _with_choices(plan: Plan, sent: RunIn) -> Plan:
    body = plan_body(plan)
    body["dataset"] = sent.dataset or body["dataset"]
    body["version"] = sent.version or body["version"]
    body["pipeline"] = {**body["pipeline"], **sent.pipeline}
    return parse_plan(body)


@router.post("/plans/{plan_id}/estimate")
def post_estimate(context: ContextDep, caller: Writer, plan_id: str, sent: RunIn) -> Response:
    """What a run would take, and what stands in its way; nothing is asked."""
    plan = _with_choices(need_plan(context, caller.project, plan_id), sent)
    launch = make_launch(context, caller, plan)
    return json_response(to_json({"forecast": launch.forecast, "warnings": launch.run.warnings}))


@router.post("/plans/{plan_id}/runs", status_code=202)
def post_run(context: ContextDep, caller: Writer, plan_id: str, sent: RunIn) -> Response:
    """Start a run; ask GET /runs/{run_id} how far it is."""
    plan = _with_choices(need_plan(context, caller.project, plan_id), sent)
    launch = make_launch(context, caller, plan)
    desk_of(context).start(context.store, launch)
    note(context, caller, "run.start", launch.run.run_id, plan=plan.name)
    body = {**run_body(launch.run), "forecast": to_plain(launch.forecast)}
    return json_response(to_json(body), 202)


@router.get("/runs")
def get_runs(
    context: ContextDep, caller: Reader, plan: str | None = None, limit: Limit = 100
) -> Response:
    """Runs, newest first."""
    found = list_runs(context.store, caller.project, plan_id=plan, limit=limit)
    for body in found:
        body["plan"] = plan_view(caller, body["plan"])
        body["pass_rate"] = pass_share(body["counts"])
    return json_response(page_json(found))


def summary_view(row: RowSummary) -> dict[str, Any]:
    """A row's short form as the API shows it."""
    scores = {name: line._asdict() for name, line in row.scores.items()}
    return {
        "row_id": row.row_id, "kind": row.kind, "status": row.status, "question": row.question,
        "verdict": row.verdict, "stage": row.stage, "why": row.why, "error": row.error,
        "latency_ms": row.latency_ms, "counts": row.counts, "scores": scores,
    }  # fmt: skip


@router.get("/runs/{run_id}")
def get_one_run(context: ContextDep, caller: Reader, run_id: str) -> Response:
    """A run: its record, every metric's pass rate and distribution, kinds, rows."""
    # Before the record: a run that has no progress any more has stored its end.
    progress = desk_of(context).progress(run_id)
    run = need_run(context.store, caller.project, run_id)
    rows = load_summaries(context.store, caller.project, run_id)
    metrics = tally_metrics(rows, parse_plan(run.plan).limits())
    body = {
        **run_body(run),
        "plan": plan_view(caller, run.plan),
        "pass_rate": pass_share(run.counts),
        "progress": progress,
        "metrics": [{**to_plain(item), "pass_rate": item.pass_rate} for item in metrics],
        "kinds": tally_kinds(rows),
        "items": [summary_view(row) for row in rows],
    }
    return json_response(to_json(body))


def need_row(context: Context, project: str, run_id: str, row_id: str) -> RunRow:
    """A whole row of a run.

    Raises:
        NotFoundError: the run has no such row.
    """
    found = run_row_bodies(context.store, project, run_id, [row_id])
    if not found:
        raise NotFoundError(f"run {run_id!r} has no row {row_id!r}")
    return from_json(RunRow, found[0])


@router.get("/runs/{run_id}/rows/{row_id}")
def get_run_row(context: ContextDep, caller: Reader, run_id: str, row_id: str) -> Response:
    """One row with the context the judge saw, its reasons and claims."""
    return json_response(to_json(need_row(context, caller.project, run_id, row_id)))


@router.get("/runs/{run_id}/export")
def get_run_file(context: ContextDep, caller: Reader, run_id: str) -> Response:
    """The run as a file that `stagewatch diff` and `gate` read."""
    run = need_run(context.store, caller.project, run_id)
    bodies = run_row_bodies(context.store, caller.project, run_id)
    rows = [from_json(RunRow, body) for body in bodies]
    shown = replace(run, plan=plan_view(caller, run.plan))
    return json_response(run_to_bytes(shown, rows))


@router.post("/runs/import", status_code=201)
def post_run_file(
    context: ContextDep, caller: Writer, sent: Annotated[dict[str, Any], Body()]
) -> Response:
    """Store a run that was carried out elsewhere, such as in CI (a file of `run --out`)."""
    found = from_plain(RunFile, sent)
    store, run = context.store, found.run
    if not _RUN_ID.fullmatch(run.run_id):
        raise InvalidInputError("run_id: letters, digits, - and _ only, at most 64")
    if get_run(store, caller.project, run.run_id) is not None:
        raise ConflictError(f"run {run.run_id} is there already")
    parse_plan(run.plan)
    now = context.clock.now()
    put_run_rows(
        store, caller.project, run.run_id, [(row, summary_text(row)) for row in found.rows], at=now
    )
    body = {**run_body(run), "project": caller.project}
    put_run(store, caller.project, run.run_id, run.plan_id, body, at=now)
    note(context, caller, "run.import", run.run_id)
    return json_response(to_json({"run_id": run.run_id, "rows": len(found.rows)}), 201)


@router.post("/runs/{run_id}/resume", status_code=202)
def post_resume(context: ContextDep, caller: Writer, run_id: str, sent: ResumeIn) -> Response:
    """Go on with a stopped run: only rows it lacks are asked, and errored ones on demand."""
    known = need_run(context.store, caller.project, run_id)
    connector = need_plan(context, caller.project, known.plan_id).connector
    if parse_plan(known.plan).connector != connector:
        # An imported run brings a plan of its own: only an admin may say what is called.
        raise ConflictError("the plan's connector is another one now: start a new run")
    launch = make_launch(context, caller, parse_plan(known.plan), resume=known)
    desk_of(context).start(context.store, launch, retry_errored=sent.retry_errored)
    note(context, caller, "run.resume", run_id)
    return json_response(to_json(run_body(launch.run)), 202)


@router.post("/runs/{run_id}/stop", status_code=202)
def post_stop(context: ContextDep, caller: Writer, run_id: str) -> Response:
    """Stop a run after the rows under way."""
    need_run(context.store, caller.project, run_id)
    return json_response(
        to_json({"run_id": run_id, "stopping": desk_of(context).stop(run_id)}), 202
    )
