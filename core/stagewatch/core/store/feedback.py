"""Feedback and the flags it raises; joined to turns by trace id whenever either arrives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from stagewatch.core.model import FLAGGING_FEEDBACK, Feedback
from stagewatch.core.store.client import Store
from stagewatch.core.store.turns import turns_of_trace


def put_feedback(store: Store, item: Feedback) -> None:
    """Store one piece of feedback; a repeat with the same (source, external id) replaces it."""
    store.put(
        "feedback",
        [
            {
                "project": item.project,
                "feedback_id": item.feedback_id,
                "trace_id": item.trace_id,
                "turn_id": item.turn_id or "",
                "kind": item.kind,
                "comment": item.comment or "",
                "corrected_answer": item.corrected_answer or "",
                "source": item.source,
                "external_id": item.external_id,
                "by": item.by,
                "at": item.at,
            }
        ],
    )


def _feedback(row: dict[str, Any]) -> Feedback:
    return Feedback(
        feedback_id=row["feedback_id"],
        project=row["project"],
        trace_id=row["trace_id"],
        turn_id=row["turn_id"] or None,
        kind=row["kind"],
        comment=row["comment"] or None,
        corrected_answer=row["corrected_answer"] or None,
        source=row["source"],
        external_id=row["external_id"],
        by=row["by"],
        at=row["at"].replace(tzinfo=UTC),
    )


def feedback_of_trace(store: Store, project: str, trace_id: str) -> list[Feedback]:
    """Everything said of a trace, oldest first."""
    found = store.rows(
        """SELECT * FROM feedback FINAL
           WHERE project = {project:String} AND trace_id = {trace_id:String} ORDER BY at""",
        {"project": project, "trace_id": trace_id},
    )
    return [_feedback(row) for row in found]


def feedback_of_traces(
    store: Store, project: str, trace_ids: Sequence[str]
) -> dict[str, list[Feedback]]:
    """Everything said of each trace, oldest first; traces without any are left out."""
    if not trace_ids:
        return {}
    found = store.rows(
        """SELECT * FROM feedback FINAL WHERE project = {project:String}
           AND trace_id IN {ids:Array(String)} ORDER BY at""",
        {"project": project, "ids": sorted(set(trace_ids))},
    )
    grouped: dict[str, list[Feedback]] = {}
    for row in found:
        grouped.setdefault(row["trace_id"], []).append(_feedback(row))
    return grouped


def find_feedback(store: Store, project: str, source: str, external_id: str) -> Feedback | None:
    """The feedback with this external id, or None."""
    found = store.row(
        """SELECT * FROM feedback FINAL WHERE project = {project:String}
           AND source = {source:String} AND external_id = {external_id:String}""",
        {"project": project, "source": source, "external_id": external_id},
    )
    return _feedback(found) if found else None


@dataclass(frozen=True, slots=True)
class Flag:
    """Why a turn is in the review queue. `state` is open, accepted, rejected or promoted."""

    project: str
    turn_id: str
    reason: str
    state: str
    at: datetime
    note: str = ""
    by: str = ""


def put_flags(store: Store, flags: Sequence[Flag]) -> None:
    """Store flags; the newest row of (turn, reason) wins."""
    store.put(
        "flags",
        [
            {
                "project": flag.project,
                "turn_id": flag.turn_id,
                "reason": flag.reason,
                "state": flag.state,
                "note": flag.note,
                "by": flag.by,
                "at": flag.at,
            }
            for flag in flags
        ],
    )


def flags_of(store: Store, turn_ids: Sequence[str]) -> dict[str, list[Flag]]:
    """The flags of each turn in any state, oldest first."""
    if not turn_ids:
        return {}
    found = store.rows(
        "SELECT * FROM flags FINAL WHERE turn_id IN {ids:Array(String)} ORDER BY at",
        {"ids": list(turn_ids)},
    )
    grouped: dict[str, list[Flag]] = {}
    for row in found:
        flag = Flag(
            project=row["project"],
            turn_id=row["turn_id"],
            reason=row["reason"],
            state=row["state"],
            at=row["at"].replace(tzinfo=UTC),
            note=row["note"],
            by=row["by"],
        )
        grouped.setdefault(flag.turn_id, []).append(flag)
    return grouped


def rescore_on_demand(store: Store, *, since: datetime, limit: int = 500) -> list[str]:
    """Ids of turns with an open feedback flag newer than their last decision, oldest flag first."""
    found = store.rows(
        """SELECT turn_id, min(at) AS flagged_at FROM flags FINAL
           WHERE state = 'open' AND reason IN {reasons:Array(String)}
             AND at >= {since:DateTime64(3, 'UTC')}
             AND turn_id IN (SELECT turn_id FROM turns)
             AND (turn_id, at) NOT IN (
               SELECT f.turn_id, f.at FROM flags AS f
               INNER JOIN (SELECT turn_id, max(at) AS decided_at FROM decisions
                           WHERE outcome != 'pending' GROUP BY turn_id)
                 AS d ON d.turn_id = f.turn_id WHERE f.at <= d.decided_at)
           GROUP BY turn_id ORDER BY flagged_at LIMIT {limit:UInt32}""",
        {"reasons": sorted(FLAGGING_FEEDBACK), "since": since, "limit": limit},
    )
    return [row["turn_id"] for row in found]


def unjoined_feedback(store: Store, *, since: datetime) -> list[Feedback]:
    """Flagging feedback whose turn was unknown when it came and is known now."""
    found = store.rows(
        """SELECT * FROM feedback FINAL
           WHERE turn_id = '' AND at >= {since:DateTime64(3, 'UTC')}
             AND trace_id IN (SELECT trace_id FROM turns WHERE replaced_by = '')
           ORDER BY at""",
        {"since": since},
    )
    return [_feedback(row) for row in found]


def join_feedback(store: Store, *, since: datetime, now: datetime) -> int:
    """Give feedback that came before its trace its turn (the trace's last), and flag that turn.

    Returns how many were joined. Running it twice changes nothing.
    """
    waiting = unjoined_feedback(store, since=since)
    joined = 0
    for item in waiting:
        turns = turns_of_trace(store, item.trace_id, item.project)
        if not turns:
            continue
        turn_id = turns[-1].turn_id
        put_feedback(store, replace(item, turn_id=turn_id, at=max(now, item.at)))
        if item.kind in FLAGGING_FEEDBACK:
            put_flags(store, [Flag(item.project, turn_id, item.kind, "open", now, by=item.by)])
        joined += 1
    return joined
