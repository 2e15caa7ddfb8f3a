"""Being the first of several processes to do something, such as to make a thing of a name."""

from __future__ import annotations

import hashlib
import itertools
import uuid

from stagewatch.core.store.client import Store

VOID_AFTER_S = 10.0
"""A claim that is older was left by a process that died before it did what it had claimed."""


def is_first(store: Store, *key: str) -> bool:
    """Whether the caller may do what `key` names: True for one caller, on whatever process.

    Make the key of all that says "this time", such as the state before. Whoever comes later than
    `VOID_AFTER_S` with the same key finds that nothing came of the claim, and claims anew.
    """
    owner = uuid.uuid4().hex
    for attempt in itertools.count():
        text = "\x1f".join((*key, str(attempt)))
        store.put("firsts", [{"key": text, "owner": owner}], token=_token(text))
        first = store.row(
            """SELECT owner, dateDiff('millisecond', at, now64(3)) / 1000 AS age FROM firsts
               WHERE key = {key:String} ORDER BY at, owner LIMIT 1""",
            {"key": text},
        )
        if first is not None and first["owner"] == owner:
            return True
        if first is not None and first["age"] < VOID_AFTER_S:
            return False
    return False


def _token(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
