"""Turns by id with the revision that is newest."""

from __future__ import annotations

from collections.abc import Sequence

from stagewatch.core.model import Turn
from stagewatch.core.store.client import Store
from stagewatch.core.store.turns import turns_by_id


def newest_revisions(store: Store, turn_ids: Sequence[str]) -> list[tuple[Turn, int]]:
    """(turn, revision) of the newest revision of each turn that is still there."""
    rows = store.rows(
        """SELECT turn_id, max(revision) AS revision FROM turns
           WHERE turn_id IN {ids:Array(String)} GROUP BY turn_id""",
        {"ids": list(turn_ids)},
    )
    revisions = {row["turn_id"]: int(row["revision"]) for row in rows}
    turns = turns_by_id(store, turn_ids)
    return [(turns[i], revisions[i]) for i in turn_ids if i in turns]
