"""Labels to look at again: of a dataset's rows, and of live turns."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from stagewatch.api.deps import ContextDep, Reader
from stagewatch.api.recheck import rows_to_check, turns_to_check
from stagewatch.api.routes.datasets import need_dataset
from stagewatch.api.routes.turns import json_response
from stagewatch.api.views import page_json

router = APIRouter(tags=["review"])


@router.get("/datasets/{name}/recheck")
def get_rows_to_check(context: ContextDep, caller: Reader, name: str) -> Response:
    """Rows whose answer was wrong with every stage passing, in the newest run of each plan."""
    need_dataset(context, caller, name)
    return json_response(page_json(rows_to_check(context.store, caller.project, name)))


@router.get("/review/recheck")
def get_turns_to_check(context: ContextDep, caller: Reader) -> Response:
    """Turns that are disputed although every stage passes, newest first."""
    return json_response(page_json(turns_to_check(context.store, caller.project)))
