"""Dataset rows to and from files: JSONL, CSV, Parquet. A round trip gives the same rows back."""

from __future__ import annotations

import csv
import io
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import orjson

from stagewatch.api.rows import first_status
from stagewatch.api.shapes import SHAPES, read_shape, write_shape
from stagewatch.core.codec import from_plain, to_json, to_plain, to_text
from stagewatch.core.errors import InvalidInputError
from stagewatch.core.model import DatasetRow

# Columns that hold structures are JSON text inside CSV and Parquet cells.
_STRUCTURED = ("history", "needs", "expected_output", "tags", "provenance", "turn")
_COLUMNS = (
    "row_id", "dataset", "version_added", "kind", "failure", "status", "question",
    "standalone_question", *_STRUCTURED,
)  # fmt: skip
# A cell that starts so is a formula to spreadsheet programs; question text is a stranger's.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def export_rows(rows: Sequence[DatasetRow], kind: str) -> bytes:
    """`rows` as a file of `kind` jsonl, csv, parquet, or the shape of another tool."""
    if kind in SHAPES:
        return write_shape(rows, kind)
    if kind == "jsonl":
        return b"".join(to_json(row) + b"\n" for row in rows)
    flat = [_flat(row) for row in rows]
    return _csv(flat) if kind == "csv" else _parquet(flat)


def _flat(row: DatasetRow) -> dict[str, Any]:
    body = to_plain(row)
    return {name: to_text(body[name]) if name in _STRUCTURED else body[name] for name in _COLUMNS}


def _csv(flat: Sequence[dict[str, Any]]) -> bytes:
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, _COLUMNS)
    writer.writeheader()
    for row in flat:
        writer.writerow({k: _guarded(v) for k, v in row.items()})
    return out.getvalue().encode()


def _guarded(value: Any) -> Any:  # noqa: ANN401
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _parquet(flat: Sequence[dict[str, Any]]) -> bytes:
    import pyarrow as pa  # noqa: PLC0415 - 0.3 s to import, and few exports are Parquet
    import pyarrow.parquet as pq  # noqa: PLC0415

    columns = {
        name: pa.array(
            [row[name] for row in flat],
            pa.int64() if name == "version_added" else pa.string(),
        )
        for name in _COLUMNS
    }
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, compression="zstd")
    return sink.getvalue()


def import_rows(body: bytes, kind: str, *, dataset: str, version: int, by: str) -> list[DatasetRow]:
    """Rows of a file, put into `dataset` as of `version`; ids are kept where the file has them.

    Raises:
        InvalidInputError: naming the line and the field that does not fit. Nothing is imported.
    """
    plain = _read(body, kind)
    rows = []
    for number, item in enumerate(plain, start=1):
        try:
            rows.append(_row(item, dataset, version, by))
        except InvalidInputError as error:
            raise InvalidInputError(f"row {number}: {error}") from None
    return rows


def _row(item: dict[str, Any], dataset: str, version: int, by: str) -> DatasetRow:
    filled = {
        "row_id": uuid.uuid4().hex,
        "kind": "happy_path",
        "failure": "unknown",
        **{key: value for key, value in item.items() if value is not None},
        "dataset": dataset,
        "version_added": version,
    }
    unknown = set(filled) - set(_COLUMNS)
    if unknown:
        raise InvalidInputError(f"unknown field {min(unknown)!r}")
    if "status" not in filled:
        filled["status"] = first_status(str(filled["kind"]))
    row = from_plain(DatasetRow, filled)
    if not row.provenance.promoted_by:
        row = replace(row, provenance=replace(row.provenance, promoted_by=by))
    return row


def _read(body: bytes, kind: str) -> list[dict[str, Any]]:
    if kind in SHAPES:
        return read_shape(body, kind)
    if kind == "jsonl":
        return [_object(line, n) for n, line in enumerate(body.splitlines(), 1) if line.strip()]
    if kind == "csv":
        return _read_csv(body)
    return _read_parquet(body)


def _object(line: bytes, number: int) -> dict[str, Any]:
    try:
        item = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise InvalidInputError(f"row {number}: not JSON: {error.msg}") from None
    if not isinstance(item, dict):
        raise InvalidInputError(f"row {number}: not a JSON object")
    return item


def _structured(row: dict[str, Any], number: int) -> dict[str, Any]:
    for name in _STRUCTURED:
        if row.get(name):
            try:
                row[name] = orjson.loads(row[name])
            except orjson.JSONDecodeError:
                raise InvalidInputError(f"row {number}: {name}: not JSON") from None
    return row


def _read_csv(body: bytes) -> list[dict[str, Any]]:
    try:
        reader = csv.DictReader(io.StringIO(body.decode("utf-8-sig"), newline=""))
        rows = [dict(row) for row in reader]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidInputError(f"not a UTF-8 CSV file: {error}") from None
    found = []
    for number, row in enumerate(rows, start=1):
        if None in row:
            raise InvalidInputError(f"row {number}: more cells than columns")
        cells = {
            k: (v[1:] if v and v[0] == "'" and v[1:].startswith(_FORMULA) else v) or None
            for k, v in row.items()
        }
        found.append(_structured(cells, number))
    return found


def _read_parquet(body: bytes) -> list[dict[str, Any]]:
    import pyarrow as pa  # noqa: PLC0415 - see _parquet
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        rows = pq.read_table(io.BytesIO(body)).to_pylist()
    except (pa.ArrowInvalid, OSError):
        raise InvalidInputError("not a Parquet file") from None
    return [_structured(row, number) for number, row in enumerate(rows, start=1)]
