"""Pages of scoring: the rules, and the backfills."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response

from stagewatch.api.deps import ContextDep, Reader
from stagewatch.api.routes.rules import rules_view
from stagewatch.api.web.render import render
from stagewatch.scorer.backfill_ask import backfill_views
from stagewatch.scorer.plans.plan import KNOWN_METRICS
from stagewatch.scorer.rules import Rule, rule_body

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

_NEW = rule_body(Rule(name="new-rule", rate=0.1))


@router.get("/rules")
def rules(
    request: Request,
    context: ContextDep,
    caller: Reader,
    edit: Annotated[str, Query(max_length=64)] = "",
) -> Response:
    """The rules in their order, and a form for one of them."""
    view = rules_view(context, caller.project)
    chosen = next((rule for rule in view["items"] if rule["name"] == edit), None)
    return render(
        request,
        caller,
        "rules.html",
        items=[{**rule, "filter_words": filter_words(rule["filters"])} for rule in view["items"]],
        unmatched=view["unmatched_24h"],
        form=chosen or _NEW,
        editing=chosen is not None,
        metrics=KNOWN_METRICS,
        judge=context.settings.judge,
        budget=context.settings.budget_usd_per_day,
        budget_calls=context.settings.budget_calls_per_day,
    )


@router.get("/backfills")
def backfills(request: Request, context: ContextDep, caller: Reader) -> Response:
    """Backfills with their progress, and a form to price and start one."""
    return render(
        request,
        caller,
        "backfills.html",
        items=backfill_views(context.store, caller.project),
        rules=[rule["name"] for rule in rules_view(context, caller.project)["items"]],
        judge=context.settings.judge,
    )


def filter_words(filters: Mapping[str, Any]) -> list[str]:
    """The filters of a rule, each as `release 2.*`."""
    words = [
        f"{name} {' or '.join(filters[name])}"
        for name in ("service", "release", "environment", "model")
        if filters[name]
    ]
    words += [f"{key}={value}" for key, value in filters["tags"].items()]
    if filters["question_min"] is not None:
        words.append(f"question of {filters['question_min']} characters or more")
    if filters["question_max"] is not None:
        words.append(f"question of {filters['question_max']} characters or less")
    return words
