"""Models, tokens, cost and failure of a turn."""

from __future__ import annotations

from stagewatch.collector.assemble.documents import number
from stagewatch.collector.assemble.facts import Facts
from stagewatch.collector.assemble.outline import Stages
from stagewatch.collector.assemble.shapes import scalar_text
from stagewatch.collector.assemble.steps import Step
from stagewatch.collector.assemble.tree import Group
from stagewatch.core.model import Usage


def models_of(facts: Facts, stages: Stages) -> tuple[str | None, str | None, str | None]:
    """(request, response, model); `model` is the response's, else the request's."""
    call = stages.answer
    if call is None:
        mapped = facts.mapped("model")
        return None, mapped, mapped
    wrapper = stages.wrappers.get(call.id)
    steps = [call] if wrapper is None else [call, wrapper]
    found: dict[str, str] = {}
    for name in ("request_model", "response_model", "model"):
        for step in steps:
            told = step.text(name, scalar_text)
            if told is None:
                continue
            # A model of no said kind is the one that answered, unless it is the one asked for.
            what = "response_model" if name == "model" else name
            if what not in found and (name != "model" or told[0] != found.get("request_model")):
                found[what] = told[0]
                facts.note(what, step, told[1].key, told[1].convention)
            break
    request, response = found.get("request_model"), found.get("response_model")
    return request, response, response or request


def usage_of(facts: Facts, stages: Stages) -> Usage:
    """Sums over the model calls of the turn, the rewrite's included, each call once."""
    totals: dict[str, float | None] = {}
    for name in ("input_tokens", "output_tokens", "cost_usd"):
        total: float | None = None
        for call in _counted(stages):
            wrapper = stages.wrappers.get(call.id)
            value = call.read(name) or (wrapper.read(name) if wrapper is not None else None)
            count = number(value.value) if value is not None else None
            if value is not None and count is not None and count >= 0:
                total = count + (total or 0)
                facts.note(f"usage.{name}", call, value.key, value.convention)
        if total is None:
            total = number(facts.mapped(name))
        totals[name] = total
    return Usage(
        input_tokens=_whole(totals["input_tokens"]),
        output_tokens=_whole(totals["output_tokens"]),
        cost_usd=totals["cost_usd"],
    )


def _counted(stages: Stages) -> list[Step]:
    known = {call.id for call in stages.calls}
    inner: set[str] = set()
    for call in stages.calls:
        above = stages.parents.get(call.id)
        while above is not None and above.id not in inner:
            inner.add(above.id)
            above = stages.parents.get(above.id)
    # A rewrite step that reports its own tokens and holds no model call of its own.
    return stages.calls + [
        step for step in stages.rewrites if step.id not in known and step.id not in inner
    ]


def _whole(count: float | None) -> int | None:
    return int(count) if count is not None and count < 2**53 else None


def failed_workflow(group: Group) -> Step | None:
    """The root when it failed, else the first workflow below it that did: a request handler
    often answers with an apology and calls that a success.
    """
    if group.root is not None and group.root.failed:
        return group.root
    return next((s for s in group.steps if s.kind in _WORKFLOWS and s.failed), None)


_WORKFLOWS = frozenset({"turn", "chain"})


def error_of(group: Group, stages: Stages, *, answered: bool) -> str | None:
    """Why the turn or its answering call failed; of a turn without an answer, why a workflow in it
    did. Any other step's failure is not the turn's.
    """
    below = None if answered else failed_workflow(group)
    for step in (group.root, stages.answer, below):
        if step is not None and step.failed:
            return step.failure
    return None
