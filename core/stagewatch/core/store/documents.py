"""Small things that people edit (keys, rules, plans, probes, alerts, views): JSON by id."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import orjson

from stagewatch.core.codec import to_text
from stagewatch.core.store.client import Store


def put_document(
    store: Store,
    collection: str,
    doc_id: str,
    body: Mapping[str, Any],
    *,
    at: datetime,
    project: str = "default",
) -> None:
    """Store or replace one document."""
    store.put(
        "documents",
        [
            {
                "collection": collection,
                "project": project,
                "id": doc_id,
                "body": to_text(body),
                "deleted": False,
                "at": at,
            }
        ],
    )


def delete_document(
    store: Store, collection: str, doc_id: str, *, at: datetime, project: str = "default"
) -> None:
    """Mark a document deleted; reads skip it."""
    store.put(
        "documents",
        [
            {
                "collection": collection,
                "project": project,
                "id": doc_id,
                "body": "{}",
                "deleted": True,
                "at": at,
            }
        ],
    )


def get_document(
    store: Store, collection: str, doc_id: str, *, project: str = "default"
) -> dict[str, Any] | None:
    """The body of one document, or None."""
    found = store.row(
        """SELECT body FROM documents FINAL WHERE collection = {collection:String}
           AND project = {project:String} AND id = {id:String} AND NOT deleted""",
        {"collection": collection, "project": project, "id": doc_id},
    )
    return orjson.loads(found["body"]) if found else None


def last_change(
    store: Store, collection: str, doc_id: str, *, project: str = "default"
) -> datetime | None:
    """When a document was last stored or deleted; None when it never was."""
    found = store.row(
        """SELECT max(at) AS newest FROM documents WHERE collection = {collection:String}
           AND project = {project:String} AND id = {id:String} HAVING count() > 0""",
        {"collection": collection, "project": project, "id": doc_id},
    )
    return found["newest"] if found else None


def list_documents(
    store: Store, collection: str, *, project: str | None = None
) -> list[dict[str, Any]]:
    """Every document of a collection (of all projects when none is given), oldest edit first."""
    found = store.rows(
        """SELECT body FROM documents FINAL WHERE collection = {collection:String}
           AND ({project:String} = '' OR project = {project:String}) AND NOT deleted
           ORDER BY at, id""",
        {"collection": collection, "project": project or ""},
    )
    return [orjson.loads(row["body"]) for row in found]


def audit(
    store: Store,
    *,
    project: str,
    by: str,
    action: str,
    subject: str,
    at: datetime,
    detail: Mapping[str, Any] | None = None,
) -> None:
    """Append one line to the audit log."""
    store.put(
        "audit",
        [
            {
                "project": project,
                "by": by,
                "action": action,
                "subject": subject,
                "detail": to_text(detail or {}),
                "at": at,
            }
        ],
    )
