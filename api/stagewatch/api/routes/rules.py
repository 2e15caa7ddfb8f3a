"""Scoring rules: which turns are read, at what rate, by which judge, for how much."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Body
from fastapi.responses import Response

from stagewatch.api.deps import Caller, ContextDep, Reader, Writer, note
from stagewatch.api.routes.turns import json_response
from stagewatch.api.views import page_json
from stagewatch.core.codec import to_json, to_plain
from stagewatch.core.errors import ConflictError, InvalidInputError
from stagewatch.core.service import Context
from stagewatch.core.store.scores import rule_counts
from stagewatch.core.store.spending import Spent, spent_on
from stagewatch.scorer.judges.asking import Price
from stagewatch.scorer.judges.choose import free_judge
from stagewatch.scorer.rules import Rule, parse_rule, rule_body
from stagewatch.scorer.rules_preview import preview
from stagewatch.scorer.rules_store import book_source, drop_rule, save_rule

router = APIRouter(tags=["scoring"])

_DAY = timedelta(hours=24)
RuleIn = Annotated[dict[str, Any], Body()]


def rules_view(context: Context, project: str) -> dict[str, Any]:
    """The project's rules in their order, each with what it did in the last 24 hours."""
    now = context.clock.now()
    counts = rule_counts(context.store, project, now - _DAY)
    spent = spent_on(context.store, now.date())
    items = []
    for rule, scope in book_source(context.store, context.settings)().of_project(project):
        done = counts.get(rule.name, {})
        paid = spent.get((project, rule.name), Spent())
        items.append(
            {
                **rule_body(rule),
                "scope": scope,
                "last_24h": {"matched": sum(done.values()), "outcomes": done},
                "today": {"judge_calls": paid.calls, "usd": paid.usd},
            }
        )
    return {"items": items, "unmatched_24h": counts.get("", {}).get("filtered", 0)}


@router.get("/rules")
def get_rules(context: ContextDep, caller: Reader) -> Response:
    """The rules in the order in which they are asked; the first enabled one that matches decides.

    `scope` is `project` for the project's own rules and `global` for those of the settings.
    """
    view = rules_view(context, caller.project)
    return json_response(page_json(view["items"], unmatched_24h=view["unmatched_24h"]))


@router.post("/rules", status_code=201)
def post_rule(context: ContextDep, caller: Writer, sent: RuleIn) -> Response:
    """Make a rule of the project; one named as a global rule takes its place."""
    rule = parse_rule(sent)
    own = book_source(context.store, context.settings)().own.get(caller.project, ())
    if any(known.name == rule.name for known in own):
        raise ConflictError(f"there is a rule {rule.name!r}: change it with PUT, or rename this")
    return _save(context, caller, rule)


@router.put("/rules/{name}")
def put_rule(context: ContextDep, caller: Writer, name: str, sent: RuleIn) -> Response:
    """Make or replace a rule. Turns that are decided keep the inclusion they have."""
    rule = parse_rule({"name": name, **sent})
    if rule.name != name:
        raise InvalidInputError(f"rule: name: {rule.name!r} is not the {name!r} of the address")
    return _save(context, caller, rule)


def _save(context: Context, caller: Caller, rule: Rule) -> Response:
    made = save_rule(context.store, caller.project, rule, at=context.clock.now())
    note(context, caller, "rule.create" if made else "rule.change", rule.name,
           rule=rule_body(rule))  # fmt: skip
    return json_response(to_json(rule_body(rule)), 201 if made else 200)


@router.delete("/rules/{name}")
def delete_rule(context: ContextDep, caller: Writer, name: str) -> Response:
    """Delete a rule of the project."""
    drop_rule(context.store, caller.project, name, at=context.clock.now())
    note(context, caller, "rule.delete", name)
    return json_response(to_json({"deleted": name}))


@router.post("/rules/preview")
def post_preview(context: ContextDep, caller: Reader, sent: RuleIn) -> Response:
    """What a rule would do to the newest turns and the traffic of a day; nothing is stored."""
    settings = context.settings
    price = None
    if settings.judge != "embedded":
        price = Price(settings.judge_input_usd, settings.judge_output_usd)
    found = preview(
        context.store, book_source(context.store, settings)(), caller.project, parse_rule(sent),
        context.clock.now(), price=price, free=free_judge(settings),
    )  # fmt: skip
    return json_response(to_json(to_plain(found)))
