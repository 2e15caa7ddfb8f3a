"""Rules of dataset rows: what makes one valid, who may confirm it, what a change undoes. Pure."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from stagewatch.core.errors import ConflictError, ForbiddenError
from stagewatch.core.model import (
    TRAP_KINDS,
    DatasetRow,
    Message,
    Need,
    Provenance,
    RowKind,
    RowStatus,
    Stage,
)

_LONG_FACT = 400


class RowIn(BaseModel):
    """A row as a person writes it; on an edit, fields left out stay as they are."""

    model_config = ConfigDict(extra="forbid")

    question: Annotated[str, Field(min_length=1, max_length=20_000)] | None = None
    kind: RowKind | None = None
    failure: Stage | None = None
    history: Annotated[list[Message], Field(max_length=200)] | None = None
    standalone_question: Annotated[str, Field(max_length=20_000)] | None = None
    needs: Annotated[list[Need], Field(max_length=50)] | None = None
    expected_output: Annotated[list[str], Field(max_length=200)] | None = None
    tags: Annotated[list[str], Field(max_length=50)] | None = None
    note: Annotated[str, Field(max_length=20_000)] | None = None


def first_status(kind: str) -> RowStatus:
    """Trap kinds wait for a second person, others count at once."""
    return "needs_review" if kind in TRAP_KINDS else "confirmed"


def new_row(sent: RowIn, dataset: str, *, version: int, by: str) -> DatasetRow:
    """A row written by hand.

    Raises:
        ConflictError: no question.
    """
    if not sent.question:
        raise ConflictError("question: a row needs one")
    kind = sent.kind or "happy_path"
    return DatasetRow(
        row_id=uuid.uuid4().hex,
        dataset=dataset,
        version_added=version,
        kind=kind,
        failure=sent.failure or "unknown",
        question=sent.question,
        history=tuple(sent.history or ()),
        standalone_question=sent.standalone_question,
        needs=tuple(sent.needs or ()),
        expected_output=tuple(sent.expected_output or ()),
        status=first_status(kind),
        tags=tuple(sent.tags or ()),
        provenance=Provenance(promoted_by=by, note=sent.note),
    )


def edited(row: DatasetRow, sent: RowIn | None, *, by: str) -> DatasetRow:
    """The row after an edit; None retires it.

    When kind, needs or expected output change, the confirmation was of another label: it falls.
    """
    if sent is None:
        return replace(row, status="retired")
    changed = replace(
        row,
        question=sent.question or row.question,
        kind=sent.kind or row.kind,
        failure=sent.failure or row.failure,
        history=tuple(sent.history) if sent.history is not None else row.history,
        standalone_question=(
            sent.standalone_question
            if sent.standalone_question is not None
            else row.standalone_question
        ),
        needs=tuple(sent.needs) if sent.needs is not None else row.needs,
        expected_output=(
            tuple(sent.expected_output) if sent.expected_output is not None else row.expected_output
        ),
        tags=tuple(sent.tags) if sent.tags is not None else row.tags,
    )
    provenance = replace(row.provenance, note=sent.note or row.provenance.note)
    if not same_label(row, changed):
        provenance = replace(provenance, promoted_by=by, reviewed_by=None)
        return replace(changed, status=first_status(changed.kind), provenance=provenance)
    return replace(changed, provenance=provenance)


def same_label(a: DatasetRow, b: DatasetRow) -> bool:
    """Whether two bodies of a row make the same claim about the same question."""
    names = ("kind", "needs", "expected_output", "question")
    return all(getattr(a, name) == getattr(b, name) for name in names)


def imported_over(known: DatasetRow | None, row: DatasetRow) -> DatasetRow:
    """An imported body of a row that is there already.

    A label that changed in the file is confirmed only when the file names another reviewer than
    before: the old one saw the old label.
    """
    if known is None or row.status != "confirmed" or same_label(known, row):
        return row
    if row.provenance.reviewed_by not in {None, known.provenance.reviewed_by}:
        return row
    provenance = replace(row.provenance, reviewed_by=None)
    return replace(row, status=first_status(row.kind), provenance=provenance)


def confirm(row: DatasetRow, *, by: str) -> DatasetRow:
    """The row confirmed by a second person.

    Raises:
        ForbiddenError: the same name made the label, or no name was given.
        ConflictError: the row is retired.
    """
    if row.status == "retired":
        raise ConflictError("this row is retired")
    if by == row.provenance.promoted_by:
        raise ForbiddenError(
            f"{by!r} made this label; a second person has to confirm it"
            + (" (type your name at the top of the page)" if by == "unverified" else "")
        )
    return replace(row, status="confirmed", provenance=replace(row.provenance, reviewed_by=by))


def refuse(row: DatasetRow, *, by: str) -> DatasetRow:
    """The row after a second person said that its label is wrong: it waits and does not count.

    Raises:
        ForbiddenError: the same name made the label: it can be edited or retired.
        ConflictError: the row is retired.
    """
    if row.status == "retired":
        raise ConflictError("this row is retired")
    if by == row.provenance.promoted_by:
        raise ForbiddenError(
            f"{by!r} made this label: edit it or retire the row"
            + (" (type your name at the top of the page)" if by == "unverified" else "")
        )
    provenance = replace(row.provenance, reviewed_by=None)
    return replace(row, status="needs_review", provenance=provenance)


def check_row(row: DatasetRow) -> list[str]:
    """What is odd about a row: each sentence says what and why it matters."""
    said = []
    if row.kind == "unanswerable" and row.needs:
        said.append("an unanswerable row has needs: no passage should answer it")
    if row.kind != "unanswerable" and not row.needs:
        said.append("no needs: retrieval of this row cannot be scored with gold")
    if row.kind == "multi_hop" and len(row.needs) < 2:
        said.append("a multi_hop row has fewer than two needs")
    if row.kind == "rewrite" and not row.standalone_question:
        said.append("a rewrite row has no standalone question to compare the rewrite with")
    if len(row.expected_output) == 1 and len(row.expected_output[0]) > _LONG_FACT:
        said.append("the expected output is one long paragraph: list its facts one by one")
    return said
