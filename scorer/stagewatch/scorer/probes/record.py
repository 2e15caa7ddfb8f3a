"""What is kept of a pass, and whether the next one is due."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from stagewatch.core.codec import from_plain, to_plain
from stagewatch.core.store.client import Store
from stagewatch.core.store.probes import list_passes, put_pass
from stagewatch.scorer.probes.probe import Probe

DEAD_AFTER = timedelta(minutes=2)
"""A running pass that has said nothing for so long was cut short by a crash."""

BLOCKED = "blocked"
"""State of a pass that could not begin; its note says why."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass. `state` is `running`, `finished`, `stopped` or `blocked`; `counts` has rows by
    verdict, `calls` how often the app was asked, `note` why it ended early or left rows out.
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


def read_pass(body: Mapping[str, Any]) -> Pass:
    """A pass from its stored body."""
    return from_plain(Pass, dict(body))


def passes_of(store: Store, project: str, probe: str, limit: int = 50) -> list[Pass]:
    """The newest passes of a probe, newest first."""
    return [read_pass(body) for body in list_passes(store, project, probe, limit)]


def is_alive(item: Pass, now: datetime) -> bool:
    """Whether a pass is under way somewhere, as far as the store tells."""
    return item.state == "running" and now - item.updated_at < DEAD_AFTER


def is_due(probe: Probe, newest: Pass | None, now: datetime) -> bool:
    """Whether it is time for the next pass."""
    if not probe.enabled:
        return False
    if newest is None:
        return True
    last = newest.updated_at if newest.state == BLOCKED else newest.started_at
    return not is_alive(newest, now) and now - last >= timedelta(minutes=probe.every_minutes)


def tell_pass(store: Store, item: Pass, now: datetime) -> None:
    """Store how far a pass is."""
    put_pass(store, item.project, to_plain(replace(item, updated_at=now)), at=now)
