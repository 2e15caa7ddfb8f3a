"""Dataset rows that live in files: JSON lines, or a folder with one readable file a row.

The folder form is for a user's own repository: a changed label is a small diff in a review.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import orjson

from stagewatch.core.codec import from_plain, to_plain
from stagewatch.core.errors import InvalidInputError
from stagewatch.core.model import TRAP_KINDS, DatasetRow

_NAMESPACE = uuid.UUID("b0b7d0a2-6f0b-4d0e-8a54-3f9d0c8a6e21")
_SLUG = re.compile(r"[^a-z0-9]+")
_KNOWN = frozenset(spec.name for spec in fields(DatasetRow))


def read_rows_path(path: Path, dataset: str | None = None) -> list[DatasetRow]:
    """Rows from a `.jsonl` file or from a folder that `write_rows_folder` made.

    Raises:
        InvalidInputError: naming the file or line that does not fit.
    """
    name = dataset or path.stem
    if path.is_dir():
        files = sorted(path.glob("*/*.json")) + sorted(path.glob("*.json"))
        if not files:
            raise InvalidInputError(f"{path} holds no rows (KIND/*.json)")
        items = [(str(file.relative_to(path)), _read(file)) for file in files]
    else:
        lines = _read(path).splitlines()
        items = [(f"{path.name} line {n}", line) for n, line in enumerate(lines, 1) if line.strip()]
    rows = [_row(where, text, name) for where, text in items]
    seen: dict[str, str] = {}
    for (where, _), row in zip(items, rows, strict=True):
        if row.row_id in seen:
            raise InvalidInputError(f"{where}: row_id {row.row_id} is in {seen[row.row_id]} too")
        seen[row.row_id] = where
    return rows


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"cannot read {path}: {error}") from None


def _row(where: str, text: str, dataset: str) -> DatasetRow:
    try:
        item = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidInputError(f"{where}: not JSON: {error.msg}") from None
    if not isinstance(item, dict):
        raise InvalidInputError(f"{where}: not a JSON object")
    try:
        return row_from(item, dataset)
    except InvalidInputError as error:
        raise InvalidInputError(f"{where}: {error}") from None


def row_from(item: Mapping[str, Any], dataset: str) -> DatasetRow:
    """A row from plain data with as little as a question in it.

    Without an id the row gets one from its question and kind, so the same file gives the same
    rows in every run.

    Raises:
        InvalidInputError: a field is unknown or does not fit.
    """
    unknown = sorted(set(item) - _KNOWN)
    if unknown:
        raise InvalidInputError(f"unknown field {unknown[0]!r}")
    kind = str(item.get("kind", "happy_path"))
    filled = {
        "row_id": uuid.uuid5(_NAMESPACE, f"{kind}/{item.get('question', '')}").hex,
        "dataset": dataset,
        "version_added": 1,
        "kind": kind,
        "failure": "unknown",
        "status": "needs_review" if kind in TRAP_KINDS else "confirmed",
        **{key: value for key, value in item.items() if value is not None},
    }
    return from_plain(DatasetRow, filled)


def write_rows_folder(rows: Sequence[DatasetRow], folder: Path) -> int:
    """One indented JSON file a row, `KIND/slug-id.json`; files of rows that are gone are removed.

    Returns:
        How many files were written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    wanted: set[Path] = set()
    for row in rows:
        slug = _SLUG.sub("-", row.question.lower()).strip("-")[:48].strip("-") or "row"
        path = folder / row.kind / f"{slug}-{row.row_id[:8]}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            json.dumps(to_plain(row), ensure_ascii=False, indent=2) + "\n", encoding="utf-8"
        )
        wanted.add(path)
    for path in folder.glob("*/*.json"):
        if path not in wanted and _is_row(path):
            path.unlink()
    return len(wanted)


def _is_row(path: Path) -> bool:
    """Only files that hold a row are ours to remove."""
    try:
        body = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return False
    return isinstance(body, dict) and {"row_id", "question", "kind"} <= set(body)
