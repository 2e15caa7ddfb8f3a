"""Backfills: turns of the past scored as a job, priced first."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict
from pydantic_core import PydanticCustomError

from stagewatch.api.checks import Moment
from stagewatch.api.deps import ContextDep, Reader, Writer, note
from stagewatch.api.routes.turns import json_response
from stagewatch.api.views import page_json
from stagewatch.core.codec import to_json, to_plain
from stagewatch.scorer.backfill import Scope
from stagewatch.scorer.backfill_ask import (
    Wish,
    backfill_view,
    backfill_views,
    cancel_backfill,
    price_wish,
    start_backfill,
)

router = APIRouter(tags=["scoring"])


def _need_text(value: object) -> object:
    """A number would be taken for seconds since 1970."""
    if not isinstance(value, str):
        raise PydanticCustomError("string_type", "give a time as text")
    return value


# JSON has no times: they are text.
TextMoment = Annotated[Moment, Strict(strict=False), BeforeValidator(_need_text)]


class BackfillIn(BaseModel):
    """Body of POST /backfills. `until` is now when left out, `judge` the configured one."""

    model_config = ConfigDict(extra="forbid", strict=True)

    since: TextMoment
    until: TextMoment | None = None
    judge: Annotated[str, Field(max_length=40)] = ""
    scope: Scope = "all"
    rule: Annotated[str, Field(max_length=64)] = ""
    dry_run: bool = False
    agreed_usd: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None


@router.post("/backfills", status_code=201)
def post_backfill(context: ContextDep, caller: Writer, sent: BackfillIn) -> Response:
    """Price a backfill (`dry_run`), or start it: then `agreed_usd` is the price that was seen.

    `scope` `all` reads every turn of the range, `sampled` only those that live sampling drew.
    """
    now = context.clock.now()
    wish = Wish(
        project=caller.project, since=sent.since, until=sent.until or now, judge=sent.judge,
        scope=sent.scope, rule=sent.rule,
    )  # fmt: skip
    if sent.dry_run:
        found = price_wish(context.store, context.settings, wish)
        body: dict[str, Any] = {**to_plain(found), "sentence": found.sentence}
        return json_response(to_json({"forecast": body}))
    job = start_backfill(
        context.store, context.settings, wish, by=caller.name, agreed_usd=sent.agreed_usd, now=now
    )
    note(context, caller, "backfill.start", job.job_id, **to_plain(job))
    return json_response(to_json(backfill_view(context.store, caller.project, job.job_id)), 201)


@router.get("/backfills")
def get_backfills(context: ContextDep, caller: Reader) -> Response:
    """Every backfill of the project, newest first."""
    return json_response(page_json(backfill_views(context.store, caller.project)))


@router.get("/backfills/{job_id}")
def get_backfill(context: ContextDep, caller: Reader, job_id: str) -> Response:
    """One backfill: what was asked, its forecast, how far it is, and a sentence on that."""
    return json_response(to_json(backfill_view(context.store, caller.project, job_id)))


@router.post("/backfills/{job_id}/cancel", status_code=202)
def post_cancel(context: ContextDep, caller: Writer, job_id: str) -> Response:
    """End a backfill after the page in hand; what it has read stays."""
    now = context.clock.now()
    cancel_backfill(context.store, caller.project, job_id, by=caller.name, now=now)
    note(context, caller, "backfill.cancel", job_id)
    return json_response(to_json(backfill_view(context.store, caller.project, job_id)), 202)
