"""Hand labels in, agreement out."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from stagewatch.api.deps import ContextDep, Reader, Writer
from stagewatch.api.routes.review import LabelIn, store_labels
from stagewatch.api.routes.turns import find_turn, json_response
from stagewatch.api.views import page_json
from stagewatch.core.auth import ANY_PROJECT
from stagewatch.core.codec import to_json
from stagewatch.scorer.calibration_state import calibration_report

router = APIRouter(tags=["calibration"])


class LabelsIn(BaseModel):
    """Body of POST /labels: labels of one turn's claims, chunks or whole."""

    model_config = ConfigDict(extra="forbid")

    turn_id: Annotated[str, Field(min_length=1, max_length=80)]
    labels: Annotated[list[LabelIn], Field(min_length=1, max_length=500)]


@router.get("/calibration")
def get_calibration(context: ContextDep, caller: Reader) -> Response:
    """Agreement and kappa of the judge in force, for each kind of label."""
    return json_response(page_json(calibration_report(context.store, caller.project)))


@router.post("/labels", status_code=201)
def post_labels(context: ContextDep, caller: Writer, sent: LabelsIn) -> Response:
    """Store hand labels of a turn."""
    anywhere = caller.principal.project == ANY_PROJECT
    turn = find_turn(context.store, sent.turn_id, caller.project, any_project=anywhere)
    stored = store_labels(context, turn.project, turn.turn_id, caller.name, sent.labels)
    return json_response(to_json({"stored": stored}), 201)
