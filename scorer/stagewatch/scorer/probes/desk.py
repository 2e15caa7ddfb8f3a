"""Passes that this process carries out: a thread each, one a probe, few at a time."""

from __future__ import annotations

import logging
import os
import secrets
import threading
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime

from stagewatch.core.errors import ConflictError, OverloadedError, StagewatchError
from stagewatch.core.service import Context
from stagewatch.scorer.leases import new_member
from stagewatch.scorer.probes.passes import (
    Surroundings,
    check_ready,
    need_nobody,
    put_blocked,
    run_pass,
)
from stagewatch.scorer.probes.probe import Probe, all_probes
from stagewatch.scorer.probes.record import is_due, settled_pass
from stagewatch.scorer.probes.watch import watch_probe

log = logging.getLogger("stagewatch.scorer.probes")

MAX_AT_ONCE = 12
"""Each pass asks its app with the connector's own concurrency."""

MAX_OF_PROJECT = 3
"""One project with slow apps must not hold up the probes of the others."""

_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


def surroundings(context: Context) -> Surroundings:
    """What passes of a server run with: plans and probes read the same variables."""
    names = {name.strip() for name in context.settings.plan_env.split(",") if name.strip()}
    return Surroundings(
        context.store, context.settings, context.clock, os.environ,
        new_id=lambda: secrets.token_hex(16), allowed_env=names, local=False,
        owner=str(context.shared.setdefault("probe_owner", new_member())),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Live:
    thread: threading.Thread
    stop: threading.Event


@dataclass(slots=True)
class ProbeDesk:
    """Starts passes and knows which are under way here; safe from several threads."""

    around: Surroundings
    _live: dict[tuple[str, str], _Live] = field(default_factory=dict)
    # Guards `_live` and `_closed`: the schedule and requests start passes while others end.
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _closed: bool = False

    def start(self, project: str, probe: Probe, *, by: str = "") -> str:
        """Carry out a pass in a thread; its id.

        Raises:
            ConflictError: one of this probe is under way, here or elsewhere.
            OverloadedError: as many passes as allowed are under way, or the process is stopping.
            NotFoundError, InvalidInputError: as `check_ready`.
        """
        need_nobody(self.around, project, probe)
        check_ready(self.around, project, probe)
        key, pass_id, stop = (project, probe.name), self.around.new_id()[:16], threading.Event()
        thread = threading.Thread(
            target=self._carry_out, args=(key, probe, by, pass_id, stop),
            name=f"probe-{probe.name}", daemon=True,
        )  # fmt: skip
        with self._lock:
            if key in self._live:
                raise ConflictError(f"a pass of probe {probe.name!r} is under way")
            if self._closed or not self._has_room(project):
                raise OverloadedError(
                    f"{MAX_OF_PROJECT} passes of a project and {MAX_AT_ONCE} in all run at once: "
                    "try again later",
                    30,
                )
            self._live[key] = _Live(thread, stop)
        thread.start()
        return pass_id

    def _has_room(self, project: str) -> bool:
        of_project = sum(key[0] == project for key in self._live)
        return len(self._live) < MAX_AT_ONCE and of_project < MAX_OF_PROJECT

    def _carry_out(
        self, key: tuple[str, str], probe: Probe, by: str, pass_id: str, stop: threading.Event
    ) -> None:
        ended = False
        try:
            run_pass(self.around, key[0], probe, by=by, stop=stop, pass_id=pass_id)
            ended = True
        except ConflictError:
            log.info("a probe's pass is under way elsewhere", extra={"probe": probe.name})
        except StagewatchError as error:
            self._block(key[0], probe, str(error), by=by, pass_id=pass_id)
        except Exception as error:  # noqa: BLE001 - the last edge of the thread
            log.error(
                "a probe's pass ended early",
                extra={"probe": probe.name, "kind": type(error).__name__},
            )
        finally:
            with self._lock:
                self._live.pop(key, None)
        if ended and not self._closed:
            self._watch(key[0], probe)

    def _watch(self, project: str, probe: Probe) -> None:
        try:
            opened = watch_probe(self.around.store, project, probe.name, self.around.clock.now())
        except StagewatchError as error:
            # The next pass looks again, at everything.
            log.warning(
                "looking for drift failed", extra={"probe": probe.name, "error": str(error)}
            )
            return
        if opened:
            log.warning("alerts opened", extra={"probe": probe.name, "alerts": opened})

    def _block(self, project: str, probe: Probe, why: str, *, by: str, pass_id: str) -> None:
        try:
            is_news = put_blocked(self.around, project, probe, why, pass_id=pass_id, by=by)
        except StagewatchError as error:
            log.warning(
                "a probe's pass could not be stored",
                extra={"probe": probe.name, "kind": type(error).__name__},
            )
            return
        if is_news:
            log.warning("a probe cannot run", extra={"probe": probe.name, "error": why})

    def start_due(self) -> int:
        """Start every pass whose time has come; how many were started.

        Projects with the fewest passes under way come first, then who waited longest.
        """
        waiting = self._waiting()
        started = 0
        with self._lock:
            busy = Counter(project for project, _ in self._live)
        while waiting:
            waiting.sort(key=lambda item: (busy[item[0]], item[2]))
            project, probe, _ = waiting.pop(0)
            try:
                self.start(project, probe)
                started += 1
                busy[project] += 1
            except (ConflictError, OverloadedError):
                continue
            except StagewatchError as error:
                self._block(project, probe, str(error), by="", pass_id=self.around.new_id()[:16])
        return started

    def _waiting(self) -> list[tuple[str, Probe, datetime]]:
        """(project, probe, begin of its last pass) of those whose time has come."""
        found = []
        for project, probe in all_probes(self.around.store):
            if self.running(project, probe.name):
                # However long the store was away: this process is not dead.
                continue
            now = self.around.clock.now()
            newest = settled_pass(self.around.store, project, probe.name, self.around.owner, now)
            if is_due(probe, newest, now):
                found.append((project, probe, newest.started_at if newest else _NEVER))
        return found

    def running(self, project: str, probe: str) -> bool:
        """Whether this process is carrying out a pass of the probe."""
        return (project, probe) in self._live

    def cancel(self, project: str, probe: str) -> None:
        """Tell the pass of a probe to stop, when it is under way here."""
        with self._lock:
            live = self._live.get((project, probe))
        if live is not None:
            live.stop.set()

    def close(self, grace_s: float) -> None:
        """Stop every pass and wait up to `grace_s` seconds for what they write at their end."""
        with self._lock:
            self._closed = True
            live = list(self._live.values())
        for item in live:
            item.stop.set()
        for item in live:
            item.thread.join(grace_s / len(live))


def desk_of(context: Context) -> ProbeDesk:
    """The one desk of this process."""
    desk = context.shared.setdefault("probe_desk", ProbeDesk(surroundings(context)))
    if not isinstance(desk, ProbeDesk):
        raise TypeError("context.shared['probe_desk'] is not the probe desk")
    return desk
