"""Who said what of a dataset row: its bodies, which are append-only, beside the audit log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from stagewatch.core.codec import from_json, to_plain, to_text
from stagewatch.core.model import DatasetRow
from stagewatch.core.store.client import Store

_APART = timedelta(milliseconds=2)
"""A body and its audit line are written with one time, kept to the microsecond and millisecond."""
_UNTOLD = frozenset({"turn", "version_added", "dataset", "row_id"})

ADDED = "row.add"


@dataclass(frozen=True, slots=True)
class Said:
    """One thing a person did to a row. `label` is whether it changed what the label claims."""

    row_id: str
    at: datetime
    by: str
    action: str
    reason: str = ""
    label: bool = False
    author: str = ""


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field of a row, before and after."""

    field: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class Entry:
    """One body of a row: who wrote it, why, and what it changed in the one before."""

    at: datetime
    by: str
    action: str
    reason: str
    status: str
    changes: tuple[FieldChange, ...]


def put_said(store: Store, project: str, dataset: str, said: Sequence[Said]) -> None:
    """Append to the audit log what was done to rows; texts of labels stay in the bodies."""
    store.put(
        "audit",
        [
            {
                "project": project,
                "by": item.by,
                "action": item.action,
                "subject": f"{dataset}/{item.row_id}",
                "detail": to_text(
                    {"reason": item.reason, "label": item.label, "author": item.author}
                ),
                "at": item.at,
            }
            for item in said
        ],
    )


def said_of_rows(store: Store, project: str, dataset: str) -> dict[str, list[Said]]:
    """What was done to each row of a dataset, oldest first."""
    found = store.rows(
        """SELECT by, action, subject, detail, at FROM audit
           WHERE project = {project:String} AND startsWith(subject, {prefix:String})
             AND startsWith(action, 'row.') ORDER BY at""",
        {"project": project, "prefix": f"{dataset}/"},
    )
    grouped: dict[str, list[Said]] = {}
    for line in found:
        row_id = line["subject"][len(dataset) + 1 :]
        grouped.setdefault(row_id, []).append(_said(row_id, line))
    return grouped


def _said(row_id: str, line: Mapping[str, Any]) -> Said:
    detail = orjson.loads(line["detail"])
    return Said(
        row_id, line["at"].replace(tzinfo=UTC), line["by"], line["action"],
        detail.get("reason", ""), bool(detail.get("label")), detail.get("author", ""),
    )  # fmt: skip


def open_disagreement(said: Sequence[Said]) -> list[Said]:
    """The refusals and the edits of somebody else's label that nobody has settled yet.

    A confirmation settles them. So does a changed label for refusals of the label before it.
    """
    standing: list[Said] = []
    for item in said:
        if item.action == "row.confirm":
            standing = []
        elif item.action == "row.refuse":
            standing.append(item)
        elif item.action in {"row.edit", "row.import"} and item.label:
            standing = [item] if item.author and item.author != item.by else []
    return standing


def history_of_row(store: Store, project: str, dataset: str, row_id: str) -> list[Entry]:
    """Every body of a row with who wrote it and what it changed, oldest first; [] when unknown."""
    found = store.rows(
        """SELECT body, at FROM dataset_rows WHERE project = {project:String}
           AND dataset = {name:String} AND row_id = {row_id:String} ORDER BY at""",
        {"project": project, "name": dataset, "row_id": row_id},
    )
    lines = store.rows(
        """SELECT by, action, detail, at FROM audit WHERE project = {project:String}
           AND subject = {subject:String} AND startsWith(action, 'row.') ORDER BY at""",
        {"project": project, "subject": f"{dataset}/{row_id}"},
    )
    said = [_said(row_id, line) for line in lines]
    entries: list[Entry] = []
    before: DatasetRow | None = None
    for body in found:
        row, at = from_json(DatasetRow, body["body"]), body["at"].replace(tzinfo=UTC)
        told = next((item for item in said if abs(item.at - at) < _APART), None)
        if told is not None:
            said.remove(told)
        entries.append(
            Entry(
                at,
                told.by if told else row.provenance.promoted_by if before is None else "",
                told.action if told else ADDED if before is None else "row.import",
                told.reason if told else "",
                row.status,
                changes_between(before, row),
            )
        )
        before = row
    return entries


def changes_between(before: DatasetRow | None, after: DatasetRow) -> tuple[FieldChange, ...]:
    """The fields that differ, as plain data; none for a first body."""
    if before is None:
        return ()
    old, new = to_plain(before), to_plain(after)
    return tuple(
        FieldChange(name, old[name], new[name])
        for name in sorted(new)
        if name not in _UNTOLD and old[name] != new[name]
    )
