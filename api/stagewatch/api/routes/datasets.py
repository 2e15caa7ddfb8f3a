"""Datasets: rows, immutable versions, import and export."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from stagewatch.api.deps import Caller, ContextDep, Reader, Writer, note
from stagewatch.api.exchange import export_rows, import_rows
from stagewatch.api.likeness import duplicates_of
from stagewatch.api.routes.review import DatasetName
from stagewatch.api.routes.turns import json_response
from stagewatch.api.rows import (
    RowIn,
    check_row,
    confirm,
    edited,
    imported_over,
    new_row,
    refuse,
    same_label,
)
from stagewatch.api.shapes import SHAPES
from stagewatch.api.views import page_json
from stagewatch.core.codec import to_json
from stagewatch.core.errors import ConflictError, InvalidInputError, NotFoundError
from stagewatch.core.model import DatasetRow
from stagewatch.core.service import Context
from stagewatch.core.store.datasets import (
    current_rows,
    ensure_dataset,
    freeze_version,
    get_row,
    latest_version,
    list_datasets,
    put_row,
    put_rows,
    rows_of_version,
    versions_of,
)
from stagewatch.core.store.documents import get_document
from stagewatch.core.store.row_history import Said, history_of_row, put_said

Version = Annotated[int | None, Query(ge=1, le=2**31 - 1, description="A frozen version.")]

router = APIRouter(tags=["datasets"])

MAX_IMPORT_BYTES = 64 * 1024 * 1024
MEDIA = {
    "jsonl": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    **dict.fromkeys(SHAPES, "application/x-ndjson"),
    "deepeval": "application/json",
}
Format = Literal["jsonl", "csv", "parquet", "ragas", "deepeval", "phoenix", "langfuse", "openai"]


class DatasetIn(BaseModel):
    """Body of POST /datasets."""

    model_config = ConfigDict(extra="forbid")

    name: DatasetName
    description: Annotated[str, Field(max_length=2000)] = ""


class VersionIn(BaseModel):
    """Body of POST /datasets/{name}/versions."""

    model_config = ConfigDict(extra="forbid")

    note: Annotated[str, Field(max_length=2000)] = ""


class RefusalIn(BaseModel):
    """Body of POST /datasets/{name}/rows/{row_id}/refuse."""

    model_config = ConfigDict(extra="forbid")

    reason: Annotated[str, Field(min_length=1, max_length=2000)]


def need_dataset(context: Context, caller: Caller, name: str) -> dict[str, Any]:
    """The dataset's document.

    Raises:
        NotFoundError: no such dataset in the caller's project.
    """
    found = get_document(context.store, "datasets", name, project=caller.project)
    if found is None:
        raise NotFoundError(f"no dataset {name!r} in project {caller.project!r}")
    return found


@router.get("/datasets")
def get_datasets(context: ContextDep, caller: Reader) -> Response:
    """Every dataset with its newest version and counts."""
    return json_response(page_json(list_datasets(context.store, caller.project)))


@router.post("/datasets", status_code=201)
def post_dataset(context: ContextDep, caller: Writer, sent: DatasetIn) -> Response:
    """Make an empty dataset."""
    if get_document(context.store, "datasets", sent.name, project=caller.project):
        raise ConflictError(f"dataset {sent.name!r} is there already")
    ensure_dataset(
        context.store,
        caller.project,
        sent.name,
        at=context.clock.now(),
        description=sent.description,
    )
    return json_response(to_json({"name": sent.name, "project": caller.project}), 201)


@router.get("/datasets/{name}/versions")
def get_versions(context: ContextDep, caller: Reader, name: str) -> Response:
    """Every frozen version, newest first."""
    need_dataset(context, caller, name)
    return json_response(page_json(versions_of(context.store, caller.project, name)))


@router.post("/datasets/{name}/versions", status_code=201)
def post_version(context: ContextDep, caller: Writer, name: str, sent: VersionIn) -> Response:
    """Freeze the working copy as the next version; versions never change afterwards."""
    need_dataset(context, caller, name)
    now = context.clock.now()
    made = freeze_version(
        context.store, caller.project, name, by=caller.name, note=sent.note, at=now
    )
    note(context, caller, "dataset.freeze", name, version=made.version, rows=made.rows)
    return json_response(to_json(made), 201)


def read_rows(context: Context, caller: Caller, name: str, version: int | None) -> list[DatasetRow]:
    """Rows of a frozen version, or of the working copy when none is named."""
    need_dataset(context, caller, name)
    if version is None:
        return current_rows(context.store, caller.project, name)
    return rows_of_version(context.store, caller.project, name, version)


@router.get("/datasets/{name}/rows")
def get_rows(context: ContextDep, caller: Reader, name: str, version: Version = None) -> Response:
    """Rows of a version, or of the working copy."""
    return json_response(page_json(read_rows(context, caller, name, version)))


@router.post("/datasets/{name}/rows", status_code=201)
def post_row(context: ContextDep, caller: Writer, name: str, sent: RowIn) -> Response:
    """Add a row by hand; trap kinds wait for a second person."""
    need_dataset(context, caller, name)
    version = latest_version(context.store, caller.project, name) + 1
    row = new_row(sent, name, version=version, by=caller.name)
    alike = duplicates_of(row.question, row.kind, current_rows(context.store, caller.project, name))
    said = check_row(row) + [f"row {other} asks the same thing" for other in alike]
    now = context.clock.now()
    put_row(context.store, caller.project, row, at=now)
    put_said(context.store, caller.project, name, [Said(row.row_id, now, caller.name, "row.add")])
    return json_response(to_json({"row": row, "warnings": said}), 201)


def _existing(context: Context, caller: Caller, name: str, row_id: str) -> DatasetRow:
    row = get_row(context.store, caller.project, name, row_id)
    if row is None:
        raise NotFoundError(f"no row {row_id!r} in dataset {name!r}")
    return row


def _write(
    context: Context,
    caller: Caller,
    before: DatasetRow,
    row: DatasetRow,
    action: str,
    reason: str = "",
) -> Response:
    now = context.clock.now()
    put_row(context.store, caller.project, row, at=now)
    said = Said(
        row.row_id, now, caller.name, action, reason,
        label=not same_label(before, row), author=before.provenance.promoted_by,
    )  # fmt: skip
    put_said(context.store, caller.project, row.dataset, [said])
    return json_response(to_json({"row": row, "warnings": check_row(row)}))


@router.put("/datasets/{name}/rows/{row_id}")
def put_one_row(
    context: ContextDep, caller: Writer, name: str, row_id: str, sent: RowIn
) -> Response:
    """Edit a row. A changed label needs its second person again."""
    before = _existing(context, caller, name, row_id)
    row = edited(before, sent, by=caller.name)
    return _write(context, caller, before, row, "row.edit", sent.note or "")


@router.post("/datasets/{name}/rows/{row_id}/confirm")
def post_confirm(context: ContextDep, caller: Writer, name: str, row_id: str) -> Response:
    """A second person says the label is right; the one who made it cannot."""
    before = _existing(context, caller, name, row_id)
    return _write(context, caller, before, confirm(before, by=caller.name), "row.confirm")


@router.post("/datasets/{name}/rows/{row_id}/refuse")
def post_refuse(
    context: ContextDep, caller: Writer, name: str, row_id: str, sent: RefusalIn
) -> Response:
    """A second person says the label is wrong, and why: the row waits and counts in no gate."""
    before = _existing(context, caller, name, row_id)
    row = refuse(before, by=caller.name)
    return _write(context, caller, before, row, "row.refuse", sent.reason)


@router.get("/datasets/{name}/rows/{row_id}/history")
def get_history(context: ContextDep, caller: Reader, name: str, row_id: str) -> Response:
    """Who wrote, changed, confirmed and refused the row, when and why, oldest first."""
    need_dataset(context, caller, name)
    entries = history_of_row(context.store, caller.project, name, row_id)
    if not entries:
        raise NotFoundError(f"no row {row_id!r} in dataset {name!r}")
    return json_response(page_json(entries))


@router.delete("/datasets/{name}/rows/{row_id}")
def delete_row(context: ContextDep, caller: Writer, name: str, row_id: str) -> Response:
    """Retire a row from the working copy; frozen versions keep it."""
    before = _existing(context, caller, name, row_id)
    row = edited(before, None, by=caller.name)
    return _write(context, caller, before, row, "row.retire")


def _ending(file_format: str) -> str:
    if file_format == "deepeval":
        return "deepeval.json"
    return f"{file_format}.jsonl" if file_format in SHAPES else file_format


@router.get("/datasets/{name}/export")
def get_export(
    context: ContextDep,
    caller: Reader,
    name: str,
    version: Version = None,
    file_format: Annotated[Format, Query(alias="format")] = "jsonl",
) -> Response:
    """The rows as a file."""
    rows = read_rows(context, caller, name, version)
    suffix = f"-v{version}" if version else ""
    return Response(
        export_rows(rows, file_format),
        media_type=MEDIA[file_format],
        headers={
            "content-disposition": f'attachment; filename="{name}{suffix}.{_ending(file_format)}"'
        },
    )


@router.post("/datasets/{name}/import", status_code=201)
async def post_import(
    request: Request,
    context: ContextDep,
    caller: Writer,
    name: str,
    file_format: Annotated[Format, Query(alias="format")] = "jsonl",
) -> Response:
    """Rows from a file in one of the export formats; all of it or nothing."""
    from anyio.to_thread import run_sync  # noqa: PLC0415 - only here is a body read by hand

    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_IMPORT_BYTES:
            raise InvalidInputError(f"file larger than {MAX_IMPORT_BYTES >> 20} MiB: split it")
    return await run_sync(_import, context, caller, name, bytes(body), file_format)


def _import(context: Context, caller: Caller, name: str, body: bytes, kind: Format) -> Response:
    now = context.clock.now()
    ensure_dataset(context.store, caller.project, name, at=now)
    version = latest_version(context.store, caller.project, name) + 1
    rows = import_rows(body, kind, dataset=name, version=version, by=caller.name)
    known = {row.row_id: row for row in current_rows(context.store, caller.project, name)}
    rows = [imported_over(known.get(row.row_id), row) for row in rows]
    put_rows(context.store, caller.project, rows, at=now)
    said = [_imported(known.get(row.row_id), row, now, caller.name) for row in rows]
    put_said(context.store, caller.project, name, said)
    return json_response(to_json({"imported": len(rows), "dataset": name}), 201)


def _imported(known: DatasetRow | None, row: DatasetRow, at: datetime, by: str) -> Said:
    changed = known is not None and not same_label(known, row)
    author = known.provenance.promoted_by if known else ""
    return Said(row.row_id, at, by, "row.import", label=changed, author=author)
