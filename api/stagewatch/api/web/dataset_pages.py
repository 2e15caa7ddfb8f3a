"""Pages of datasets: rows, one row's story, what is odd, what is covered, bulk promotion."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response

from stagewatch.api.deps import ContextDep, Reader
from stagewatch.api.likeness import coverage_of
from stagewatch.api.recheck import rows_to_check
from stagewatch.api.routes.bulk import MOST, BulkIn, look
from stagewatch.api.routes.dataset_checks import Days, check_dataset, live_questions
from stagewatch.api.routes.datasets import Version, need_dataset, read_rows
from stagewatch.api.rows import check_row
from stagewatch.api.web.pages import SPANS, Span
from stagewatch.api.web.render import render
from stagewatch.api.web.shape import kind_quota
from stagewatch.core.clock import rfc3339
from stagewatch.core.errors import NotFoundError
from stagewatch.core.store.datasets import get_row, list_datasets, versions_of
from stagewatch.core.store.row_history import (
    history_of_row,
    open_disagreement,
    said_of_rows,
)

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
ACTIONS: Mapping[str, str] = {
    "row.add": "added it",
    "row.import": "brought it in from a file",
    "row.edit": "edited it",
    "row.confirm": "confirmed the label",
    "row.refuse": "refused the label",
    "row.retire": "retired it",
}


@router.get("/datasets/{name}")
def dataset(
    request: Request, context: ContextDep, caller: Reader, name: str, version: Version = None
) -> Response:
    """One dataset: rows, who disagrees, labels to look at again, kinds, versions."""
    store = context.store
    info = need_dataset(context, caller, name)
    rows = read_rows(context, caller, name, version)
    said = {} if version else said_of_rows(store, caller.project, name)
    return render(
        request,
        caller,
        "dataset.html",
        info=info,
        rows=rows,
        warnings={row.row_id: check_row(row) for row in rows},
        disagreements={row_id: open_disagreement(items) for row_id, items in said.items()},
        recheck=[] if version else rows_to_check(store, caller.project, name),
        actions=ACTIONS,
        quota=kind_quota(rows),
        versions=versions_of(store, caller.project, name),
        version=version,
    )


@router.get("/datasets/{name}/rows/{row_id}")
def dataset_row(
    request: Request, context: ContextDep, caller: Reader, name: str, row_id: str
) -> Response:
    """One row: its label, and who wrote, changed, confirmed and refused it."""
    info = need_dataset(context, caller, name)
    row = get_row(context.store, caller.project, name, row_id)
    if row is None:
        raise NotFoundError(f"no row {row_id!r} in dataset {name!r}")
    said = said_of_rows(context.store, caller.project, name).get(row_id, [])
    return render(
        request,
        caller,
        "dataset_row.html",
        info=info,
        row=row,
        warnings=check_row(row),
        standing=open_disagreement(said),
        entries=history_of_row(context.store, caller.project, name, row_id),
        actions=ACTIONS,
    )


@router.get("/datasets/{name}/check")
def check(
    request: Request, context: ContextDep, caller: Reader, name: str, version: Version = None
) -> Response:
    """What is odd about the rows."""
    info = need_dataset(context, caller, name)
    rows = read_rows(context, caller, name, version)
    return render(
        request,
        caller,
        "dataset_check.html",
        info=info,
        version=version,
        by_id={row.row_id: row for row in rows},
        found=check_dataset(context.store, caller.project, rows),
    )


@router.get("/datasets/{name}/coverage")
def coverage(
    request: Request,
    context: ContextDep,
    caller: Reader,
    name: str,
    version: Version = None,
    days: Days = 7,
) -> Response:
    """What people ask: by the kind of the nearest row, and far from every row."""
    info = need_dataset(context, caller, name)
    rows = read_rows(context, caller, name, version)
    since = context.clock.now() - timedelta(days=days)
    live = live_questions(context.store, caller.project, since)
    return render(
        request,
        caller,
        "dataset_coverage.html",
        info=info,
        version=version,
        days=days,
        found=coverage_of(live, rows),
    )


@router.get("/promote")
def promote(
    request: Request,
    context: ContextDep,
    caller: Reader,
    dataset: Annotated[str, Query(pattern=_NAME)] = "regressions",
    limit: Annotated[int, Query(ge=1, le=MOST)] = 100,
    q: Annotated[str, Query(max_length=500)] = "",
    diagnosis: Annotated[str, Query(max_length=500)] = "",
    release: Annotated[str, Query(max_length=500)] = "",
    index_version: Annotated[str, Query(max_length=500)] = "",
    conversation_id: Annotated[str, Query(max_length=500)] = "",
    flagged: str = "",
    span: Span = "30d",
) -> Response:
    """What promoting every turn of a filtered list would do, and the button that does it."""
    now = context.clock.now()
    filters = {
        "q": q,
        "diagnosis": diagnosis,
        "release": release,
        "index_version": index_version,
        "conversation_id": conversation_id.strip(),
    }
    # Both ends are fixed here, so what is promoted is what was shown.
    sent: dict[str, object] = {name: value for name, value in filters.items() if value}
    sent |= {"since": rfc3339(now - SPANS[span]), "until": rfc3339(now)}
    if flagged in {"yes", "no"}:
        sent["flagged"] = flagged == "yes"
    asked = BulkIn.model_validate({"dataset": dataset, "limit": limit, "dry_run": True, **sent})
    return render(
        request,
        caller,
        "promote.html",
        dataset=dataset,
        limit=limit,
        most=MOST,
        filters={**{k: v for k, v in filters.items() if v}, "flagged": flagged, "span": span},
        sent=sent,
        names=[item.name for item in list_datasets(context.store, caller.project)],
        found=look(context, caller.project, caller.name, asked).as_plain(),
    )
