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
    """(request, response, model); `model` is the response's, else the request's, else the one
    that does not say which it is.
    """
    call = stages.answer
    if call is None:
        return None, None, None
    wrapper = stages.wrappers.get(call.id)
    steps = [call] if wrapper is None else [call, wrapper]
    found: dict[str, str] = {}
    for name in ("request_model", "response_model", "model"):
        for step in steps:
            value = step.read(name)
            text = scalar_text(value.value) if value is not None else None
            if value is not None and text and name not in found:
                found[name] = text
                facts.note(name, step, value.key, value.convention)
    request, response = found.get("request_model"), found.get("response_model")
    plain = found.get("model")
    if plain is not None and response is None and plain != request:
        response = plain
    return request or (plain if response is None else None), response, response or request or plain


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


_ERROR = 2


def error_of(group: Group, stages: Stages) -> str | None:
    """Why the turn or its answering call failed; a side step's failure is not the turn's."""
    for step in (group.root, stages.answer):
        if step is not None and step.span.status_code == _ERROR:
            kind = step.span.attributes.get("error.type")
            message = step.span.status_message or (kind if isinstance(kind, str) else "")
            return message or "error"
    return None
