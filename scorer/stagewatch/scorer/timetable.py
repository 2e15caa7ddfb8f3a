"""What the scorer does beside scoring, each on a thread of its own so that a slow peer holds up
nothing else: telling channels, noticing that turns stopped coming,
starting probes,
having the judge read its frozen set.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from apscheduler.events import EVENT_SCHEDULER_SHUTDOWN
from apscheduler.executors.pool import ThreadPoolExecutor as Pool
from prometheus_client import Counter

from stagewatch.core.errors import StagewatchError
from stagewatch.core.service import Context
from stagewatch.core.store.alerts import list_alerts
from stagewatch.core.store.canary import canary_times, projects_judged_by
from stagewatch.scorer.canary.items import current_set
from stagewatch.scorer.canary.reading import fresh_judge
from stagewatch.scorer.canary.watch import is_due, run_canary
from stagewatch.scorer.channels.deliver import notify_pass, open_office
from stagewatch.scorer.probes.desk import ProbeDesk, desk_of
from stagewatch.scorer.watch import watch_silence

log = logging.getLogger("stagewatch.scorer")

NOTIFY_SECONDS = 5.0
SILENCE_SECONDS = 60.0
PROBE_SECONDS = 3.0
CANARY_SECONDS = 10.0
_CLOSE_S = 3.0
_RECENT = timedelta(days=2)
_CANARY_REST_S = 600.0


def add_jobs(scheduler: Any, context: Context, stopping: Callable[[], bool]) -> None:  # noqa: ANN401 - apscheduler has no types
    """Add the jobs to a scheduler that has not started; they do nothing while `stopping` says so.

    Raises:
        SettingsError: what channels may reach cannot be read.
    """
    _add(scheduler, "notify", NOTIFY_SECONDS, _notifier(context, stopping), stopping)
    _add(scheduler, "silence", SILENCE_SECONDS, _listener(context), stopping)
    _add(scheduler, "canary", CANARY_SECONDS, _canary(context, stopping), stopping)
    desk = desk_of(context)
    _add(scheduler, "probes", PROBE_SECONDS, lambda: _start_due(desk), stopping)
    scheduler.add_listener(lambda _: desk.close(_CLOSE_S), EVENT_SCHEDULER_SHUTDOWN)


def _start_due(desk: ProbeDesk) -> None:
    desk.start_due()


def _add(
    scheduler: Any,  # noqa: ANN401
    name: str,
    seconds: float,
    work: Callable[[], None],
    stopping: Callable[[], bool],
) -> None:
    def guarded() -> None:
        try:
            if not stopping():
                work()
        except StagewatchError as error:
            if stopping():
                # The store is closed under a job that was in the middle of something.
                return
            log.warning("%s failed; it is tried again", name, extra={"error": str(error)})

    scheduler.add_executor(Pool(1), alias=name)
    scheduler.add_job(
        guarded, "interval", seconds=seconds, id=name, executor=name, coalesce=True,
        max_instances=1, misfire_grace_time=None, next_run_time=datetime.now(UTC),
    )  # fmt: skip


def _notifier(context: Context, stopping: Callable[[], bool]) -> Callable[[], None]:
    office = open_office(context.store, context.clock, context.settings, os.environ)
    sent = Counter(
        "stagewatch_scorer_messages", "Tries to send a message to a channel, by what became of it.",
        ["state"], registry=context.registry,
    )  # fmt: skip

    def work() -> None:
        for state, count in notify_pass(office, stopping).items():
            sent.labels(state).inc(count)

    return work


def _listener(context: Context) -> Callable[[], None]:
    def work() -> None:
        opened = watch_silence(context.store, context.clock.now())
        if opened:
            log.warning("projects stopped sending", extra={"alerts": opened})

    return work


def _canary(context: Context, stopping: Callable[[], bool]) -> Callable[[], None]:
    store, settings, clock = context.store, context.settings, context.clock
    every = timedelta(hours=settings.canary_hours)
    rest_until, fingerprint = 0.0, ""

    def work() -> None:
        nonlocal rest_until, fingerprint
        if not every or clock.monotonic() < rest_until:
            return
        fingerprint = fingerprint or fresh_judge(settings, store, clock).judge.fingerprint
        last, first = canary_times(store, fingerprint, current_set(store).name)
        if is_due(last, first, clock.now(), every, asked=_is_awaited(context, fingerprint)):
            run = run_canary(store, settings, clock, stopping)
            if not run.complete:
                rest_until = clock.monotonic() + _CANARY_REST_S
            if run.moved:
                log.warning("the judge moved", extra={"kinds": [m.kind for m in run.moved]})

    return work


def _is_awaited(context: Context, fingerprint: str) -> bool:
    """Whether an alert waits to know if this judge moved."""
    now = context.clock.now()
    since = now - _RECENT
    return any(
        alert.get("awaits_canary") and alert["fingerprint"] == fingerprint
        for project in projects_judged_by(context.store, fingerprint, since)
        for alert in list_alerts(context.store, project, now)
    )
