"""Two releases over live traffic: what went up, what went down, what held."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from fastapi.responses import Response

from stagewatch.api.checks import Moment
from stagewatch.api.deps import ContextDep, Reader
from stagewatch.api.routes.turns import json_response
from stagewatch.core.codec import to_json
from stagewatch.core.service import Context
from stagewatch.core.store.scores import readings
from stagewatch.scorer.comparison import COMPARED, Comparison, compare

router = APIRouter(tags=["series"])

DEFAULT_SPAN = timedelta(days=30)
CompareBy = Literal["release", "index_version", "prompt_version", "service"]
Value = Annotated[str, Query(min_length=1, max_length=200)]


def load_comparison(
    context: Context,
    project: str,
    by: str,
    a: str,
    b: str,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Comparison:
    """The comparison over [since, until); the default window is the last 30 days."""
    end = until or context.clock.now()
    begin = since or end - DEFAULT_SPAN
    found = {
        spec.metric: readings(context.store, project, spec.metric, begin, end) for spec in COMPARED
    }
    return compare(by, a, b, found)


@router.get("/compare")
def get_compare(
    context: ContextDep,
    caller: Reader,
    a: Value,
    b: Value,
    by: CompareBy = "release",
    since: Moment | None = None,
    until: Moment | None = None,
) -> Response:
    """`b` against `a` on every metric, with 95 % intervals, and a sentence over them.

    Over live traffic: the turns are not the same, so a change of what is asked shows too. For the
    same questions use a run's diff.
    """
    found = load_comparison(context, caller.project, by, a, b, since, until)
    return json_response(to_json(found))
