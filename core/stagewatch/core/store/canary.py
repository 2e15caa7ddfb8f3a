"""Readings of the canary set, and which judges have spoken."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from stagewatch.core.codec import to_text
from stagewatch.core.store.client import Store
from stagewatch.core.store.scores import FIRST_PASS


def put_canary_run(store: Store, body: Mapping[str, Any], *, at: datetime) -> None:
    """Store a run; `body` has `fingerprint`, `canary`, `run_id` and `started_at`."""
    store.put(
        "canary_runs",
        [
            {
                "fingerprint": body["fingerprint"],
                "canary": body["canary"],
                "run_id": body["run_id"],
                "started_at": body["started_at"],
                "body": to_text(body),
                "at": at,
            }
        ],
    )


def canary_runs(
    store: Store, fingerprint: str, canary: str, limit: int = 1000
) -> list[dict[str, Any]]:
    """The newest runs of a judge over a set, oldest first."""
    found = store.rows(
        """SELECT body FROM canary_runs FINAL
           WHERE fingerprint = {fingerprint:String} AND canary = {canary:String}
           ORDER BY started_at DESC, run_id LIMIT {limit:UInt32}""",
        {"fingerprint": fingerprint, "canary": canary, "limit": limit},
    )
    return [orjson.loads(row["body"]) for row in found[::-1]]


def judges_seen(store: Store, project: str) -> list[dict[str, Any]]:
    """Every judge whose scores a project has: name, fingerprint, scores, first and last time. Those
    with the last word come first, before a free judge's first pass, each the latest first.
    """
    found = store.rows(
        """SELECT judge, fingerprint, uniq(turn_id) AS turns, min(at) AS first_at,
                  max(at) AS last_at
           FROM scores WHERE project = {project:String} AND judge != ''
           GROUP BY judge, fingerprint
           ORDER BY min(stratum = {first:String}), last_at DESC LIMIT 50""",
        {"project": project, "first": FIRST_PASS},
    )
    return [
        {
            **row,
            "first_at": row["first_at"].replace(tzinfo=UTC),
            "last_at": row["last_at"].replace(tzinfo=UTC),
        }
        for row in found
    ]


def projects_judged_by(store: Store, fingerprint: str, since: datetime) -> list[str]:
    """Projects that have scores of this judge of turns started since then."""
    rows = store.rows(
        """SELECT DISTINCT project FROM scores WHERE fingerprint = {fingerprint:String}
             AND started_at >= {since:DateTime64(6, 'UTC')} ORDER BY project""",
        {"fingerprint": fingerprint, "since": since},
    )
    return [row["project"] for row in rows]


def canary_times(
    store: Store, fingerprint: str, canary: str | None = None
) -> tuple[datetime | None, datetime | None]:
    """(when this judge read the set last, when it scored its first turn); None for never. Without
    `canary` a reading of any set counts.
    """
    last = store.value(
        """SELECT maxOrNull(started_at) FROM canary_runs
           WHERE fingerprint = {fingerprint:String}
             AND ({canary:String} = '' OR canary = {canary:String})""",
        {"fingerprint": fingerprint, "canary": canary or ""},
    )
    first = store.value(
        "SELECT minOrNull(at) FROM scores WHERE fingerprint = {fingerprint:String}",
        {"fingerprint": fingerprint},
    )
    return (
        last.replace(tzinfo=UTC) if last is not None else None,
        first.replace(tzinfo=UTC) if first is not None else None,
    )
