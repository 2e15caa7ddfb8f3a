"""The pages: each reads what it shows and renders a template. No page holds inline script."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response

from stagewatch.api.deps import (
    ContextDep,
    Reader,
)
from stagewatch.api.overview import load_overview, newest_turn, otlp_ports
from stagewatch.api.promote import (
    kind_why,
    suggest_expected,
    suggest_failure,
    suggest_kind,
    suggest_needs,
)
from stagewatch.api.recheck import turns_to_check
from stagewatch.api.routes.health import part_health
from stagewatch.api.routes.judges import load_judges
from stagewatch.api.routes.turns import find_turn, split_future, tree_order
from stagewatch.api.scoring import scorer_states
from stagewatch.api.views import TurnView, load_turn_view, summaries
from stagewatch.api.web.render import render
from stagewatch.api.web.shape import (
    answer_segments,
    evidence_of,
    need_options,
    shown_needs,
    stage_rail,
    waterfall,
    window_words,
)
from stagewatch.core.auth import ANY_PROJECT
from stagewatch.core.store.datasets import list_datasets
from stagewatch.core.store.feedback import feedback_of_trace
from stagewatch.core.store.scores import diagnoses_of
from stagewatch.core.store.spans import trace_spans
from stagewatch.core.store.spending import spent_on
from stagewatch.core.store.turns import (
    TurnFilter,
    count_turns,
    list_turns,
    turns_by_id,
    turns_of_conversation,
    turns_of_trace,
)
from stagewatch.scorer.calibration_state import calibration_report, labels_of_turn

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

SPANS: Mapping[str, timedelta] = {
    "15m": timedelta(minutes=15),
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
}

Span = Annotated[str, Query(pattern="^(15m|1h|6h|24h|7d|30d)$")]


@router.get("/")
def overview(request: Request, context: ContextDep, caller: Reader, span: Span = "24h") -> Response:
    """What is going on now: the top line, alerts, the two charts, which stage fails."""
    now = context.clock.now()
    data = load_overview(context.store, caller.project, now - SPANS[span], now)
    return render(
        request,
        caller,
        "overview.html",
        span=span,
        spans=list(SPANS),
        newest=None if data["total"] else newest_turn(context.store, caller.project),
        ports=otlp_ports(context),
        host=request.url.hostname or "127.0.0.1",
        **data,
    )


@router.get("/turns")
def turns(
    request: Request,
    context: ContextDep,
    caller: Reader,
    q: str = "",
    diagnosis: str = "",
    release: str = "",
    index_version: str = "",
    conversation_id: str = "",
    flagged: str = "",
    future: str = "",
    span: Span = "30d",
    cursor: str | None = None,
) -> Response:
    """The list of turns with filters."""
    now = context.clock.now()
    asked = TurnFilter(
        project=caller.project,
        since=now - SPANS[span],
        q=q or None,
        diagnosis=diagnosis or None,
        release=release or None,
        index_version=index_version or None,
        conversation_id=conversation_id.strip() or None,
        flagged={"yes": True, "no": False}.get(flagged),
    )
    wanted, ahead = split_future(asked, now, future=future == "yes")
    rows, following = list_turns(context.store, wanted, limit=50, cursor=cursor)
    total, exact = count_turns(context.store, wanted)
    kept = {
        "q": q,
        "diagnosis": diagnosis,
        "release": release,
        "index_version": index_version,
        "flagged": flagged,
        "span": span,
        "conversation_id": conversation_id,
        "project": caller.project if caller.project != "default" else "",
    }
    query = {name: value for name, value in kept.items() if value}
    here = {**query, "future": "yes"} if future == "yes" else query
    return render(
        request,
        caller,
        "turns.html",
        future=future == "yes",
        future_total=count_turns(context.store, ahead)[0],
        promote_url="/promote?" + urlencode(query),
        future_url="/turns?" + urlencode({**query, "future": "yes"}),
        items=summaries(context.store, rows),
        total=total,
        exact=exact,
        spans=list(SPANS),
        choices=_choices(context.store, caller.project),
        next_url="/turns?" + urlencode({**here, "cursor": following}) if following else None,
        **kept | {"project": caller.project},
    )


def _choices(store: Any, project: str) -> dict[str, list[str]]:  # noqa: ANN401
    """Values that the filters offer, newest first."""
    row = store.row(
        """SELECT groupUniqArray(50)(release) AS release,
                  groupUniqArray(50)(index_version) AS index_version
           FROM turns WHERE project = {project:String}
             AND started_at > now() - INTERVAL 30 DAY""",
        {"project": project},
    )
    return {name: sorted(v for v in values if v) for name, values in (row or {}).items()}


@router.get("/turns/{turn_id}")
def turn(request: Request, context: ContextDep, caller: Reader, turn_id: str) -> Response:
    """One turn: its stages in a row, chunks, claims with evidence, and the way to a dataset."""
    store = context.store
    anywhere = caller.principal.project == ANY_PROJECT
    view = load_turn_view(store, find_turn(store, turn_id, caller.project, any_project=anywhere))
    # A link from an alert names no project: the rest of the page is about the turn's own.
    caller = replace(caller, project=view.turn.project)
    conversation = (
        turns_of_conversation(store, view.turn.project, view.turn.conversation_id)
        if view.turn.conversation_id
        else []
    )
    needs = suggest_needs(view)
    return render(
        request,
        caller,
        "turn.html",
        view=view,
        turn=view.turn,
        rail=stage_rail(view),
        window_words=window_words(view.turn.window_source),
        segments=answer_segments(view.turn.answer or "", view.claims),
        conversation=conversation,
        stages_of=diagnoses_of(store, [item.turn_id for item in conversation]),
        scores={score.metric: score for score in view.scores},
        kind=suggest_kind(view),
        kind_why=kind_why(view),
        failure=suggest_failure(view),
        need_options=need_options(view.turn, needs),
        expected=suggest_expected(view),
        datasets=[item.name for item in list_datasets(store, view.turn.project)],
        labels=labels_of_turn(store, turn_id),
    )


@router.get("/traces/{trace_id}")
def trace(request: Request, context: ContextDep, caller: Reader, trace_id: str) -> Response:
    """The spans of a trace as a waterfall."""
    spans = trace_spans(context.store, caller.project, trace_id)
    return render(
        request,
        caller,
        "trace.html",
        trace_id=trace_id,
        rows=waterfall(tree_order(spans)),
        turns=turns_of_trace(context.store, trace_id, caller.project),
    )


def _row_to_be(view: TurnView) -> dict[str, Any]:
    """What a reviewer sees of the row that the turn would become."""
    return {
        "kind": suggest_kind(view),
        "kind_why": kind_why(view),
        "failure": suggest_failure(view),
        "needs": shown_needs(view.turn, suggest_needs(view)),
        "expected": suggest_expected(view),
        "evidence": evidence_of(view),
    }


@router.get("/review")
def review(request: Request, context: ContextDep, caller: Reader) -> Response:
    """The review queue."""
    store = context.store
    wanted = TurnFilter(project=caller.project, flagged=True)
    rows, _ = list_turns(store, wanted, limit=100)
    whole = turns_by_id(store, [row["turn_id"] for row in rows])
    items = []
    for item in summaries(store, rows):
        found = whole.get(item["turn_id"])
        if found is None:
            continue
        view = load_turn_view(store, found)
        said = feedback_of_trace(store, found.project, found.trace_id)
        items.append({**item, "feedback": said, **_row_to_be(view)})
    names = [dataset.name for dataset in list_datasets(store, caller.project)]
    total, exact = count_turns(store, wanted)
    return render(
        request,
        caller,
        "review.html",
        items=items,
        datasets=names or ["regressions"],
        recheck=turns_to_check(store, caller.project),
        total=total,
        exact=exact,
    )


@router.get("/datasets")
def datasets(request: Request, context: ContextDep, caller: Reader) -> Response:
    """All datasets."""
    return render(
        request, caller, "datasets.html", items=list_datasets(context.store, caller.project)
    )


@router.get("/calibration")
def calibration(request: Request, context: ContextDep, caller: Reader) -> Response:
    """How far the judge agrees with people."""
    reports = calibration_report(context.store, caller.project)
    judges = load_judges(context, caller.project)
    return render(request, caller, "calibration.html", reports=reports, judges=judges)


@router.get("/health")
def health(request: Request, context: ContextDep, caller: Reader) -> Response:
    """What each part says of itself, and what was not scored and why."""
    since = context.clock.now() - timedelta(hours=24)
    decisions = context.store.rows(
        """SELECT outcome, any(why) AS why, count() AS n FROM decisions FINAL
           WHERE project = {project:String} AND at >= {since:DateTime64(3, 'UTC')}
           GROUP BY outcome ORDER BY n DESC""",
        {"project": caller.project, "since": since},
    )
    return render(
        request,
        caller,
        "health.html",
        parts=part_health(context),
        store_ok=context.store.ping(),
        decisions=decisions,
        settings=context.settings,
        scorers=scorer_states(context.store),
        spent=spent_on(context.store, context.clock.now().date()),
    )
