"""Backfills as people ask for them: checked, priced, stored, listed, cancelled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from stagewatch.core.codec import to_plain
from stagewatch.core.errors import ConflictError, InvalidInputError, NotFoundError
from stagewatch.core.settings import Settings
from stagewatch.core.store.backfills import (
    get_job,
    get_progress,
    is_cancelled,
    list_jobs,
    list_progress,
    put_cancelled,
    put_job,
)
from stagewatch.core.store.client import Store
from stagewatch.scorer.backfill import (
    ENDED,
    SCOPES,
    Forecast,
    Job,
    Progress,
    Scope,
    check_range,
    job_of,
    job_view,
    new_job_id,
    progress_of,
)
from stagewatch.scorer.backfill_price import price_backfill
from stagewatch.scorer.judges.asking import Price
from stagewatch.scorer.judges.choose import free_judge
from stagewatch.scorer.judges.openai import fingerprint_of
from stagewatch.scorer.leases import living
from stagewatch.scorer.rules_store import book_source


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a person asks for; `judge` "" is the configured one."""

    project: str
    since: datetime
    until: datetime
    judge: str = ""
    scope: Scope = "all"
    rule: str = ""


def price_wish(store: Store, settings: Settings, wish: Wish) -> Forecast:
    """What the wish would take.

    Raises:
        InvalidInputError: an empty range, an unknown judge, scope or rule.
    """
    check_range(wish.since, wish.until)
    judge = wish.judge or settings.judge
    if judge not in {"embedded", settings.judge}:
        raise InvalidInputError(
            f"judge: {judge!r} is not configured; this store has {settings.judge!r}"
        )
    if wish.scope not in SCOPES:
        raise InvalidInputError(f"scope: use one of {', '.join(SCOPES)}")
    if judge == "embedded" and settings.judge != "embedded" and wish.scope != "all":
        raise InvalidInputError("scope: beside another judge the embedded one reads every turn")
    rule = None
    if wish.rule:
        rule = book_source(store, settings)().named(wish.project, wish.rule)
        if rule is None:
            raise InvalidInputError(f"rule: project {wish.project!r} has no rule {wish.rule!r}")
    paid = judge != "embedded"
    fingerprint = fingerprint_of(settings.judge_model) if paid else free_judge(settings).fingerprint
    price = Price(settings.judge_input_usd, settings.judge_output_usd) if paid else None
    return price_backfill(
        store, wish.project, wish.since, wish.until,
        fingerprint=fingerprint, price=price, scope=wish.scope, rule=rule,
    )  # fmt: skip


def start_backfill(
    store: Store,
    settings: Settings,
    wish: Wish,
    *,
    by: str,
    agreed_usd: float | None,
    now: datetime,
) -> Job:
    """Price the wish anew and store it as a job for the scorers.

    Raises:
        ConflictError: it costs more than was agreed to, or nothing was agreed.
        InvalidInputError: as `price_wish`, or there is nothing to read.
    """
    forecast = price_wish(store, settings, wish)
    if forecast.turns == 0 and forecast.already == 0:
        raise InvalidInputError("no turn of this project lies in the range")
    # A cent and a tenth more: turns go on arriving between the question and the answer.
    if forecast.usd > 0 and (agreed_usd is None or forecast.usd > 1.1 * agreed_usd + 0.01):
        raise ConflictError(
            f"this backfill takes {forecast.sentence}: send agreed_usd {forecast.usd:.2f} or more "
            "to say yes to it"
        )
    job = Job(
        job_id=new_job_id(),
        project=wish.project,
        since=wish.since,
        until=wish.until,
        judge=wish.judge or settings.judge,
        scope=wish.scope,
        rule=wish.rule,
        by=by,
        created_at=now,
        forecast=forecast,
    )
    put_job(store, job.project, job.job_id, to_plain(job), at=now)
    return job


def cancel_backfill(store: Store, project: str, job_id: str, *, by: str, now: datetime) -> None:
    """Have a job end after the page in hand; what it has read stays.

    Raises:
        NotFoundError: there is no such job.
        ConflictError: it has ended already.
    """
    _, progress = _find(store, project, job_id)
    if progress.state in ENDED:
        raise ConflictError(f"backfill {job_id} is {progress.state} already")
    put_cancelled(store, project, job_id, by, at=now)


def backfill_view(store: Store, project: str, job_id: str) -> dict[str, Any]:
    """One job as the API shows it; raises NotFoundError."""
    job, progress = _find(store, project, job_id)
    return _views(store, [(job, progress)])[0]


def backfill_views(store: Store, project: str) -> list[dict[str, Any]]:
    """Every job of a project, newest first."""
    found = list_progress(store, project)
    jobs = [job_of(body) for body in list_jobs(store, project)]
    pairs = [(job, _progress(job, found.get(job.job_id))) for job in jobs]
    return _views(store, sorted(pairs, key=lambda pair: pair[0].created_at, reverse=True))


def _find(store: Store, project: str, job_id: str) -> tuple[Job, Progress]:
    body = get_job(store, project, job_id)
    if body is None:
        raise NotFoundError(f"no backfill {job_id!r} in project {project!r}")
    job = job_of(body)
    return job, _progress(job, get_progress(store, project, job_id))


def _progress(job: Job, body: dict[str, Any] | None) -> Progress:
    if body is None:
        return Progress(at=job.created_at)
    return progress_of({name: value for name, value in body.items() if name != "job_id"})


def _views(store: Store, pairs: Sequence[tuple[Job, Progress]]) -> list[dict[str, Any]]:
    alive = {member.member for member in living(store)}
    views = []
    for job, progress in pairs:
        view = job_view(job, progress, owner_alive=progress.owner in alive, scorers=len(alive))
        open_still = progress.state not in ENDED
        view["cancelling"] = open_still and is_cancelled(store, job.project, job.job_id)
        views.append(view)
    return views
