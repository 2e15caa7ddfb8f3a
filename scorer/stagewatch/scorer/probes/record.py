"""What is kept of a pass, and whether the next one is due."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from stagewatch.core.codec import from_plain, to_plain
from stagewatch.core.store.client import Store
from stagewatch.core.store.probes import list_passes, pass_silence, put_pass, put_pass_beat
from stagewatch.scorer.leases import ALIVE_SECONDS
from stagewatch.scorer.probes.probe import Probe

BLOCKED = "blocked"
"""State of a pass that could not begin; its note says why."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass. `state` is `running`, `finished`, `stopped` or `blocked`; `counts` has rows by
    verdict, `calls` how often the app was asked, `note` why it ended early or left rows out.
    `owner` is the process that carries it out; `redo` says that its process died and that the
    next pass need not wait for its time.
    """

    pass_id: str
    probe: str
    project: str
    dataset: str
    version: int | None
    state: str
    started_at: datetime
    updated_at: datetime
    rows: int
    done: int = 0
    calls: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    note: str = ""
    by: str = ""
    ended_at: datetime | None = None
    owner: str = ""
    redo: bool = False


def read_pass(body: Mapping[str, Any]) -> Pass:
    """A pass from its stored body."""
    return from_plain(Pass, dict(body))


def passes_of(store: Store, project: str, probe: str, limit: int = 50) -> list[Pass]:
    """The newest passes of a probe, newest first."""
    return [read_pass(body) for body in list_passes(store, project, probe, limit)]


def is_alive(store: Store, item: Pass, me: str) -> bool:
    """Whether a pass is under way, here (`me` carries it out) or in another process.

    It is while it beats, as a scorer is. The embedded engine belongs to one process, so there a
    pass of another owner is a dead one's, however lately it beat.
    """
    if item.state != "running" or (store.embedded and item.owner != me):
        return False
    silent_s = pass_silence(store, item.project, item.probe, item.pass_id)
    return silent_s is not None and silent_s <= ALIVE_SECONDS


def settled_pass(store: Store, project: str, probe: str, me: str, now: datetime) -> Pass | None:
    """The newest pass of a probe; one whose process died is given its end first.

    The pass after it is due at once, unless the one before it had died too: a probe that kills
    its process must not do so over and over.
    """
    newest, *before = [*passes_of(store, project, probe, 2), None]
    if newest is None or newest.state != "running" or is_alive(store, newest, me):
        return newest
    previous = before[0]
    ended = replace(
        newest, state="stopped", ended_at=newest.updated_at,
        redo=previous is None or not previous.redo,
        note="; ".join(part for part in (newest.note, "its process ended before it did") if part),
    )  # fmt: skip
    # The row is newer than the last one of the dead process, whatever the clocks say.
    tell_pass(store, ended, max(now, newest.updated_at + timedelta(microseconds=1)))
    return ended


def is_due(probe: Probe, newest: Pass | None, now: datetime) -> bool:
    """Whether it is time for the next pass; `newest` as `settled_pass` has it."""
    if not probe.enabled:
        return False
    if newest is None or newest.redo:
        return True
    last = newest.updated_at if newest.state == BLOCKED else newest.started_at
    over = now - last >= timedelta(minutes=probe.every_minutes)
    return newest.state != "running" and over


def tell_pass(store: Store, item: Pass, now: datetime) -> None:
    """Store how far a pass is."""
    put_pass(store, item.project, to_plain(replace(item, updated_at=now)), at=now)


def beat_pass(store: Store, item: Pass) -> None:
    """Say that a pass is under way, so that nobody takes it over."""
    put_pass_beat(store, item.project, item.probe, item.pass_id)
