"""Templates: Jinja2 with autoescape always on, and the few filters they use."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from stagewatch.api.deps import Caller, context_of
from stagewatch.api.web.static import asset_url
from stagewatch.core.auth import ANY_PROJECT
from stagewatch.core.clock import rfc3339
from stagewatch.core.service import Context

METRIC_LABELS = {
    "faithfulness": "Faithfulness",
    "answer_relevancy": "Answer relevancy",
    "context_sufficiency": "Context sufficiency",
    "context_recall": "Context recall",
    "retrieved_recall": "Retrieved recall",
    "context_precision": "Context precision",
    "context_precision_at_k": "Precision@k",
    "first_relevant_rank": "First relevant rank",
    "reciprocal_rank": "Reciprocal rank",
    "rewrite_fidelity": "Rewrite fidelity",
    "version_conflict": "Version conflict",
    "stale_context": "Stale context",
    "answered_from_superseded": "Answered from superseded",
}


def as_time(value: datetime | str) -> datetime:
    """A datetime, from one or from RFC 3339 text."""
    at = datetime.fromisoformat(value) if isinstance(value, str) else value
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def when(value: datetime | str) -> str:
    """A time for a table: `11-30 12:04:05`, UTC."""
    return as_time(value).strftime("%m-%d %H:%M:%S")


def iso(value: datetime | str) -> str:
    """A time for a machine."""
    return rfc3339(as_time(value))


def percent(value: float | None) -> str:
    """A share as a percentage; a dash when there is none."""
    return "–" if value is None else f"{value:.0%}" if value in {0.0, 1.0} else f"{value:.1%}"


def number(value: float | None) -> str:
    """A score with at most three decimals; a dash when there is none."""
    return "–" if value is None else f"{value:.3f}".rstrip("0").rstrip(".")


def words(value: str) -> str:
    """`label_or_corpus` as `label or corpus`."""
    return value.replace("_", " ")


def label(metric: str) -> str:
    """The metric's name for people."""
    return METRIC_LABELS.get(metric, words(metric).capitalize())


@cache
def environment() -> Environment:
    """The one template environment."""
    env = Environment(
        loader=PackageLoader("stagewatch.api.web", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters.update(when=when, iso=iso, percent=percent, number=number, words=words, label=label)
    env.globals["asset"] = asset_url
    return env


def _projects(context: Context, caller: Caller | None) -> list[str]:
    """Projects this caller may switch to; the one being looked at is always among them."""
    if caller is None or caller.principal.project != ANY_PROJECT:
        return []
    rows = context.store.rows("SELECT DISTINCT project FROM turns ORDER BY project LIMIT 200")
    return sorted({caller.project, *(str(row["project"]) for row in rows)})


def render(request: Request, caller: Caller | None, template: str, **data: Any) -> HTMLResponse:  # noqa: ANN401
    """A page. `caller` is None before somebody has signed in."""
    auth = context_of(request).shared["auth"]
    page = environment().get_template(template)
    base = {
        "path": request.url.path,
        "caller": caller,
        "project": caller.project if caller else "default",
        "keyless": auth.keyless,
        "projects": _projects(context_of(request), caller),
    }
    return HTMLResponse(page.render({**base, **data}))
