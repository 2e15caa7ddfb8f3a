"""The corpus as traffic shows it: passages that some turn has fetched."""

from __future__ import annotations

from dataclasses import dataclass

from stagewatch.core.store.client import Store, query

NEWEST_TURNS = 5000
"""How far back a search looks, in turns."""


@dataclass(frozen=True, slots=True)
class SeenPassage:
    """A passage and how many of the newest turns fetched it; `content` is cut to 500 characters."""

    chunk_id: str
    document_id: str | None
    version: str | None
    content: str
    fetched: int


def search_passages(
    store: Store, project: str, words: str, *, limit: int = 20
) -> list[SeenPassage]:
    """Passages whose text holds all of `words` (case-blind), most often fetched first."""
    found = store.rows(
        query("passages_seen"),
        {"project": project, "q": words.lower(), "turns": NEWEST_TURNS, "limit": limit},
    )
    return [
        SeenPassage(
            row["chunk_id"],
            row["document_id"] or None,
            row["version"] or None,
            row["content"],
            row["fetched"],
        )
        for row in found
    ]
