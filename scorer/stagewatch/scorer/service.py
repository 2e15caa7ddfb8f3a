"""The scorer as a service: a scheduled pass, woken early when something waits."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from apscheduler.schedulers.background import BackgroundScheduler
from prometheus_client import CollectorRegistry, Counter, Gauge

from stagewatch.core.errors import StagewatchError, StoreUnavailableError
from stagewatch.core.service import Context, Service
from stagewatch.core.settings import Settings
from stagewatch.scorer.judges.choose import Chosen, choose
from stagewatch.scorer.watch import watch_once
from stagewatch.scorer.work import PassReport, Rules, Worker

log = logging.getLogger("stagewatch.scorer")
# A pass that outlasts its interval is normal under load, and the lag metric shows it.
logging.getLogger("apscheduler").setLevel(logging.ERROR)

WAKE = "wake_scorer"
"""Name of the `threading.Event` in `Context.shared` that starts a pass at once."""

_JOB = "score"
_WATCH_SECONDS = 10.0
_WATCH_DUTY = 20
_FIRST_LOOKBACK = timedelta(hours=24)


def build(context: Context) -> Service:
    """The scorer on this context; nothing runs before `start`."""
    return Scorer(context)


class _Meters:
    """What the metrics endpoint shows of the scorer."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.turns = Counter(
            "stagewatch_scorer_turns", "Turns decided, by outcome.", ["outcome"], registry=registry
        )
        self.errors = Counter(
            "stagewatch_scorer_errors", "Errors while scoring, by kind.", ["kind"],
            registry=registry,
        )  # fmt: skip
        self.heartbeat = Gauge(
            "stagewatch_scorer_heartbeat_timestamp_seconds", "When the last pass ended.",
            registry=registry,
        )  # fmt: skip
        self.lag = Gauge(
            "stagewatch_scorer_lag_seconds", "Age of the oldest undecided turn at the last pass.",
            registry=registry,
        )  # fmt: skip
        self.rate = Gauge(
            "stagewatch_scorer_turns_per_second", "Turns decided a second in the last busy pass.",
            registry=registry,
        )  # fmt: skip

    def note(self, report: PassReport, seconds: float, now: datetime) -> None:
        """Add one pass."""
        for outcome, count in report.outcomes.items():
            self.turns.labels(outcome).inc(count)
        for kind, count in report.errors.items():
            self.errors.labels(kind).inc(count)
        self.heartbeat.set(now.timestamp())
        self.lag.set(report.lag_s)
        if report.turns:
            self.rate.set(report.turns / max(seconds, 1e-6))


class Scorer:
    """Takes finished turns from the store and scores them; see `work` for one pass."""

    name = "scorer"

    def __init__(self, context: Context) -> None:
        self._context = context
        self._clock = context.clock
        self._meters = _Meters(context.registry)
        chosen = choose(context.settings, context.store, context.clock)
        self._judge = chosen.judge
        rules = _rules(context.settings, chosen)
        self._worker = Worker(context.store, chosen.judge, context.clock, rules)
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
        self._scheduler.start()
        self._waker = threading.Thread(target=self._listen, name="scorer-wake", daemon=True)
        self._waker.start()
        self._context.health[self.name] = self.health
        return {"scorer": f"judge {self._judge.name}, every {every:g} s"}

    async def stop(self, grace_s: float) -> str | None:
        """Let the pass in hand store what it has; the turns left wait for the next start."""
        self._stopping.set()
        self._wake.set()
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)
        ended = await asyncio.to_thread(self._running.acquire, True, max(0.0, grace_s))
        if ended:
            self._running.release()
            return None
        return "the scorer was still waiting for its judge; the turns in hand will be scored again"

    def run_once(self) -> PassReport | None:
        """One pass now, in the calling thread; None when the store could not be reached."""
        if self._stopping.is_set():
            return None
        with self._running:
            began = time.monotonic()
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
            self._last_error = ""
            self._last_end = self._clock.now()
            self._meters.note(report, time.monotonic() - began, self._last_end)
            return report

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

    def health(self) -> dict[str, Any]:
        """Whether passes end in time, for the health page."""
        every = self._context.settings.score_every_seconds
        end = self._last_end
        age = None if end is None else (self._clock.now() - end).total_seconds()
        late = age is not None and age > 3 * every + 60
        says = "starting" if age is None else f"last pass ended {age:.0f} s ago"
        if self._last_error:
            says += f"; the last one failed ({self._last_error})"
        return {"ok": not late and not self._last_error, "says": says, "judge": self._judge.name}

    def _listen(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait()
            self._wake.clear()
            if self._stopping.is_set():
                return
            job = self._scheduler.get_job(_JOB)
            if job is not None:
                job.modify(next_run_time=datetime.now(UTC))


def _rules(settings: Settings, chosen: Chosen) -> Rules:
    lookback = max(_FIRST_LOOKBACK, timedelta(hours=2 * settings.reopen_hours))
    rules = Rules(rate=settings.sample_rate, lookback=lookback, threads=chosen.threads)
    if chosen.ledger is None:
        return rules
    return replace(rules, over_budget=chosen.ledger.over_budget)
