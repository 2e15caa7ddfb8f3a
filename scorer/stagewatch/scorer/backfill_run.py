"""Carries backfills out, a page at a time, so that live turns never wait for long."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime

from stagewatch.core.clock import Clock
from stagewatch.core.codec import to_plain
from stagewatch.core.model import FLAGGING_FEEDBACK, Decision, Turn
from stagewatch.core.store.backfills import (
    get_progress,
    is_cancelled,
    list_jobs,
    put_progress,
    restate,
    turns_between,
)
from stagewatch.core.store.client import Store
from stagewatch.core.store.feedback import flags_of
from stagewatch.core.store.scores import (
    Evaluated,
    PastDecision,
    diagnoses_of,
    past_decisions,
    put_decisions,
    put_evaluated,
    read_by,
)
from stagewatch.core.store.spending import Spent
from stagewatch.scorer.backfill import (
    ENDED,
    Job,
    Progress,
    eligible,
    job_of,
    progress_of,
)
from stagewatch.scorer.decide import Standing, screen
from stagewatch.scorer.leases import living
from stagewatch.scorer.rules import Rule
from stagewatch.scorer.stages.book import RULE_FINGERPRINT
from stagewatch.scorer.work_hand import Duty
from stagewatch.scorer.work_one import Item, Prepared, Reader, TurnReader

PAGE = 50
ACCOUNT = "backfills"
"""The rule that judge calls of backfills are booked to."""


@dataclass(slots=True)
class _Page:
    """One page of a job: what is to be stored, and which turns are seen to."""

    results: list[Evaluated] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    spent: Spent = field(default_factory=Spent)
    waits_for: str = ""


class BackfillRunner:
    """Works on every job that is nobody else's. Not for several threads at once."""

    def __init__(
        self, store: Store, clock: Clock, reader: Reader, duty: Duty, configured: str
    ) -> None:
        self._store = store
        self._clock = clock
        self._reader = reader
        self._duty = duty
        self._configured = configured
        self._turns = TurnReader(replace(reader, first_pass=False), clock.now)
        self._known: set[str] = set()

    def work(self, enough: Callable[[], bool]) -> Counter[str]:
        """Go on with the jobs, oldest first, until none is left or `enough`; turns by outcome.

        Raises:
            StoreError: the store failed; the job goes on from its mark the next time.
        """
        total: Counter[str] = Counter()
        for body in list_jobs(self._store):
            if body["job_id"] in self._known:
                continue
            job = job_of(body)
            total.update(self._job(job, enough))
            if enough():
                break
        return total

    def _job(self, job: Job, enough: Callable[[], bool]) -> Counter[str]:
        stored = get_progress(self._store, job.project, job.job_id)
        progress = progress_of(_without_id(stored)) if stored else Progress(at=job.created_at)
        total: Counter[str] = Counter()
        if progress.state in ENDED:
            self._known.add(job.job_id)
            return total
        if not self._is_mine(progress):
            return total
        while True:
            if is_cancelled(self._store, job.project, job.job_id):
                self._save(job, replace(progress, state="cancelled", why=""))
                return total
            if enough():
                return total
            page, progress = self._page(job, progress)
            total.update(page.outcomes)
            self._save(job, progress)
            if progress.state in ENDED or page.waits_for:
                return total

    def _is_mine(self, progress: Progress) -> bool:
        if self._store.embedded or progress.owner in {"", self._duty.member}:
            return True
        return progress.owner not in {m.member for m in living(self._store)}

    def _save(self, job: Job, progress: Progress) -> None:
        now = self._clock.now()
        body = to_plain(replace(progress, owner=self._duty.member, at=now))
        put_progress(self._store, job.project, job.job_id, body, at=now)

    def _page(self, job: Job, progress: Progress) -> tuple[_Page, Progress]:
        """Read the next page; the progress moves only when every turn of it is settled."""
        page = _Page()
        after = (progress.mark_at, progress.mark_id) if progress.mark_at is not None else None
        found = turns_between(
            self._store, job.project, job.since, job.until, after=after, limit=PAGE
        )
        if not found:
            return page, replace(progress, state="done", why="")
        settled = self._settle(job, found, page)
        spent = Spent(progress.calls, progress.usd) + page.spent
        moved = replace(progress, calls=spent.calls, usd=spent.usd)
        if not settled:
            page.outcomes.clear()
            return page, replace(moved, state="waiting", why=page.waits_for)
        last = found[-1][0]
        mark = (last.started_at, last.turn_id)
        running = replace(moved, state="running", why="")
        return page, running.after(mark, page.outcomes, at=self._clock.now())

    def _settle(self, job: Job, found: Sequence[tuple[Turn, int]], page: _Page) -> bool:
        ids = [turn.turn_id for turn, _ in found]
        past = past_decisions(self._store, ids)
        rule = self._rule(job)
        wanted = self._duty.book().named(job.project, job.rule) if job.rule else None
        meant = [
            (turn, revision)
            for turn, revision in found
            if eligible(job, turn, past.get(turn.turn_id), wanted)
        ]
        page.outcomes["left out"] += len(found) - len(meant)
        fingerprint = self._fingerprint(job)
        revisions = {turn.turn_id: revision for turn, revision in meant}
        read = read_by(self._store, revisions, fingerprint) if revisions else set()
        self._keep_read(job, [(t, r) for t, r in meant if t.turn_id in read], past, fingerprint)
        page.outcomes["already read"] += len(read)
        items = self._items([(t, r) for t, r in meant if t.turn_id not in read], past)
        todo = [self._prepared(job, item, rule) for item in items]
        while todo and not page.waits_for:
            todo = self._read(todo, page)
        self._store_page(job, page)
        return not page.waits_for

    def _items(
        self, turns: Sequence[tuple[Turn, int]], past: Mapping[str, PastDecision]
    ) -> list[Item]:
        flags = flags_of(self._store, [turn.turn_id for turn, _ in turns])
        return [
            Item(
                turn, revision, past.get(turn.turn_id),
                any(
                    f.reason in FLAGGING_FEEDBACK and f.state != "rejected"
                    for f in flags.get(turn.turn_id, ())
                ),
            )
            for turn, revision in turns
        ]  # fmt: skip

    def _rule(self, job: Job) -> Rule:
        named = self._duty.book().named(job.project, job.rule) if job.rule else None
        metrics = named.metrics if named is not None else ()
        judge = "embedded" if job.judge == "embedded" else "configured"
        return Rule(name=ACCOUNT, metrics=metrics, judge=judge)  # type: ignore[arg-type]

    def _is_first_pass(self, job: Job) -> bool:
        return job.judge == "embedded" and self._configured != "embedded"

    def _fingerprint(self, job: Job) -> str:
        if job.judge == "embedded":
            return self._reader.free.fingerprint
        return self._reader.judge.fingerprint

    def _prepared(self, job: Job, item: Item, rule: Rule) -> Prepared:
        at = item.at(self._clock.now())
        # Flagged, so that a turn which no rule matches is read all the same.
        ended = screen(item.turn, Standing(flagged=True), rule, at)
        if ended is not None:
            return Prepared(item, rule, ended)
        why = f"read by backfill {job.job_id}"
        kept = item.past.decision if item.past is not None else None
        # The rule stays the one that the turn fell under when it came.
        name = kept.rule if kept is not None and kept.rule else "backfill"
        if job.scope == "all" or kept is None:
            return Prepared(item, rule, Decision("scored", name, 1.0, why, at))
        return Prepared(item, rule, Decision("scored", name, kept.inclusion, why, at, kept.stratum))

    def _read(self, todo: Sequence[Prepared], page: _Page) -> list[Prepared]:
        """Read turns side by side; those to be tried again."""
        again: list[Prepared] = []
        for prepared, (found, paid) in zip(todo, self._map(todo), strict=True):
            page.spent = page.spent + paid
            outcome = found.decision.outcome
            if outcome == "over_budget" or (outcome == "pending" and self._is_away()):
                page.waits_for = found.decision.why
            elif outcome == "pending":
                again.append(prepared)
            else:
                page.outcomes[outcome] += 1
                page.results.append(found)
        return again

    def _is_away(self) -> bool:
        return self._reader.fuse is not None and self._reader.fuse.state() is not None

    def _map(self, todo: Sequence[Prepared]) -> Iterator[tuple[Evaluated, Spent]]:
        def one(prepared: Prepared) -> tuple[Evaluated, Spent]:
            if prepared.decision.outcome != "scored":
                return prepared.ended(prepared.decision), Spent()
            return self._turns.read(prepared)

        if self._duty.threads <= 1:
            yield from map(one, todo)
            return
        with ThreadPoolExecutor(self._duty.threads, thread_name_prefix="backfill") as pool:
            yield from pool.map(one, todo)

    def _store_page(self, job: Job, page: _Page) -> None:
        self._reader.flush()
        if self._is_first_pass(job):
            put_evaluated(self._store, self._as_first_pass(page.results))
            return
        if job.scope == "sampled":
            page.results = self._without_rules(page.results)
        put_evaluated(self._store, page.results)

    def _without_rules(self, results: Sequence[Evaluated]) -> list[Evaluated]:
        """Scores by rule that stand already keep the inclusion they have."""
        revisions = {item.turn.turn_id: item.revision for item in results}
        have = read_by(self._store, revisions, RULE_FINGERPRINT) if revisions else set()
        return [
            replace(item, scores=[s for s in item.scores if s.basis != "rule"])
            if item.turn.turn_id in have
            else item
            for item in results
        ]

    def _as_first_pass(self, results: Sequence[Evaluated]) -> list[Evaluated]:
        """The free judge beside a configured one: decisions, diagnoses of the other stay."""
        ids = [item.turn.turn_id for item in results]
        past, diagnosed = past_decisions(self._store, ids), diagnoses_of(self._store, ids)
        moved = []
        for item in results:
            kept = past.get(item.turn.turn_id)
            said = diagnosed.get(item.turn.turn_id)
            other = said is not None and said.fingerprint != item.fingerprint
            decision = replace(
                item.decision, outcome="not_sampled", inclusion=None,
                why=f"{item.decision.why}, with the embedded judge alone",
            )  # fmt: skip
            moved.append(
                replace(
                    item,
                    decision=replace(kept.decision, at=item.decision.at) if kept else decision,
                    revision=kept.revision if kept else item.revision,
                    first_pass=item.scores or item.first_pass,
                    scores=(),
                    claims=() if other else item.claims,
                    diagnosis=None if other else item.diagnosis,
                    counted=False,
                )
            )
        return moved

    def _keep_read(
        self,
        job: Job,
        read: Sequence[tuple[Turn, int]],
        past: Mapping[str, PastDecision],
        fingerprint: str,
    ) -> None:
        """What was read live at a lower rate is part of a range that is read whole."""
        if job.scope != "all" or self._is_first_pass(job) or not read:
            return
        now = self._clock.now()
        lower = [(t, r) for t, r in read if _inclusion(past.get(t.turn_id)) != 1.0]
        if not lower:
            return
        restate(self._store, {t.turn_id: r for t, r in lower}, fingerprint, at=now)
        why = f"read before; backfill {job.job_id} read its whole range"
        put_decisions(
            self._store,
            [(t, r, _whole(past.get(t.turn_id), why, now), "") for t, r in lower],
        )


def _without_id(body: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in body.items() if name != "job_id"}


def _inclusion(past: PastDecision | None) -> float | None:
    return past.decision.inclusion if past is not None else None


def _whole(past: PastDecision | None, why: str, now: datetime) -> Decision:
    """The decision of a turn whose range is read whole: inclusion 1."""
    if past is None:
        return Decision("scored", "backfill", 1.0, why, now)
    at = max(now, past.decision.at)
    return Decision("scored", past.decision.rule, 1.0, why, at)
