"""Dataset rows and versions. A row's bodies are append-only; a version is a fixed list of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from stagewatch.core.clock import rfc3339
from stagewatch.core.codec import from_json, to_text
from stagewatch.core.errors import NotFoundError
from stagewatch.core.model import DatasetRow
from stagewatch.core.store.client import Store
from stagewatch.core.store.documents import get_document, list_documents, put_document


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """A dataset as lists show it: `version` is the newest frozen one, 0 before the first."""

    name: str
    project: str
    description: str
    created_at: str
    version: int
    rows: int
    needs_review: int
    changed: int


@dataclass(frozen=True, slots=True)
class VersionInfo:
    """One immutable version."""

    version: int
    rows: int
    note: str
    by: str
    at: datetime


def ensure_dataset(
    store: Store, project: str, name: str, *, at: datetime, description: str = ""
) -> None:
    """Make the dataset if it is not there."""
    if get_document(store, "datasets", name, project=project) is None:
        body = {
            "name": name,
            "project": project,
            "description": description,
            "created_at": rfc3339(at),
        }
        put_document(store, "datasets", name, body, at=at, project=project)


def list_datasets(store: Store, project: str) -> list[DatasetInfo]:
    """Every dataset of a project with its counts."""
    infos = []
    for body in list_documents(store, "datasets", project=project):
        name = body["name"]
        rows = _newest(store, project, name)
        version = latest_version(store, project, name)
        frozen = _version_members(store, project, name, version) if version else set()
        live = [row for row in rows if row["status"] != "retired"]
        infos.append(
            DatasetInfo(
                name=name,
                project=project,
                description=body.get("description", ""),
                created_at=body["created_at"],
                version=version,
                rows=len(live),
                needs_review=sum(row["status"] == "needs_review" for row in live),
                changed=len({(r["row_id"], _utc(r["at"])) for r in live} ^ frozen),
            )
        )
    return infos


def _utc(at: datetime) -> datetime:
    return at.replace(tzinfo=UTC)


def _newest(store: Store, project: str, name: str) -> list[dict[str, Any]]:
    return store.rows(
        """SELECT row_id, status, kind, turn_id, body, at FROM dataset_rows
           WHERE project = {project:String} AND dataset = {name:String}
           ORDER BY at DESC LIMIT 1 BY row_id""",
        {"project": project, "name": name},
    )


def _version_members(
    store: Store, project: str, name: str, version: int
) -> set[tuple[str, datetime]]:
    found = store.row(
        """SELECT rows FROM dataset_versions WHERE project = {project:String}
           AND dataset = {name:String} AND version = {version:UInt32} LIMIT 1""",
        {"project": project, "name": name, "version": version},
    )
    if found is None:
        raise NotFoundError(f"dataset {name!r} has no version {version}")
    members = set()
    for item in found["rows"]:
        row_id, at = item.values() if isinstance(item, dict) else item
        members.add((row_id, _utc(at)))
    return members


def latest_version(store: Store, project: str, name: str) -> int:
    """The newest frozen version of a dataset, 0 when there is none."""
    return int(
        store.value(
            """SELECT max(version) FROM dataset_versions
               WHERE project = {project:String} AND dataset = {name:String}""",
            {"project": project, "name": name},
        )
        or 0
    )


def versions_of(store: Store, project: str, name: str) -> list[VersionInfo]:
    """Every version of a dataset, newest first."""
    found = store.rows(
        """SELECT version, length(rows) AS n, note, by, at FROM dataset_versions
           WHERE project = {project:String} AND dataset = {name:String} ORDER BY version DESC""",
        {"project": project, "name": name},
    )
    return [
        VersionInfo(row["version"], row["n"], row["note"], row["by"], _utc(row["at"]))
        for row in found
    ]


def put_row(store: Store, project: str, row: DatasetRow, *, at: datetime) -> None:
    """Store a new body of a row; earlier versions keep the body they froze."""
    put_rows(store, project, [row], at=at)


def put_rows(store: Store, project: str, rows: Sequence[DatasetRow], *, at: datetime) -> None:
    """Store new bodies of rows."""
    store.put(
        "dataset_rows",
        [
            {
                "project": project,
                "dataset": row.dataset,
                "row_id": row.row_id,
                "version_added": row.version_added,
                "status": row.status,
                "kind": row.kind,
                "failure": row.failure,
                "question": row.question,
                "turn_id": row.provenance.turn_id or "",
                "body": to_text(row),
                "at": at,
            }
            for row in rows
        ],
    )


def current_rows(store: Store, project: str, name: str) -> list[DatasetRow]:
    """The working copy: the newest body of each row that is not retired, oldest row first."""
    found = sorted(_newest(store, project, name), key=lambda row: (row["at"], row["row_id"]))
    return [from_json(DatasetRow, row["body"]) for row in found if row["status"] != "retired"]


def rows_of_version(store: Store, project: str, name: str, version: int) -> list[DatasetRow]:
    """The rows of a frozen version, by row id.

    Raises:
        NotFoundError: there is no such version.
    """
    members = _version_members(store, project, name, version)
    found = store.rows(
        """SELECT row_id, at, body FROM dataset_rows
           WHERE project = {project:String} AND dataset = {name:String}
             AND row_id IN {ids:Array(String)} ORDER BY row_id, at""",
        {"project": project, "name": name, "ids": sorted({row_id for row_id, _ in members})},
    )
    return [
        from_json(DatasetRow, row["body"])
        for row in found
        if (row["row_id"], _utc(row["at"])) in members
    ]


def get_row(store: Store, project: str, name: str, row_id: str) -> DatasetRow | None:
    """The newest body of one row, retired or not."""
    found = store.row(
        """SELECT body FROM dataset_rows WHERE project = {project:String}
           AND dataset = {name:String} AND row_id = {row_id:String} ORDER BY at DESC LIMIT 1""",
        {"project": project, "name": name, "row_id": row_id},
    )
    return from_json(DatasetRow, found["body"]) if found else None


def row_of_turn(store: Store, project: str, name: str, turn_id: str) -> DatasetRow | None:
    """The row that this turn was promoted to, if it was."""
    found = store.row(
        """SELECT body FROM dataset_rows WHERE project = {project:String}
           AND dataset = {name:String} AND turn_id = {turn_id:String} ORDER BY at DESC LIMIT 1""",
        {"project": project, "name": name, "turn_id": turn_id},
    )
    return from_json(DatasetRow, found["body"]) if found else None


def rows_of_turns(
    store: Store, project: str, name: str, turn_ids: Sequence[str]
) -> dict[str, tuple[str, str]]:
    """Turn id → (row id, status) of the row it was promoted to; turns without one are left out."""
    if not turn_ids:
        return {}
    found = store.rows(
        """SELECT turn_id, row_id, status FROM dataset_rows WHERE project = {project:String}
           AND dataset = {name:String} AND turn_id IN {ids:Array(String)}
           ORDER BY at DESC LIMIT 1 BY turn_id""",
        {"project": project, "name": name, "ids": list(turn_ids)},
    )
    return {row["turn_id"]: (row["row_id"], row["status"]) for row in found}


def row_times(store: Store, project: str, name: str) -> dict[str, datetime]:
    """Row id → when its present body was written, for every row that is not retired."""
    found = store.rows(
        """SELECT row_id, status, at FROM dataset_rows
           WHERE project = {project:String} AND dataset = {name:String}
           ORDER BY at DESC LIMIT 1 BY row_id""",
        {"project": project, "name": name},
    )
    return {row["row_id"]: _utc(row["at"]) for row in found if row["status"] != "retired"}


def freeze_version(
    store: Store, project: str, name: str, *, by: str, note: str, at: datetime
) -> VersionInfo:
    """Freeze the working copy as the next version and return it."""
    rows = [row for row in _newest(store, project, name) if row["status"] != "retired"]
    version = latest_version(store, project, name) + 1
    store.put(
        "dataset_versions",
        [
            {
                "project": project,
                "dataset": name,
                "version": version,
                "rows": [{"row_id": row["row_id"], "at": _utc(row["at"])} for row in rows],
                "note": note,
                "by": by,
                "at": at,
            }
        ],
        token=f"{project}/{name}/{version}",
    )
    return VersionInfo(version, len(rows), note, by, at)


def next_at(now: datetime, last: datetime | None) -> datetime:
    """`now`, or just after `last` when the clock stands or went back: newest must win."""
    return now if last is None or now > last else last + timedelta(microseconds=1)
