"""Backfill jobs in the store: what was asked, how far it is, and whether it was cancelled.

Three documents a job, each with one writer (the API, the scorer that works on it, whoever
cancels), so that nobody overwrites what another has said.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from stagewatch.core.codec import from_json
from stagewatch.core.model import Turn
from stagewatch.core.store.client import Store
from stagewatch.core.store.documents import get_document, list_documents, put_document

JOBS = "backfills"
PROGRESS = "backfill_progress"
CANCELLED = "backfill_cancelled"


def put_job(
    store: Store, project: str, job_id: str, body: Mapping[str, Any], *, at: datetime
) -> None:
    """Store what was asked for."""
    put_document(store, JOBS, job_id, body, at=at, project=project)


def put_progress(
    store: Store, project: str, job_id: str, body: Mapping[str, Any], *, at: datetime
) -> None:
    """Store how far a job is."""
    put_document(store, PROGRESS, job_id, {**body, "job_id": job_id}, at=at, project=project)


def put_cancelled(store: Store, project: str, job_id: str, by: str, *, at: datetime) -> None:
    """Ask the scorer that works on a job to end it."""
    body = {"job_id": job_id, "by": by}
    put_document(store, CANCELLED, job_id, body, at=at, project=project)


def is_cancelled(store: Store, project: str, job_id: str) -> bool:
    """True once somebody has cancelled the job."""
    return get_document(store, CANCELLED, job_id, project=project) is not None


def get_job(store: Store, project: str, job_id: str) -> dict[str, Any] | None:
    """The job as asked for, or None."""
    return get_document(store, JOBS, job_id, project=project)


def get_progress(store: Store, project: str, job_id: str) -> dict[str, Any] | None:
    """How far a job is; None before a scorer has taken it up."""
    return get_document(store, PROGRESS, job_id, project=project)


def list_jobs(store: Store, project: str | None = None) -> list[dict[str, Any]]:
    """Every job of a project (of all without one), oldest first."""
    return list_documents(store, JOBS, project=project)


def list_progress(store: Store, project: str | None = None) -> dict[str, dict[str, Any]]:
    """Job id → how far it is."""
    return {body["job_id"]: body for body in list_documents(store, PROGRESS, project=project)}


def turns_between(
    store: Store,
    project: str,
    since: datetime,
    until: datetime,
    *,
    after: tuple[datetime, str] | None,
    limit: int,
) -> list[tuple[Turn, int]]:
    """(turn, revision) of turns started in [since, until) behind the mark `after`, oldest first."""
    at, turn_id = after or (since, "")
    found = store.rows(
        """SELECT body, revision FROM turns FINAL
           WHERE project = {project:String} AND replaced_by = ''
             AND started_at >= {since:DateTime64(6, 'UTC')}
             AND started_at < {until:DateTime64(6, 'UTC')}
             AND started_at >= {at:DateTime64(6, 'UTC')}
             AND (started_at, turn_id) > ({at:DateTime64(6, 'UTC')}, {turn:String})
           ORDER BY started_at, turn_id LIMIT {limit:UInt32}""",
        {
            "project": project, "since": since, "until": until, "at": at, "turn": turn_id,
            "limit": limit,
        },
    )  # fmt: skip
    return [(from_json(Turn, row["body"]), int(row["revision"])) for row in found]


def restate(store: Store, turns: Mapping[str, int], fingerprint: str, *, at: datetime) -> None:
    """Give stored scores of a judge (turn id → revision) inclusion 1: their whole range is read.

    The rows are copied with a newer time; values, reasons and thresholds stay as they are.
    """
    found = store.rows(
        """SELECT * FROM scores FINAL WHERE turn_id IN {ids:Array(String)}
             AND (fingerprint = {fingerprint:String} OR basis = 'rule')
             AND (inclusion IS NULL OR inclusion != 1 OR stratum != 'uniform')
             AND stratum != 'first_pass'""",
        {"ids": list(turns), "fingerprint": fingerprint},
    )
    moved = []
    for row in found:
        newer = max(at, row["at"].replace(tzinfo=UTC))
        started = row["started_at"].replace(tzinfo=UTC)
        moved.append(
            {**row, "started_at": started, "inclusion": 1.0, "stratum": "uniform", "at": newer}
        )
    store.put("scores", moved)
    store.command(
        """INSERT INTO diagnoses SELECT * REPLACE (1.0 AS inclusion,
             greatest(at, {at:DateTime64(3, 'UTC')}) AS at)
           FROM diagnoses FINAL WHERE turn_id IN {ids:Array(String)}
             AND fingerprint = {fingerprint:String} AND (inclusion IS NULL OR inclusion != 1)""",
        {"ids": list(turns), "fingerprint": fingerprint, "at": at},
    )
