"""The page that compares two releases over live traffic."""

from __future__ import annotations

from typing import get_args

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from stagewatch.api.deps import ContextDep, Reader
from stagewatch.api.routes.compare import CompareBy, load_comparison
from stagewatch.api.web.render import render
from stagewatch.core.store.client import Store

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

BY: tuple[str, ...] = get_args(CompareBy)


def seen_values(store: Store, project: str, by: str) -> list[str]:
    """Values of a dimension in the last 30 days of scores, the newest first.

    `by` is one of `BY`.
    """
    if by not in BY:
        return []
    rows = store.rows(
        f"""SELECT {by} AS value, min(started_at) AS first FROM scores
            WHERE project = {{project:String}} AND {by} != ''
              AND started_at > now() - INTERVAL 30 DAY
            GROUP BY value ORDER BY first DESC LIMIT 50""",
        {"project": project},
    )
    return [row["value"] for row in rows]


@router.get("/compare")
def compare_page(
    request: Request,
    context: ContextDep,
    caller: Reader,
    by: CompareBy = "release",
    a: str = "",
    b: str = "",
) -> Response:
    """A small table with intervals and the sentence; without a choice, the two newest."""
    values = seen_values(context.store, caller.project, by)
    newest = [*values, "", ""]
    before, after = a or newest[1], b or newest[0]
    found = None
    if before and after:
        found = load_comparison(context, caller.project, by, before, after)
    return render(
        request, caller, "compare.html",
        by=by, dimensions=BY, values=values, a=before, b=after, found=found,
    )  # fmt: skip
