"""Probes: dataset rows asked of the live app on a schedule, and what they found."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query
from fastapi.responses import Response

from stagewatch.api.checks import LONGEST_STEP_S, Moment
from stagewatch.api.deps import Admin, Caller, ContextDep, Reader, Writer, note
from stagewatch.api.routes.turns import json_response
from stagewatch.api.views import page_json
from stagewatch.core.codec import from_json, to_json, to_plain
from stagewatch.core.errors import InvalidInputError, NotFoundError
from stagewatch.core.service import Context
from stagewatch.core.store.documents import get_document
from stagewatch.core.store.probes import has_pass, newest_row_bodies, pass_row_bodies
from stagewatch.scorer.probes.ask import ProbeResult
from stagewatch.scorer.probes.desk import desk_of, surroundings
from stagewatch.scorer.probes.passes import check_apps, rows_for
from stagewatch.scorer.probes.probe import (
    REWRITE_GAIN,
    Probe,
    check_storable,
    drop_probe,
    list_probes,
    need_probe,
    parse_probe,
    put_probe,
    shown_body,
)
from stagewatch.scorer.probes.record import is_alive, passes_of
from stagewatch.scorer.probes.series import probe_series
from stagewatch.scorer.probes.watch import close_alerts
from stagewatch.scorer.series import check_request, pick_step

router = APIRouter(tags=["probes"])

DEFAULT_SPAN = timedelta(days=7)


def probe_view(context: Context, caller: Caller, probe: Probe) -> dict[str, Any]:
    """A probe with its newest pass, and when the next one is due; its addresses whole for those
    who may set them.
    """
    newest = next(iter(passes_of(context.store, caller.project, probe.name, 1)), None)
    owner = surroundings(context).owner
    following = None
    if probe.enabled and newest is not None:
        following = newest.started_at + timedelta(minutes=probe.every_minutes)
    return {
        **shown_body(
            probe, whole=caller.principal.may("admin"), writes=caller.principal.may("write")
        ),
        "last_pass": to_plain(newest) if newest else None,
        "running": newest is not None and is_alive(context.store, newest, owner),
        "next_at": following,
    }


def newest_results(context: Context, project: str, probe: Probe) -> tuple[list[ProbeResult], str]:
    """The newest result of every row that the probe asks now, failures first; without any, why
    the probe has no rows to ask.
    """
    try:
        _, rows = rows_for(context.store, project, probe)
    except (NotFoundError, InvalidInputError) as error:
        return [], str(error)
    bodies = newest_row_bodies(context.store, project, probe.name, [row.row_id for row in rows])
    order = {"fail": 0, "errored": 1, "pass": 2}
    found = [from_json(ProbeResult, body) for body in bodies]
    return sorted(found, key=lambda item: (order[item.row.verdict], item.row.row_id)), ""


def result_view(item: ProbeResult) -> dict[str, Any]:
    """A row's result without the passages."""
    row = item.row
    return {
        "row_id": row.row_id, "kind": row.kind, "question": row.question, "verdict": row.verdict,
        "stage": row.stage, "why": row.why, "error": row.error, "latency_ms": row.latency_ms,
        "answer": row.turn.answer if row.turn else None, "trace_id": item.trace_id,
        "asked_at": item.asked_at, "calls": item.calls,
        "scores": {s.metric: {"status": s.status, "value": s.value, "verdict": s.verdict,
                              "reason": s.reason} for s in row.scores},
    }  # fmt: skip


@router.get("/probes")
def get_probes(context: ContextDep, caller: Reader) -> Response:
    """Every probe with its newest pass."""
    found = list_probes(context.store, caller.project)
    return json_response(page_json([probe_view(context, caller, item) for item in found]))


@router.post("/probes", status_code=201)
def post_probe(
    context: ContextDep, caller: Admin, sent: Annotated[dict[str, Any], Body()]
) -> Response:
    """Make a probe or replace it. It says which address this server calls, so it takes an admin."""
    probe = parse_probe(sent)
    if probe.connector.kind != "http":
        raise InvalidInputError("python connectors run from the command line only")
    if get_document(context.store, "datasets", probe.dataset, project=caller.project) is None:
        raise NotFoundError(f"no dataset {probe.dataset!r} in project {caller.project!r}")
    check_storable(probe)
    check_apps(surroundings(context), probe)
    put_probe(context.store, caller.project, probe, at=context.clock.now())
    note(context, caller, "probe.save", probe.name)
    return json_response(to_json(probe_view(context, caller, probe)), 201)


@router.delete("/probes/{name}", status_code=204)
def delete_probe(context: ContextDep, caller: Admin, name: str) -> Response:
    """Delete a probe, end its pass and close its alerts; what it found stays."""
    now = context.clock.now()
    drop_probe(context.store, caller.project, name, at=now)
    desk_of(context).cancel(caller.project, name)
    close_alerts(context.store, caller.project, name, now)
    note(context, caller, "probe.delete", name)
    return Response(status_code=204)


@router.get("/probes/{name}")
def get_probe(context: ContextDep, caller: Reader, name: str) -> Response:
    """A probe, its passes, and the newest result of every row, failures first. `trouble` says
    why it has no rows to ask now.
    """
    probe = need_probe(context.store, caller.project, name)
    results, trouble = newest_results(context, caller.project, probe)
    body = {
        **probe_view(context, caller, probe),
        "passes": passes_of(context.store, caller.project, name),
        "rows": [result_view(item) for item in results],
        "trouble": trouble,
    }
    return json_response(to_json(body))


@router.get("/probes/{name}/passes/{pass_id}")
def get_pass(context: ContextDep, caller: Reader, name: str, pass_id: str) -> Response:
    """The rows of one pass."""
    if not has_pass(context.store, caller.project, name, pass_id):
        raise NotFoundError(f"no pass {pass_id!r} of a probe {name!r}")
    bodies = pass_row_bodies(context.store, caller.project, name, pass_id)
    found = [from_json(ProbeResult, body) for body in bodies]
    return json_response(page_json([result_view(item) for item in found]))


@router.post("/probes/{name}/run", status_code=202)
def post_probe_run(context: ContextDep, caller: Writer, name: str) -> Response:
    """Start a pass now; GET /probes/{name} tells how far it is."""
    probe = need_probe(context.store, caller.project, name)
    pass_id = desk_of(context).start(caller.project, probe, by=caller.name)
    note(context, caller, "probe.run", name)
    return json_response(to_json({"probe": name, "started": True, "pass_id": pass_id}), 202)


@router.get("/probes/{name}/series")
def get_probe_series(
    context: ContextDep,
    caller: Reader,
    name: str,
    metric: str,
    stat: str | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    step: Annotated[
        float | None, Query(gt=0, le=LONGEST_STEP_S, description="Seconds a point.")
    ] = None,
) -> Response:
    """Points as `/series` has them, of what the probe found; the default window is 7 days.

    rewrite_gain is a mean from -1 to 1.
    """
    need_probe(context.store, caller.project, name)
    body = load_probe_series(context, caller.project, name, metric, stat, since, until, step)
    return json_response(to_json(body))


def load_probe_series(
    context: Context,
    project: str,
    name: str,
    metric: str,
    stat: str | None,
    since: datetime | None,
    until: datetime | None,
    step_s: float | None,
) -> dict[str, Any]:
    """The body of a probe's series."""
    end = until or context.clock.now()
    begin = since or end - DEFAULT_SPAN
    step = timedelta(seconds=step_s) if step_s else pick_step(begin, end)
    chosen = "mean" if metric == REWRITE_GAIN else stat or "pass_rate"
    check_request(chosen, begin, end, step)
    found = probe_series(
        context.store, project, name, metric, chosen, since=begin, until=end, step=step
    )
    return {
        "metric": metric,
        "stat": chosen,
        "signed": metric == REWRITE_GAIN,
        "step_s": step.total_seconds(),
        "since": found.since,
        "until": end,
        "items": found.items,
        "breaks": found.breaks,
    }
