"""Passes that this process carries out: a thread each, one a probe, few at a time."""

from __future__ import annotations

import logging
import os
import secrets
import threading
from dataclasses import dataclass, field

from stagewatch.core.errors import ConflictError, OverloadedError, StagewatchError
from stagewatch.core.service import Context
from stagewatch.scorer.probes.passes import (
    Surroundings,
    is_alive,
    is_due,
    passes_of,
    rows_for,
    run_pass,
)
from stagewatch.scorer.probes.probe import Probe, all_probes

log = logging.getLogger("stagewatch.scorer.probes")

MAX_AT_ONCE = 4
"""Each pass asks its app with the connector's own concurrency."""


def surroundings(context: Context) -> Surroundings:
    """What passes of a server run with: plans and probes read the same variables."""
    names = {name.strip() for name in context.settings.plan_env.split(",") if name.strip()}
    return Surroundings(
        context.store, context.settings, context.clock, os.environ,
        new_id=lambda: secrets.token_hex(16), allowed_env=names, local=False,
    )  # fmt: skip


@dataclass(slots=True)
class ProbeDesk:
    """Starts passes and knows which are under way here; safe from several threads."""

    around: Surroundings
    _live: dict[tuple[str, str], threading.Thread] = field(default_factory=dict)
    # Guards `_live`: the schedule and requests start passes while others end.
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)

    def start(self, project: str, probe: Probe, *, by: str = "") -> None:
        """Carry out a pass in a thread.

        Raises:
            ConflictError: one of this probe is under way, here or elsewhere.
            OverloadedError: as many passes as allowed are under way, or the process is stopping.
            NotFoundError, InvalidInputError: as `rows_for`.
        """
        newest = passes_of(self.around.store, project, probe.name, 1)
        if newest and is_alive(newest[0], self.around.clock.now()):
            raise ConflictError(f"a pass of probe {probe.name!r} is under way")
        rows_for(self.around.store, project, probe)
        key = (project, probe.name)
        thread = threading.Thread(
            target=self._carry_out, args=(key, probe, by), name=f"probe-{probe.name}", daemon=True
        )
        with self._lock:
            if key in self._live:
                raise ConflictError(f"a pass of probe {probe.name!r} is under way")
            if self._stop.is_set() or len(self._live) >= MAX_AT_ONCE:
                raise OverloadedError(f"{MAX_AT_ONCE} passes are under way: try again later", 30)
            self._live[key] = thread
        thread.start()

    def _carry_out(self, key: tuple[str, str], probe: Probe, by: str) -> None:
        try:
            run_pass(self.around, key[0], probe, by=by, stop=self._stop)
        except StagewatchError as error:
            log.warning(
                "a probe's pass did not run", extra={"probe": probe.name, "error": str(error)}
            )
        except Exception as error:  # noqa: BLE001 - the last edge of the thread
            log.error(
                "a probe's pass ended early",
                extra={"probe": probe.name, "kind": type(error).__name__},
            )
        finally:
            with self._lock:
                self._live.pop(key, None)

    def start_due(self) -> int:
        """Start every pass whose time has come; how many were started."""
        store, started = self.around.store, 0
        for project, probe in all_probes(store):
            newest = passes_of(store, project, probe.name, 1)
            if not is_due(probe, newest[0] if newest else None, self.around.clock.now()):
                continue
            try:
                self.start(project, probe)
                started += 1
            except (ConflictError, OverloadedError):
                continue
            except StagewatchError as error:
                log.warning("a probe cannot run", extra={"probe": probe.name, "error": str(error)})
        return started

    def running(self, project: str, probe: str) -> bool:
        """Whether this process is carrying out a pass of the probe."""
        return (project, probe) in self._live

    def close(self, grace_s: float) -> None:
        """Stop every pass and wait up to `grace_s` seconds for the rows under way."""
        self._stop.set()
        with self._lock:
            live = list(self._live.values())
        for thread in live:
            thread.join(grace_s / len(live))


def desk_of(context: Context) -> ProbeDesk:
    """The one desk of this process."""
    desk = context.shared.setdefault("probe_desk", ProbeDesk(surroundings(context)))
    if not isinstance(desk, ProbeDesk):
        raise TypeError("context.shared['probe_desk'] is not the probe desk")
    return desk
