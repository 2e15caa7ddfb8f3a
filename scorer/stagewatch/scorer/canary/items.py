"""The frozen texts: those that are shipped, or turns that people of a project have labelled."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib import resources
from typing import Any

import orjson

from stagewatch.core.clock import rfc3339
from stagewatch.core.codec import from_plain, to_plain
from stagewatch.core.errors import InvalidInputError
from stagewatch.core.model import Turn
from stagewatch.core.store.client import Store
from stagewatch.core.store.documents import get_document, put_document
from stagewatch.core.store.turns import turns_by_id

COLLECTION = "canary_sets"
SHIPPED = "shipped-1"
"""Name of the shipped set: 48 answers of the demo's support bot, half of them with changed
numbers, labelled by hand.
"""

_CURRENT = "current"
_FEWEST, _MOST = 20, 200


@dataclass(frozen=True, slots=True)
class CanaryItem:
    """One text: what was asked, the passages, the answer. `label` is a person's word on it."""

    item_id: str
    question: str
    window: tuple[str, ...]
    answer: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class CanarySet:
    """A set by name; a name always means the same texts."""

    name: str
    items: tuple[CanaryItem, ...]
    by: str = ""
    at: str = ""


@cache
def shipped_set() -> CanarySet:
    """The set that comes with the product."""
    text = resources.files("stagewatch.scorer.canary").joinpath("default.jsonl").read_bytes()
    items = [from_plain(CanaryItem, orjson.loads(line)) for line in text.splitlines() if line]
    return CanarySet(SHIPPED, tuple(items))


def current_set(store: Store) -> CanarySet:
    """The set in force: the one frozen last, else the shipped one."""
    body = get_document(store, COLLECTION, _CURRENT)
    return from_plain(CanarySet, body) if body else shipped_set()


def freeze_labelled(store: Store, project: str, *, by: str, now: datetime) -> CanarySet:
    """Freeze the turns of a project that people have labelled, the newest first, as the set in
    force; at most 200.

    Raises:
        InvalidInputError: fewer than 20 of them have question, passages and answer.
    """
    rows = store.rows(
        """SELECT turn_id, max(at) AS last FROM labels FINAL WHERE project = {project:String}
           GROUP BY turn_id ORDER BY last DESC, turn_id LIMIT {limit:UInt32}""",
        {"project": project, "limit": _MOST * 2},
    )
    found = turns_by_id(store, [row["turn_id"] for row in rows])
    items = items_of(found[row["turn_id"]] for row in rows if row["turn_id"] in found)[:_MOST]
    if len(items) < _FEWEST:
        raise InvalidInputError(
            f"{len(items)} labelled turns have question, passages and answer: {_FEWEST} are needed"
        )
    made = CanarySet(f"{project}-{now:%Y%m%d%H%M%S}", tuple(items), by, rfc3339(now))
    body: dict[str, Any] = to_plain(made)
    put_document(store, COLLECTION, _CURRENT, body, at=now)
    return made


def items_of(turns: Iterable[Turn]) -> list[CanaryItem]:
    """Texts of turns that have all three parts."""
    return [
        CanaryItem(turn.turn_id, turn.question, tuple(c.content for c in turn.window), turn.answer)
        for turn in turns
        if turn.question and turn.answer and any(chunk.content for chunk in turn.window)
    ]
