"""The review queue: flagged turns with a suggestion each; accept, reject, label, promote."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from stagewatch.api.deps import ContextDep, Reader, Writer
from stagewatch.api.likeness import duplicates_of
from stagewatch.api.promote import (
    Overrides,
    build_row,
    suggest_failure,
    suggest_kind,
    suggest_needs,
)
from stagewatch.api.routes.turns import Limit, find_turn, json_response
from stagewatch.api.views import load_turn_view, page_json, summaries
from stagewatch.core.auth import ANY_PROJECT
from stagewatch.core.codec import to_json, to_plain
from stagewatch.core.errors import InvalidInputError
from stagewatch.core.model import Need, RowKind, Stage
from stagewatch.core.service import Context
from stagewatch.core.store.datasets import (
    current_rows,
    ensure_dataset,
    latest_version,
    put_row,
    row_of_turn,
)
from stagewatch.core.store.documents import audit
from stagewatch.core.store.feedback import Flag, flags_of, put_flags
from stagewatch.core.store.turns import TurnFilter, count_turns, list_turns, turns_by_id
from stagewatch.scorer.calibration_state import LABELS

router = APIRouter(tags=["review"])

DatasetName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]


class LabelIn(BaseModel):
    """One hand label: of a claim (SUPPORTED, ABSENT, CONTRADICTED), a chunk or a whole turn."""

    model_config = ConfigDict(extra="forbid")

    metric: Literal[
        "faithfulness",
        "chunk_relevance",
        "context_sufficiency",
        "rewrite_fidelity",
        "answer_relevancy",
    ]
    item: Annotated[str, Field(max_length=20_000)] = ""
    label: Annotated[str, Field(max_length=40)]

    @model_validator(mode="after")
    def known(self) -> LabelIn:
        """Only the labels that the judge itself may give can be compared with it."""
        allowed = LABELS[self.metric]
        if self.label not in allowed:
            names = ", ".join(allowed)
            raise PydanticCustomError(
                "label",
                "label of {metric}: use one of {names}",
                {"metric": self.metric, "names": names},
            )
        return self


class ReviewIn(BaseModel):
    """Body of POST /review/{turn_id}."""

    model_config = ConfigDict(extra="forbid")

    action: Literal["flag", "accept", "reject", "label"]
    note: Annotated[str, Field(max_length=20_000)] = ""
    labels: Annotated[list[LabelIn], Field(max_length=200)] = []


class PromoteIn(BaseModel):
    """Body of POST /turns/{turn_id}/promote; what is left out is filled in from the turn."""

    model_config = ConfigDict(extra="forbid")

    dataset: DatasetName
    kind: RowKind | None = None
    failure: Stage | None = None
    needs: list[Need] | None = None
    expected_output: Annotated[list[str], Field(max_length=200)] | None = None
    standalone_question: Annotated[str, Field(max_length=20_000)] | None = None
    note: Annotated[str, Field(max_length=20_000)] | None = None
    tags: Annotated[list[str], Field(max_length=50)] = []


@router.get("/review")
def get_review(
    context: ContextDep, caller: Reader, limit: Limit = 50, cursor: str | None = None
) -> Response:
    """Flagged turns, newest first, each with the row it would become."""
    wanted = TurnFilter(project=caller.project, flagged=True)
    rows, following = list_turns(context.store, wanted, limit=limit, cursor=cursor)
    total, exact = count_turns(context.store, wanted)
    turns = turns_by_id(context.store, [row["turn_id"] for row in rows])
    items: list[dict[str, Any]] = []
    for item in summaries(context.store, rows):
        turn = turns.get(item["turn_id"])
        if turn is not None:
            view = load_turn_view(context.store, turn)
            item["suggested"] = {
                "kind": suggest_kind(view),
                "failure": suggest_failure(view),
                "needs": suggest_needs(view),
            }
            item["feedback"] = view.feedback
        items.append(item)
    return json_response(page_json(items, next_cursor=following, total=total, total_exact=exact))


def close_flags(context: Context, project: str, turn_id: str, state: str, by: str) -> int:
    """Move a turn's open flags to `state`; how many there were."""
    now = context.clock.now()
    open_flags = [
        flag for flag in flags_of(context.store, [turn_id]).get(turn_id, []) if flag.state == "open"
    ]
    put_flags(
        context.store,
        [Flag(project, turn_id, flag.reason, state, now, by=by) for flag in open_flags],
    )
    return len(open_flags)


@router.post("/review/{turn_id}")
def post_review(context: ContextDep, caller: Writer, turn_id: str, sent: ReviewIn) -> Response:
    """Flag a turn, accept or reject its flags, or store hand labels of it."""
    turn = find_turn(context.store, turn_id, caller.project)
    now = context.clock.now()
    if sent.action == "flag":
        put_flags(
            context.store,
            [Flag(turn.project, turn_id, "reviewer", "open", now, sent.note, caller.name)],
        )
        changed = 1
    elif sent.action == "label":
        if not sent.labels:
            raise InvalidInputError("action 'label' needs labels")
        changed = store_labels(context, turn.project, turn_id, caller.name, sent.labels)
    else:
        state = {"accept": "accepted", "reject": "rejected"}[sent.action]
        changed = close_flags(context, turn.project, turn_id, state, caller.name)
    audit(
        context.store,
        project=turn.project,
        by=caller.name,
        action=f"review.{sent.action}",
        subject=turn_id,
        at=now,
    )
    return json_response(to_json({"turn_id": turn_id, "action": sent.action, "changed": changed}))


def store_labels(
    context: Context, project: str, turn_id: str, by: str, labels: list[LabelIn]
) -> int:
    """Store hand labels; the same person's newer label of the same item replaces the old one."""
    now = context.clock.now()
    rows = []
    for label in labels:
        key = to_json((turn_id, label.metric, label.item, by))
        rows.append(
            {
                "project": project,
                "label_id": hashlib.sha256(key).hexdigest()[:32],
                "turn_id": turn_id,
                "metric": label.metric,
                "item": label.item,
                "label": label.label,
                "by": by,
                "at": now,
            }
        )
    return context.store.put("labels", rows)


@router.post("/turns/{turn_id}/promote", status_code=201)
def post_promote(context: ContextDep, caller: Writer, turn_id: str, sent: PromoteIn) -> Response:
    """Make the turn a dataset row: 201 when new, with `duplicates`, the ids of rows of its kind
    that ask the same thing; 200 with the row that is there already.
    """
    anywhere = caller.principal.project == ANY_PROJECT
    turn = find_turn(context.store, turn_id, caller.project, any_project=anywhere)
    project, store, now = turn.project, context.store, context.clock.now()
    found = row_of_turn(store, project, sent.dataset, turn_id)
    if found is not None and found.status != "retired":
        close_flags(context, project, turn_id, "promoted", caller.name)
        return json_response(to_json(found), 200)
    row = build_row(
        load_turn_view(store, turn),
        sent.dataset,
        version=latest_version(store, project, sent.dataset) + 1,
        by=caller.name,
        chosen=Overrides(
            kind=sent.kind,
            failure=sent.failure,
            needs=tuple(sent.needs) if sent.needs is not None else None,
            expected_output=(
                tuple(sent.expected_output) if sent.expected_output is not None else None
            ),
            standalone_question=sent.standalone_question,
            note=sent.note,
            tags=tuple(sent.tags),
        ),
    )
    alike = duplicates_of(row.question, row.kind, current_rows(store, project, sent.dataset))
    ensure_dataset(store, project, sent.dataset, at=now)
    put_row(store, project, row, at=now)
    close_flags(context, project, turn_id, "promoted", caller.name)
    audit(
        store,
        project=project,
        by=caller.name,
        action="promote",
        subject=turn_id,
        at=now,
        detail={"dataset": sent.dataset, "row_id": row.row_id, "kind": row.kind},
    )
    return json_response(to_json({**to_plain(row), "duplicates": alike}), 201)
