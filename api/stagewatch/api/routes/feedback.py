"""What people say of a turn: stored at once, joined whenever the trace arrives."""

from __future__ import annotations

import hashlib
import uuid
from typing import Annotated

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from stagewatch.api.deps import ContextDep, Feeder, Reader
from stagewatch.api.routes.turns import json_response
from stagewatch.api.views import page_json
from stagewatch.core.codec import to_json
from stagewatch.core.errors import InvalidInputError, NotFoundError
from stagewatch.core.model import FLAGGING_FEEDBACK, Feedback, FeedbackKind
from stagewatch.core.service import Context
from stagewatch.core.store.feedback import (
    Flag,
    feedback_of_trace,
    find_feedback,
    put_feedback,
    put_flags,
)
from stagewatch.core.store.turns import turns_of_trace

router = APIRouter(tags=["feedback"])


class FeedbackIn(BaseModel):
    """Body of POST /feedback."""

    model_config = ConfigDict(extra="forbid")

    trace_id: Annotated[str, Field(pattern=r"^[0-9a-fA-F]{32}$")]
    kind: FeedbackKind
    turn_id: Annotated[str, Field(max_length=80)] | None = None
    comment: Annotated[str, Field(max_length=20_000)] | None = None
    corrected_answer: Annotated[str, Field(max_length=100_000)] | None = None
    source: Annotated[str, Field(min_length=1, max_length=100)] = "api"
    external_id: Annotated[str, Field(max_length=200)] | None = None


def accept_feedback(
    context: Context, project: str, by: str, sent: FeedbackIn
) -> tuple[Feedback, bool]:
    """Store feedback and flag its turn; the feedback and whether its turn is known.

    Idempotent on (source, external id). Without an external id the same words about the same
    turn count as a repeat.

    Raises:
        InvalidInputError: `corrected` without a corrected answer.
        NotFoundError: the trace is known and has no turn with this id.
    """
    if sent.kind == "corrected" and not sent.corrected_answer:
        raise InvalidInputError("kind 'corrected' needs corrected_answer")
    trace_id = sent.trace_id.lower()
    turns = turns_of_trace(context.store, trace_id, project)
    known = {turn.turn_id for turn in turns}
    if sent.turn_id and known and sent.turn_id not in known:
        raise NotFoundError("turn_id: this trace has no such turn")
    turn_id = sent.turn_id or (turns[-1].turn_id if turns else None)
    external = sent.external_id or _content_id(sent, by)
    before = find_feedback(context.store, project, sent.source, external)
    item = Feedback(
        feedback_id=before.feedback_id if before else uuid.uuid4().hex,
        project=project,
        trace_id=trace_id,
        kind=sent.kind,
        at=context.clock.now(),
        turn_id=turn_id if known else sent.turn_id,
        comment=sent.comment,
        corrected_answer=sent.corrected_answer,
        source=sent.source,
        external_id=external,
        by=by,
    )
    if before and _same(before, item):
        return before, bool(known)
    put_feedback(context.store, item)
    if known and turn_id and sent.kind in FLAGGING_FEEDBACK:
        put_flags(context.store, [Flag(project, turn_id, sent.kind, "open", item.at, by=by)])
        wake = context.shared.get("wake_scorer")
        if wake is not None:
            wake.set()
    return item, bool(known)


def _content_id(sent: FeedbackIn, by: str) -> str:
    parts = (
        sent.trace_id.lower(),
        sent.turn_id,
        sent.kind,
        sent.comment,
        sent.corrected_answer,
        by,
    )
    return hashlib.sha256(to_json(parts)).hexdigest()[:32]


def _same(a: Feedback, b: Feedback) -> bool:
    names = ("trace_id", "turn_id", "kind", "comment", "corrected_answer")
    return all(getattr(a, name) == getattr(b, name) for name in names)


@router.post("/feedback", status_code=201)
def post_feedback(context: ContextDep, caller: Feeder, sent: FeedbackIn) -> Response:
    """Store feedback: 201 when its turn is known, 202 when its trace has not come yet."""
    item, known = accept_feedback(context, caller.project, caller.name, sent)
    body = {"feedback": item, "joined": known}
    return json_response(to_json(body), 201 if known else 202)


@router.get("/feedback")
def get_feedback(context: ContextDep, caller: Reader, trace_id: str) -> Response:
    """Everything said of a trace."""
    return json_response(page_json(feedback_of_trace(context.store, caller.project, trace_id)))
