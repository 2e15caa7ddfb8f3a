"""Backfills: scoring turns of the past, as a job that is priced, watched, cancelled and resumed.

A job goes through its turns by start time, newest part last, and keeps a mark of how far it is.
What a judge has read already is not read again. `scope` says what the scores mean:

- `all`: every eligible turn of the range is read, so each has inclusion 1 from the mark backwards,
  whatever it had been sampled at. Behind the mark turns keep what they had. Both parts are
  samples with known probabilities, so estimates over the range are unbiased at every moment.
- `sampled`: only turns that live sampling had drawn; their stored inclusion is kept.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, get_args

from stagewatch.core.codec import from_plain, to_plain
from stagewatch.core.errors import InvalidInputError
from stagewatch.core.model import Turn
from stagewatch.core.store.scores import PastDecision
from stagewatch.scorer.rules import Rule, matches
from stagewatch.scorer.sampling import is_sampled

Scope = Literal["all", "sampled"]
JobState = Literal["queued", "running", "waiting", "done", "cancelled"]
SCOPES: tuple[str, ...] = get_args(Scope)
ENDED: frozenset[str] = frozenset({"done", "cancelled"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a job will take. `turns` are those it reads, `already` those the judge has read before.

    `exact` is False when it was measured on a thousand turns of the range; tokens and US dollars
    are estimates in any case, and calls an upper bound.
    """

    turns: int
    already: int
    calls: int
    input_tokens: int
    output_tokens: int
    usd: float
    exact: bool

    @property
    def sentence(self) -> str:
        """The forecast for a person who is asked to agree."""
        about = "" if self.exact else "about "
        money = f", up to {self.calls:,} judge calls, about ${self.usd:.2f}" if self.calls else ""
        kept = f" ({about}{self.already:,} more are read already)" if self.already else ""
        return f"{about}{self.turns:,} turns to read{money or ', no cost'}{kept}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What was asked for; never changed after it is stored.

    Turns started in [since, until) are read by `judge` (`embedded` or `openai`); `rule` narrows
    them to those that match a rule of this name. `forecast` is what the person agreed to.
    """

    job_id: str
    project: str
    since: datetime
    until: datetime
    judge: str
    scope: Scope = "all"
    rule: str = ""
    by: str = ""
    created_at: datetime
    forecast: Forecast

    @property
    def total(self) -> int:
        """Turns that the job goes through, read already or not."""
        return self.forecast.turns + self.forecast.already


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a job is: turns looked at by outcome, and the mark (start time, turn id) behind
    which everything is done. `owner` is the scorer that works on it, `why` what it waits for.
    """

    state: JobState = "queued"
    outcomes: Mapping[str, int] = field(default_factory=dict)
    mark_at: datetime | None = None
    mark_id: str = ""
    calls: int = 0
    usd: float = 0.0
    owner: str = ""
    why: str = ""
    at: datetime

    @property
    def done(self) -> int:
        """Turns behind the mark."""
        return sum(self.outcomes.values())

    def after(
        self, mark: tuple[datetime, str], outcomes: Mapping[str, int], *, at: datetime
    ) -> Progress:
        """The progress once a batch is stored."""
        total = dict(self.outcomes)
        for name, count in outcomes.items():
            total[name] = total.get(name, 0) + count
        return replace(self, outcomes=total, mark_at=mark[0], mark_id=mark[1], at=at)


def new_job_id() -> str:
    """An id that no other job has."""
    return uuid.uuid4().hex[:16]


def check_range(since: datetime, until: datetime) -> None:
    """Raise InvalidInputError for an empty range."""
    if until <= since:
        raise InvalidInputError("until must be after since")


def job_of(body: Mapping[str, Any]) -> Job:
    """A stored job."""
    return from_plain(Job, body)


def progress_of(body: Mapping[str, Any]) -> Progress:
    """A stored progress."""
    return from_plain(Progress, body)


def job_view(job: Job, progress: Progress, *, owner_alive: bool, scorers: int) -> dict[str, Any]:
    """The job as the API shows it, with a sentence on where it stands."""
    body: dict[str, Any] = {**to_plain(job), "progress": to_plain(progress)}
    body["total"] = job.total
    body["forecast"]["sentence"] = job.forecast.sentence
    body["progress"]["done"] = progress.done
    total = max(job.total, progress.done)
    share = 1.0 if progress.state == "done" else progress.done / total if total else 0.0
    body["progress"]["share"] = share
    body["says"] = _sentence(job, progress, owner_alive=owner_alive, scorers=scorers)
    return body


def _sentence(job: Job, progress: Progress, *, owner_alive: bool, scorers: int) -> str:
    many = f"{progress.done:,} of {max(job.total, progress.done):,} turns"
    if progress.state in ENDED:
        return f"{progress.state}: {many}, ${progress.usd:.2f} for {progress.calls:,} judge calls"
    if not scorers:
        return f"waits: no scorer is running ({many})"
    if progress.state == "waiting":
        return f"waits: {progress.why} ({many})"
    if progress.state == "running" and not owner_alive:
        return f"waits: its scorer is gone, another takes over ({many})"
    return f"{progress.state}: {many}"


def eligible(job: Job, turn: Turn, past: PastDecision | None, rule: Rule | None) -> bool:
    """True when the job reads this turn: no probe, matched by its rule, drawn where it must be."""
    if turn.probe or (rule is not None and not matches(rule, turn)):
        return False
    if job.scope == "all":
        return True
    inclusion = past.decision.inclusion if past is not None else None
    return inclusion is not None and is_sampled(turn.turn_id, inclusion)


def chosen(
    job: Job,
    turns: Sequence[tuple[Turn, int]],
    past: Mapping[str, PastDecision],
    rule: Rule | None,
) -> list[tuple[Turn, int]]:
    """Those of `turns` that the job reads."""
    return [
        (turn, revision)
        for turn, revision in turns
        if eligible(job, turn, past.get(turn.turn_id), rule)
    ]
