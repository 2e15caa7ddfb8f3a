"""Pages of plans and runs: the list, one run, one of its rows, and two runs compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from stagewatch.api.deps import ContextDep, Reader
from stagewatch.api.routes.gate import load_diff, load_gate
from stagewatch.api.routes.plans import need_row, plan_view
from stagewatch.api.running import desk_of
from stagewatch.api.web.render import render
from stagewatch.api.web.shape import answer_segments
from stagewatch.core.store.datasets import list_datasets
from stagewatch.core.store.documents import list_documents
from stagewatch.core.store.runs import list_runs
from stagewatch.scorer.plans.launch import load_summaries, need_run
from stagewatch.scorer.plans.plan import parse_plan
from stagewatch.scorer.plans.results import RowSummary, pass_share
from stagewatch.scorer.plans.tally import Bin, median_latency, tally_kinds, tally_metrics

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

_ROWS_SHOWN = 500
_SEVERITY: Mapping[str, int] = {"fail": 0, "errored": 1, "pass": 2}


@router.get("/runs")
def runs(request: Request, context: ContextDep, caller: Reader) -> Response:
    """Plans with a button each, and every run."""
    found = list_runs(context.store, caller.project, limit=200)
    desk = desk_of(context)
    return render(
        request,
        caller,
        "runs.html",
        plans=[
            plan_view(caller, body)
            for body in list_documents(context.store, "plans", project=caller.project)
        ],
        datasets=[item.name for item in list_datasets(context.store, caller.project)],
        items=[
            {
                **run,
                "pass_rate": pass_share(run["counts"]),
                "progress": desk.progress(run["run_id"]),
            }
            for run in found
        ],
    )


@router.get("/runs/compare")
def compare(
    caller: Reader, a: Annotated[str, Query(max_length=64)], b: Annotated[str, Query(max_length=64)]
) -> Response:
    """Where the form of the list leads."""
    tail = f"?project={caller.project}" if caller.project != "default" else ""
    return RedirectResponse(f"/runs/{a}/diff/{b}{tail}", 303)


@router.get("/runs/{run_id}")
def run_page(
    request: Request,
    context: ContextDep,
    caller: Reader,
    run_id: str,
    kind: str = "",
    verdict: str = "",
) -> Response:
    """One run: metric by metric, kind by kind, row by row."""
    # Before the record: a run that has no progress any more has stored its end.
    progress = desk_of(context).progress(run_id)
    run = need_run(context.store, caller.project, run_id)
    rows = load_summaries(context.store, caller.project, run_id)
    shown = [
        row
        for row in rows
        if (not kind or row.kind == kind) and (not verdict or row.verdict == verdict)
    ]
    others = [
        other
        for other in list_runs(context.store, caller.project, limit=50)
        if other["run_id"] != run_id
    ]
    return render(
        request,
        caller,
        "run.html",
        run=run,
        progress=progress,
        pass_rate=pass_share(run.counts),
        metrics=[
            (item, bars(item.bins)) for item in tally_metrics(rows, parse_plan(run.plan).limits())
        ],
        kinds=tally_kinds(rows),
        rows=worst_first(shown)[:_ROWS_SHOWN],
        total=len(shown),
        latency=median_latency(rows),
        others=others,
        kind=kind,
        verdict=verdict,
    )


def worst_first(rows: Sequence[RowSummary]) -> list[RowSummary]:
    """Failures, then errors, then the rest."""
    return sorted(rows, key=lambda row: (_SEVERITY.get(row.verdict, 3), row.kind, row.row_id))


def bars(bins: Sequence[Bin]) -> list[dict[str, object]]:
    """The bars of a distribution in a box of 12 units a bar and 40 high, and where the threshold
    mark stands: before the first bar whose side of it changes.
    """
    top = max((item.n for item in bins), default=0) or 1
    found: list[dict[str, object]] = []
    for number, item in enumerate(bins):
        changes = number > 0 and item.passes != bins[number - 1].passes
        height = 38 * item.n / top
        found.append(
            {
                "x": number * 12 + 1,
                "y": 40 - height,
                "height": height,
                "label": item.label,
                "n": item.n,
                "side": {True: "pass", False: "fail", None: "none"}[item.passes],
                "mark": number * 12 if changes else None,
            }
        )
    return found


@router.get("/runs/{run_id}/rows/{row_id}")
def row_page(
    request: Request, context: ContextDep, caller: Reader, run_id: str, row_id: str
) -> Response:
    """One row: the numbered context the judge saw, its claims, scores and reasons."""
    row = need_row(context, caller.project, run_id, row_id)
    answer = (row.turn.answer if row.turn else "") or ""
    return render(
        request,
        caller,
        "run_row.html",
        run=need_run(context.store, caller.project, run_id),
        row=row,
        turn=row.turn,
        segments=answer_segments(answer, row.claims),
    )


@router.get("/runs/{a}/diff/{b}")
def diff_page(request: Request, context: ContextDep, caller: Reader, a: str, b: str) -> Response:
    """Two runs: the sentence, the gate, the numbers, the rows that flipped."""
    gate = load_gate(context, caller.project, a, b, None)
    return render(
        request,
        caller,
        "run_diff.html",
        before=need_run(context.store, caller.project, a),
        after=need_run(context.store, caller.project, b),
        diff=load_diff(context, caller.project, a, b),
        gate=gate,
        idle=all(condition.idle for condition in gate.conditions),
    )
