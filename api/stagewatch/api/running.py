"""Runs that this server carries out: a thread each, few at a time, stopped with the server.

A run that the server leaves behind is in the store with the rows it has; it can be resumed.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from dataclasses import dataclass, field, replace

from stagewatch.core.errors import OverloadedError, StagewatchError
from stagewatch.core.service import Context
from stagewatch.core.store.client import Store
from stagewatch.scorer.plans.launch import Launch, store_start
from stagewatch.scorer.plans.run import Progress, run_plan

log = logging.getLogger("stagewatch.api")

MAX_AT_ONCE = 2
"""Each run asks its app with the plan's own concurrency; more of them would only wait."""


@dataclass(slots=True)
class _Live:
    thread: threading.Thread
    stop: threading.Event
    progress: Progress


@dataclass(slots=True)
class RunDesk:
    """Starts runs and knows how far they are; safe from several threads."""

    _live: dict[str, _Live] = field(default_factory=dict)
    # Guards `_live`: requests start and look at runs while these end.
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _closed: bool = False

    def start(self, store: Store, launch: Launch, *, retry_errored: bool = False) -> None:
        """Store the start of a run and carry it out in a thread.

        Raises:
            OverloadedError: as many runs as allowed are under way, or the server is stopping.
        """
        run_id = launch.run.run_id
        stop = threading.Event()
        thread = threading.Thread(
            target=self._carry_out, args=(store, launch, stop, retry_errored),
            name=f"run-{run_id}", daemon=True,
        )  # fmt: skip
        with self._lock:
            if self._closed or len(self._live) >= MAX_AT_ONCE or run_id in self._live:
                raise OverloadedError(f"{MAX_AT_ONCE} runs are under way: try again later", 30)
            self._live[run_id] = _Live(thread, stop, Progress(0, launch.run.rows, {}))
        try:
            store_start(store, launch)
        except StagewatchError:
            self._forget(run_id)
            raise
        thread.start()

    def _carry_out(
        self,
        store: Store,
        launch: Launch,
        stop: threading.Event,
        retry_errored: bool,  # noqa: FBT001
    ) -> None:
        run_id = launch.run.run_id

        def told(progress: Progress) -> None:
            self._live[run_id].progress = progress

        try:
            run_plan(
                store, launch.run, launch.bench, launch.rows,
                progress=told, stop=stop, retry_errored=retry_errored,
            )  # fmt: skip
        except Exception as error:  # noqa: BLE001 - the last edge of the thread
            kind = type(error).__name__
            log.error("a run ended early", extra={"run": run_id, "kind": kind})
            with contextlib.suppress(StagewatchError):
                failed = replace(launch.run, state="failed", note=f"ended early: {kind}")
                store_start(store, replace(launch, run=failed))
        finally:
            self._forget(run_id)

    def _forget(self, run_id: str) -> None:
        with self._lock:
            self._live.pop(run_id, None)

    def progress(self, run_id: str) -> Progress | None:
        """How far a run is that this server carries out; None for any other."""
        found = self._live.get(run_id)
        return found.progress if found else None

    def stop(self, run_id: str) -> bool:
        """Stop a run after the rows under way; False when it does not run here."""
        found = self._live.get(run_id)
        if found is not None:
            found.stop.set()
        return found is not None

    def close(self, grace_s: float) -> None:
        """Stop every run and wait up to `grace_s` seconds for the rows under way."""
        with self._lock:
            self._closed = True
            live = list(self._live.values())
        for item in live:
            item.stop.set()
        for item in live:
            if item.thread.is_alive():
                item.thread.join(grace_s / max(1, len(live)))


def desk_of(context: Context) -> RunDesk:
    """The one desk of this process."""
    desk = context.shared.setdefault("runs", RunDesk())
    if not isinstance(desk, RunDesk):
        raise TypeError("context.shared['runs'] is not the run desk")
    return desk
