"""What probes found: passes, rows and scores; and which traces they caused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from stagewatch.core.codec import to_text
from stagewatch.core.model import Score
from stagewatch.core.store.client import Store
from stagewatch.core.store.scores import Reading, reading_of

_DIMENSIONS = ("release", "index_version", "prompt_version")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedRow:
    """One row of a pass as stored. `calls` is how often the app was asked for it."""

    row_id: str
    asked_at: datetime
    calls: int
    verdict: str
    body: str
    scores: tuple[Score, ...] = ()
    version: int = 0
    dimensions: Mapping[str, str]


def put_pass(store: Store, project: str, body: Mapping[str, Any], *, at: datetime) -> None:
    """Store how far a pass is; `body` has `pass_id`, `probe`, `started_at` and `state`."""
    store.put(
        "probe_passes",
        [
            {
                "project": project,
                "probe": body["probe"],
                "pass_id": body["pass_id"],
                "started_at": body["started_at"],
                "state": body["state"],
                "body": to_text(body),
                "at": at,
            }
        ],
    )


def put_pass_beat(store: Store, project: str, probe: str, pass_id: str) -> None:
    """Say that a pass is being carried out now."""
    store.put("probe_beats", [{"project": project, "probe": probe, "pass_id": pass_id}])


def pass_silence(store: Store, project: str, probe: str, pass_id: str) -> float | None:
    """Seconds since the last beat of a pass, by the store's clock; None when it never had one."""
    found = store.row(
        """SELECT dateDiff('millisecond', max(beat), now64(3)) / 1000 AS age FROM probe_beats
           WHERE project = {project:String} AND probe = {probe:String}
             AND pass_id = {pass:String} HAVING count() > 0""",
        {"project": project, "probe": probe, "pass": pass_id},
    )
    return float(found["age"]) if found else None


def list_passes(store: Store, project: str, probe: str, limit: int = 50) -> list[dict[str, Any]]:
    """The newest passes of a probe, newest first."""
    found = store.rows(
        """SELECT body FROM probe_passes FINAL
           WHERE project = {project:String} AND probe = {probe:String}
           ORDER BY started_at DESC, pass_id LIMIT {limit:UInt32}""",
        {"project": project, "probe": probe, "limit": limit},
    )
    return [orjson.loads(row["body"]) for row in found]


def has_pass(store: Store, project: str, probe: str, pass_id: str) -> bool:
    """Whether the probe has, or had, this pass."""
    found = store.value(
        """SELECT count() FROM probe_passes WHERE project = {project:String}
           AND probe = {probe:String} AND pass_id = {pass:String}""",
        {"project": project, "probe": probe, "pass": pass_id},
    )
    return bool(found)


def put_probed_rows(
    store: Store,
    project: str,
    probe: str,
    pass_id: str,
    rows: Sequence[ProbedRow],
    *,
    at: datetime,
) -> None:
    """Store rows of a pass with their scores; storing one twice changes nothing."""
    key = {"project": project, "probe": probe, "pass_id": pass_id, "at": at}
    scores = [
        {
            **key,
            "metric": score.metric,
            "row_id": row.row_id,
            "asked_at": row.asked_at,
            "status": score.status,
            "value": score.value,
            "verdict": score.verdict or "",
            "hard_fail": score.hard_fail,
            "reason": score.reason,
            "fingerprint": score.fingerprint or "",
            "basis": score.basis,
            "threshold": score.threshold,
            "version": row.version,
            **{name: row.dimensions.get(name, "") for name in _DIMENSIONS},
        }
        for row in rows
        for score in row.scores
    ]
    store.put("probe_scores", scores)
    store.put(
        "probe_rows",
        [
            {
                **key,
                "row_id": row.row_id,
                "asked_at": row.asked_at,
                "calls": row.calls,
                "verdict": row.verdict,
                "body": row.body,
            }
            for row in rows
        ],
    )


def newest_row_bodies(store: Store, project: str, probe: str, row_ids: Sequence[str]) -> list[str]:
    """The newest result of each of these rows."""
    found = store.rows(
        """SELECT body FROM probe_rows WHERE project = {project:String} AND probe = {probe:String}
           AND row_id IN {ids:Array(String)} ORDER BY asked_at DESC, at DESC LIMIT 1 BY row_id""",
        {"project": project, "probe": probe, "ids": list(row_ids)},
    )
    return [row["body"] for row in found]


def pass_row_bodies(store: Store, project: str, probe: str, pass_id: str) -> list[str]:
    """The results of one pass, by row id."""
    found = store.rows(
        """SELECT body FROM probe_rows FINAL WHERE project = {project:String}
           AND probe = {probe:String} AND pass_id = {pass:String} ORDER BY row_id""",
        {"project": project, "probe": probe, "pass": pass_id},
    )
    return [row["body"] for row in found]


def last_asked(store: Store, project: str, probe: str, since: datetime) -> dict[str, datetime]:
    """Row id → when it was last asked, for rows asked since then."""
    found = store.rows(
        """SELECT row_id, max(asked_at) AS last FROM probe_rows
           WHERE project = {project:String} AND probe = {probe:String}
             AND asked_at >= {since:DateTime64(6, 'UTC')} GROUP BY row_id""",
        {"project": project, "probe": probe, "since": since},
    )
    return {row["row_id"]: row["last"].replace(tzinfo=UTC) for row in found}


def calls_on(store: Store, project: str, probe: str, day: datetime) -> int:
    """How often the app was asked by this probe on the UTC day of `day`."""
    begin = day.replace(hour=0, minute=0, second=0, microsecond=0)
    return int(
        store.value(
            """SELECT sum(calls) FROM probe_rows FINAL
               WHERE project = {project:String} AND probe = {probe:String}
                 AND asked_at >= {begin:DateTime64(6, 'UTC')}
                 AND asked_at < {end:DateTime64(6, 'UTC')}""",
            {
                "project": project,
                "probe": probe,
                "begin": begin,
                "end": begin + timedelta(days=1),
            },
        )
        or 0
    )


def probe_readings(
    store: Store, project: str, probe: str, metric: str, since: datetime, until: datetime
) -> tuple[list[Reading], list[int]]:
    """(readings of a metric in [since, until), dataset version of each), oldest first.

    The version is 0 for the working copy.

    A row that is asked again and again is one cluster: its answers resemble each other, so its
    id stands where live readings have the conversation.
    """
    found = store.rows(
        """SELECT row_id, asked_at, status, value, verdict, hard_fail, reason, fingerprint, basis,
                  threshold, version, release, index_version, prompt_version
           FROM probe_scores FINAL
           WHERE project = {project:String} AND probe = {probe:String}
             AND metric = {metric:String}
             AND asked_at >= {since:DateTime64(6, 'UTC')}
             AND asked_at < {until:DateTime64(6, 'UTC')}
           ORDER BY asked_at, row_id""",
        {"project": project, "probe": probe, "metric": metric, "since": since, "until": until},
    )
    readings = [
        reading_of(
            row,
            turn_id=row["row_id"],
            at=row["asked_at"],
            inclusion=1.0,
            stratum="probe",
            conversation_id=row["row_id"],
            dimensions=_DIMENSIONS,
        )
        for row in found
    ]
    return readings, [int(row["version"]) for row in found]


def mark_traces(
    store: Store, project: str, probe: str, trace_ids: Iterable[str], *, at: datetime
) -> None:
    """Remember that these traces are a probe's: their turns are kept out of live numbers."""
    store.put(
        "probe_traces",
        [
            {"project": project, "trace_id": trace_id, "probe": probe, "at": at}
            for trace_id in trace_ids
            if trace_id
        ],
    )


def probe_traces_among(store: Store, project: str, trace_ids: Sequence[str]) -> set[str]:
    """Those of these traces that a probe caused."""
    found = store.rows(
        """SELECT DISTINCT trace_id FROM probe_traces
           WHERE project = {project:String} AND trace_id IN {ids:Array(String)}""",
        {"project": project, "ids": list(trace_ids)},
    )
    return {row["trace_id"] for row in found}
