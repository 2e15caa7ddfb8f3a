"""The scorer as a service: a scheduled pass, woken early when something waits."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from apscheduler.schedulers.background import BackgroundScheduler

from stagewatch.core.errors import StagewatchError, StoreUnavailableError
from stagewatch.core.service import Context, Service
from stagewatch.core.settings import Settings
from stagewatch.core.store.members import bury_member
from stagewatch.core.store.spending import Spent, put_spending
from stagewatch.core.store.turns import Share
from stagewatch.scorer.backfill_run import BackfillRunner
from stagewatch.scorer.budget import NOBODY
from stagewatch.scorer.judges.choose import Chosen, choose, free_judge
from stagewatch.scorer.leases import BEAT_SECONDS, Membership, died
from stagewatch.scorer.meters import Meters
from stagewatch.scorer.rules_store import book_source
from stagewatch.scorer.timetable import add_jobs
from stagewatch.scorer.watch import watch_once
from stagewatch.scorer.work import Worker
from stagewatch.scorer.work_hand import Duty, PassReport
from stagewatch.scorer.work_one import Reader

log = logging.getLogger("stagewatch.scorer")
# A pass that outlasts its interval is normal under load, and the lag metric shows it.
logging.getLogger("apscheduler").setLevel(logging.ERROR)

WAKE = "wake_scorer"
"""Name of the `threading.Event` in `Context.shared` that starts a pass at once."""

_JOB = "score"
_WATCH_SECONDS = 10.0
_WATCH_DUTY = 20
_LONG_PASS_S = 10.0
_UNBOOKED = 2
"""Calls that a killed scorer may leave unbooked, as a multiple of its threads: one under way in
each, and as many replies on their way to the store."""
_FIRST_LOOKBACK = timedelta(hours=24)


def build(context: Context) -> Service:
    """The scorer on this context; nothing runs before `start`."""
    return Scorer(context)


class Scorer:
    """Takes finished turns from the store and scores them; see `work` for one pass."""

    name = "scorer"

    def __init__(self, context: Context) -> None:
        self._context = context
        self._clock = context.clock
        self._meters = Meters(context.registry)
        settings = context.settings
        chosen = choose(
            settings, context.store, context.clock,
            concurrency=settings.judge_concurrency, fused=True,
        )  # fmt: skip
        self._judge = chosen.judge
        self._reader = reader_of(settings, chosen)
        self._threads = chosen.threads
        self._member = Membership(context.store, context.clock.monotonic)
        duty = Duty(
            lookback=max(_FIRST_LOOKBACK, timedelta(hours=2 * settings.reopen_hours)),
            book=book_source(context.store, settings),
            share=self._share,
            threads=chosen.threads,
            member=self._member.name,
            leftover_days=settings.leftover_days,
        )
        self._worker = Worker(context.store, self._reader, context.clock, duty)
        self._backfills = BackfillRunner(
            context.store, context.clock, self._reader, duty, settings.judge
        )
        self._scheduler = BackgroundScheduler(timezone=UTC, executors={
            "default": {"type": "threadpool", "max_workers": 1}})  # fmt: skip
        self._wake: threading.Event = context.shared.setdefault(WAKE, threading.Event())
        self._stopping = threading.Event()
        # Held while a pass runs, so that `stop` can wait for its end.
        self._running = threading.Lock()
        self._waker: threading.Thread | None = None
        self._last_end: datetime | None = None
        self._watch_after = 0.0
        self._last_error = ""
        self._last_report = PassReport()
        self._replicas = 0
        self._beater: threading.Thread | None = None
        self._pass_began: float | None = None

    async def start(self) -> Mapping[str, str]:
        """Start the schedule; the first pass begins at once."""
        every = self._context.settings.score_every_seconds
        self._scheduler.add_job(
            self.run_once, "interval", seconds=every, id=_JOB, coalesce=True, max_instances=1,
            next_run_time=datetime.now(UTC), misfire_grace_time=None,
        )  # fmt: skip
        self._scheduler.add_job(
            self.watch, "interval", seconds=max(_WATCH_SECONDS, every), id="watch", coalesce=True,
            max_instances=1, misfire_grace_time=None,
        )  # fmt: skip
        self._scheduler.add_job(
            self.backfill, "interval", seconds=every, id="backfill", coalesce=True,
            max_instances=1, misfire_grace_time=None,
        )  # fmt: skip
        await asyncio.to_thread(self._settle_dead)
        self._beater = threading.Thread(target=self._beat, name="scorer-beat", daemon=True)
        self._beater.start()
        add_jobs(self._scheduler, self._context, self._rests)
        self._scheduler.start()
        self._waker = threading.Thread(target=self._listen, name="scorer-wake", daemon=True)
        self._waker.start()
        self._context.health[self.name] = self.health
        return {"scorer": f"judge {self._judge.name}, every {every:g} s"}

    def _settle_dead(self) -> None:
        """Book the calls that scorers had under way when they were killed.

        A reply is booked when it comes, so a killed scorer leaves at most a call a thread, and the
        replies on their way to the store, unbooked. They count as spent: a budget that forgot
        them would be spent anew by each crash.
        """
        with contextlib.suppress(StagewatchError):
            for member in died(self._context.store, self._member.name):
                lost = int(member.body.get("threads") or 0)
                if lost and member.beat.date() == self._clock.now().date():
                    row = (NOBODY, Spent(calls=_UNBOOKED * lost))
                    put_spending(self._context.store, [row], at=self._clock.now())
                    told = {"member": member.member, "calls": _UNBOOKED * lost}
                    log.warning("a scorer had died; its calls under way are booked", extra=told)
                bury_member(self._context.store, member.member)

    def _rests(self) -> bool:
        """Whether what is done beside scoring is not this scorer's: it ends, or another leads."""
        if self._stopping.is_set():
            return True
        share = self._share()
        return share is None or share.index != 0

    async def stop(self, grace_s: float) -> str | None:
        """Let the pass in hand store what it has; the turns left wait for the next start."""
        self._stopping.set()
        self._wake.set()
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)
        ended = await asyncio.to_thread(self._running.acquire, True, max(0.0, grace_s))
        self._worker.close()
        if ended:
            self._running.release()
            if self._beater is not None:
                # Else a last heartbeat might come after the farewell.
                await asyncio.to_thread(self._beater.join, max(0.0, grace_s))
            with contextlib.suppress(StagewatchError):
                await asyncio.to_thread(self._member.leave)
            return None
        return "the scorer was still waiting for its judge; the turns in hand will be scored again"

    def run_once(self) -> PassReport | None:
        """One pass now, in the calling thread; None when the store could not be reached."""
        if self._stopping.is_set():
            return None
        with self._running:
            began = self._pass_began = time.monotonic()
            try:
                report = self._worker.run_pass(self._stopping.is_set)
            except StagewatchError as error:
                self._last_error = type(error).__name__
                self._meters.errors.labels(type(error).__name__).inc()
                level = (
                    logging.WARNING if isinstance(error, StoreUnavailableError) else logging.ERROR
                )
                log.log(level, "scoring pass failed", extra={"error": str(error)})
                return None
            finally:
                self._pass_began = None
            self._last_error = ""
            self._last_end = self._clock.now()
            self._last_report = report
            self._meters.note(report, time.monotonic() - began, self._last_end)
            self._note_judge()
            return report

    def _share(self) -> Share | None:
        share = self._member.share()
        self._replicas = share.count if share is not None else 0
        self._meters.replicas.set(self._replicas)
        return share

    def _note_judge(self) -> None:
        budget, fuse = self._reader.budget, self._reader.fuse
        if budget is not None:
            outage = fuse.state() if fuse is not None else None
            self._meters.note_judge(budget.today(), budget.short, outage)

    def backfill(self) -> None:
        """Go on with backfills for about as long as live turns may wait."""
        if self._stopping.is_set():
            return
        ends = time.monotonic() + self._context.settings.score_every_seconds

        def enough() -> bool:
            return self._stopping.is_set() or self._wake.is_set() or time.monotonic() > ends

        with self._running:
            try:
                outcomes = self._backfills.work(enough)
            except StagewatchError as error:
                self._meters.errors.labels(type(error).__name__).inc()
                log.warning("a backfill had to stop", extra={"error": str(error)})
                return
        for outcome, count in outcomes.items():
            self._meters.backfill.labels(outcome).inc(count)
        self._note_judge()

    def _beat(self) -> None:
        """Tell the other scorers and the pages that this one is alive, and how it is."""
        while not self._stopping.is_set():
            try:
                self._member.beat(self.pulse())
                if not self._context.store.embedded:
                    # On the embedded engine nobody else can have died since the start.
                    self._settle_dead()
            except StagewatchError as error:
                self._meters.errors.labels(type(error).__name__).inc()
            # Alone on the engine nobody splits turns by it; it is for the pages then.
            self._stopping.wait(BEAT_SECONDS * (2 if self._context.store.embedded else 1))

    def watch(self) -> int | None:
        """Join late feedback and look for drift; alerts opened, None when the store failed."""
        began = time.monotonic()
        if self._stopping.is_set() or began < self._watch_after:
            return None
        with self._running:
            try:
                opened = watch_once(self._context.store, self._clock.now())
            except StagewatchError as error:
                self._meters.errors.labels(type(error).__name__).inc()
                log.warning("looking for drift failed", extra={"error": str(error)})
                return None
        # Whole streams are read: with much traffic, less often, so that it stays a small share.
        took = time.monotonic() - began
        self._watch_after = began + took * _WATCH_DUTY
        if opened:
            log.warning("alerts opened", extra={"alerts": opened})
        return opened

    def pulse(self) -> dict[str, Any]:
        """How this scorer is, as its heartbeat and the health page say it."""
        report, reader = self._last_report, self._reader
        said: dict[str, Any] = {
            "judge": self._judge.name,
            # How many calls may be under way: what is booked when this scorer is found dead.
            "threads": self._threads if reader.paid else 0,
            "state": "scoring",
            "why": "",
            "short": [],
            "lag_s": round(report.lag_s, 1),
            "waiting": report.waiting,
            "replicas": self._replicas,
            "last_pass": None if self._last_end is None else self._last_end,
        }
        if reader.budget is not None:
            spent = reader.budget.today()
            said |= {"spent_usd": round(spent.usd, 4), "judge_calls": spent.calls}
            short = reader.budget.short
            if short:
                # Rules are their project's own: who sees all of them is not told their names.
                said |= {"state": "over budget", "why": short.get(NOBODY, "budgets of rules")}
                said["short"] = [{"project": p, "says": says} for (p, _), says in short.items()]
        outage = reader.fuse.state() if reader.fuse is not None else None
        if outage is not None:
            why = f"{outage.kind}; next try in {outage.wait_s:.0f} s"
            said |= {"state": "paused", "why": f"the judge cannot be used: {why}"}
        return said

    def health(self) -> dict[str, Any]:
        """Whether passes end in time and the judge can be used, for the health page."""
        every = self._context.settings.score_every_seconds
        end = self._last_end
        age = None if end is None else (self._clock.now() - end).total_seconds()
        late = age is not None and age > 3 * every + 60
        says = "starting" if age is None else f"last pass ended {age:.0f} s ago"
        began = self._pass_began
        under_way = 0.0 if began is None else time.monotonic() - began
        if under_way > 3 * every + _LONG_PASS_S:
            says += f"; one has been under way for {under_way:.0f} s: is the judge slow?"
        if self._last_error:
            says += f"; the last one failed ({self._last_error})"
        pulse = self.pulse()
        if pulse["why"]:
            says += f"; {pulse['state']}: {pulse['why']}"
        shown = {n: pulse[n] for n in pulse if n not in {"why", "last_pass", "short", "threads"}}
        # A judge that is away is no reason to send spans elsewhere: paused, and ready.
        paused = {"paused": True} if pulse["state"] == "paused" else {}
        return {"ok": not late and not self._last_error, "says": says, **shown, **paused}

    def _listen(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait()
            self._wake.clear()
            if self._stopping.is_set():
                return
            job = self._scheduler.get_job(_JOB)
            if job is not None:
                job.modify(next_run_time=datetime.now(UTC))


def reader_of(settings: Settings, chosen: Chosen) -> Reader:
    """Who reads turns, by the settings."""
    return Reader(
        judge=chosen.judge,
        price=chosen.price,
        budget=chosen.ledger.budget if chosen.ledger is not None else None,
        fuse=chosen.fuse,
        flush=chosen.ledger.flush if chosen.ledger is not None else lambda: None,
        first_pass=settings.first_pass,
        free=free_judge(settings),
    )
