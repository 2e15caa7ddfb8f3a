"""Turns that were drawn and not read because a budget was spent."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime

from stagewatch.core.store.client import Store

_MOST = 200_000


@dataclass(frozen=True, slots=True)
class Leftover:
    """A turn that a rule drew and no budget was left for; `day` is the UTC day it started on."""

    project: str
    rule: str
    day: date
    turn_id: str


def leftover_turns(store: Store, *, since: datetime, until: datetime) -> list[Leftover]:
    """Turns started in [since, until) whose decision is `over_budget`, oldest day first."""
    found = store.rows(
        """SELECT project, rule, toDate(started_at) AS day, turn_id FROM decisions FINAL
           WHERE started_at >= {since:DateTime64(6, 'UTC')}
             AND started_at < {until:DateTime64(6, 'UTC')} AND outcome = 'over_budget'
           ORDER BY day, project, rule, turn_id LIMIT {limit:UInt32}""",
        {"since": since, "until": until, "limit": _MOST},
    )
    return [Leftover(row["project"], row["rule"], row["day"], row["turn_id"]) for row in found]
