"""Numbered `.sql` files, each applied once; each statement is idempotent, so a crash half-way
through a file is mended by applying the file again.
"""

from __future__ import annotations

import hashlib
from importlib import resources

from stagewatch.core.errors import StoreError
from stagewatch.core.store.client import Store

_LEDGER = """
CREATE TABLE IF NOT EXISTS schema_migrations
(
    number UInt32,
    name String,
    checksum String,
    applied_at DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = ReplacingMergeTree(applied_at) ORDER BY number
"""


def migrations() -> list[tuple[int, str, str]]:
    """(number, file name, text) of every migration, in order."""
    folder = resources.files("stagewatch.core.store").joinpath("sql", "schema")
    found = [
        (int(item.name.split("_", 1)[0]), item.name, item.read_text(encoding="utf-8"))
        for item in folder.iterdir()
        if item.name.endswith(".sql")
    ]
    return sorted(found)


def statements(text: str) -> list[str]:
    """The statements of a migration: separated by a line holding only `;;`."""
    parts = [part.strip() for part in text.split("\n;;\n")]
    return [part.rstrip(";").strip() for part in parts if part.strip(" \n;")]


def migrate(store: Store) -> list[str]:
    """Apply what has not been applied and return the names of the files applied now.

    Raises:
        StoreError: a statement failed, or an applied file has changed since.
    """
    store.command(_LEDGER)
    done = {
        row["number"]: row["checksum"]
        for row in store.rows("SELECT number, checksum FROM schema_migrations FINAL")
    }
    applied = []
    for number, name, text in migrations():
        checksum = hashlib.sha256(text.encode()).hexdigest()[:16]
        if number in done:
            if done[number] != checksum:
                raise StoreError(
                    f"migration {name} was changed after it was applied; add a new file instead"
                )
            continue
        for statement in statements(text):
            store.command(statement)
        store.put("schema_migrations", [{"number": number, "name": name, "checksum": checksum}])
        applied.append(name)
    return applied
