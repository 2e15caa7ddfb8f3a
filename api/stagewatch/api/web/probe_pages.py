"""Pages of probes: the list, and one with its charts and the newest result of every row."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response

from stagewatch.api.deps import ContextDep, Reader
from stagewatch.api.routes.probes import newest_results, probe_view
from stagewatch.api.web.pages import SPANS
from stagewatch.api.web.render import render
from stagewatch.core.clock import rfc3339
from stagewatch.core.store.datasets import list_datasets
from stagewatch.scorer.probes.probe import list_probes, need_probe
from stagewatch.scorer.probes.record import passes_of

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

_PASSES_SHOWN = 20
ProbeSpan = Annotated[str, Query(pattern="^(1h|6h|24h|7d|30d)$")]

CHARTS = (
    ("retrieved_recall", "pass_rate", "Rows whose passages were retrieved"),
    ("first_relevant_rank", "pass_rate", "Rows with the first relevant passage within the limit"),
    ("reciprocal_rank", "mean", "Mean reciprocal rank (MRR)"),
    ("context_recall", "pass_rate", "Rows whose needs reach the window"),
    ("answer_precision", "pass_rate", "Rows whose answer states the expected facts"),
    ("rewrite_gain", "mean", "Rewrite gain: reciprocal rank rewritten minus raw"),
)
"""(metric, statistic, title) of the charts of a probe."""


@router.get("/probes")
def probes(request: Request, context: ContextDep, caller: Reader) -> Response:
    """Every probe, and a form for a new one."""
    found = list_probes(context.store, caller.project)
    return render(
        request,
        caller,
        "probes.html",
        items=[probe_view(context, caller, item) for item in found],
        datasets=[item.name for item in list_datasets(context.store, caller.project)],
    )


@router.get("/probes/{name}")
def probe_page(
    request: Request, context: ContextDep, caller: Reader, name: str, span: ProbeSpan = "7d"
) -> Response:
    """One probe: its series, its passes, and what every row got last."""
    probe = need_probe(context.store, caller.project, name)
    results, trouble = newest_results(context, caller.project, probe)
    now = context.clock.now()
    measured = {score.metric for item in results for score in item.row.scores}
    return render(
        request,
        caller,
        "probe.html",
        probe=probe_view(context, caller, probe),
        trouble=trouble,
        results=results,
        passes=passes_of(context.store, caller.project, name, _PASSES_SHOWN),
        charts=[chart for chart in CHARTS if chart[0] in measured],
        since=rfc3339(now - SPANS[span]),
        until=rfc3339(now),
        span=span,
        spans=["1h", "6h", "24h", "7d", "30d"],
    )
