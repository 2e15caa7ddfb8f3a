"""Templates: Jinja2 with autoescape always on, and the few filters they use."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, get_args
from urllib.parse import urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from stagewatch.api.deps import Caller, context_of, page_project, remember_project
from stagewatch.api.routes.compare import CompareBy
from stagewatch.api.web.static import asset_url
from stagewatch.core.auth import ANY_PROJECT
from stagewatch.core.clock import rfc3339
from stagewatch.core.model import Score
from stagewatch.core.service import Context
from stagewatch.scorer.thresholds import DEFAULT_THRESHOLDS

METRIC_LABELS = {
    "chunk_relevance": "Passage relevance",
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


_COMPARED: tuple[str, ...] = get_args(CompareBy)


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


def date(value: datetime | str) -> str:
    """A time with its year: `2026-11-30 12:04:05`, UTC."""
    return as_time(value).strftime("%Y-%m-%d %H:%M:%S")


def thousands(value: int) -> str:
    """A count: `1,490`."""
    return f"{value:,}"


def chance(value: float | None) -> str:
    """A p value; one too small for three decimals is not 0."""
    return "< 0.001" if value is not None and value < 0.001 else number(value)


def because(score: Score) -> str:
    """Why a score is what it is, and where the metric passes."""
    said = [words(score.reason) if score.reason.isidentifier() else score.reason]
    if score.threshold is not None and score.status == "scored":
        known = DEFAULT_THRESHOLDS.get(score.metric)
        sign = "≤" if known and known.lower_is_better else "≥"
        said.append(f"passes at {sign} {number(score.threshold)}")
    return "; ".join(part for part in said if part)


def what_moved(alert: Mapping[str, Any]) -> str:
    """The alert's sentence without the stage in front, which stands beside it."""
    _, colon, rest = str(alert["sentence"]).partition(": ")
    return rest if colon else str(alert["sentence"])


def comparisons(alert: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(address, words) of the page that compares the versions which changed near an alert."""
    found = []
    for change in alert["near"]:
        head, arrow, after = str(change).partition(" → ")
        by = next((name for name in _COMPARED if head.startswith(f"{words(name)} ")), None)
        if by and arrow:
            before = head.removeprefix(f"{words(by)} ")
            query = {"by": by, "a": before, "b": after, "project": alert["project"]}
            address = "/compare?" + urlencode(query)
            found.append((address, f"Compare {words(by)} {before} with {after}"))
    return found


def capitalized(value: str) -> str:
    """The first letter as a capital, the others as they are."""
    return value[:1].upper() + value[1:]


_UNITS = {"_seconds": "s", "_bytes": "bytes", "_s": "s"}


def measured(key: str, value: object) -> tuple[str, str]:
    """A part's own number for people: `assembly_lag_seconds` 0.0 as ("assembly lag", "0.0 s")."""
    shown = thousands(value) if isinstance(value, int) and not isinstance(value, bool) else value
    for ending, unit in _UNITS.items():
        if key.endswith(ending):
            return words(key.removesuffix(ending)), f"{shown} {unit}"
    return words(key), str(shown)


def number(value: float | None) -> str:
    """A score with at most three decimals; a dash when there is none."""
    return "–" if value is None else f"{value:.3f}".rstrip("0").rstrip(".")


def words(value: str) -> str:
    """`label_or_corpus` as `label or corpus`."""
    return value.replace("_", " ")


def label(metric: str) -> str:
    """The metric's name for people."""
    return METRIC_LABELS.get(metric, words(metric).capitalize())


FILTERS = (
    when, date, iso, percent, number, thousands, chance, words, label, because, what_moved,
    comparisons, capitalized, measured,
)  # fmt: skip


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
    env.filters.update({made.__name__: made for made in FILTERS})
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
    response = HTMLResponse(page.render({**base, **data}))
    if caller and caller.project != page_project(request, caller.principal):
        remember_project(response, caller.project)
    return response
