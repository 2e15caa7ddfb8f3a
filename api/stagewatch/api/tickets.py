"""Feedback from files: exports of help desks and chargeback lists, their columns mapped. Pure.

A line names its turn by trace id, or by the question and the time it was asked.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import orjson

from stagewatch.core.clock import clamped
from stagewatch.core.errors import InvalidInputError
from stagewatch.core.model import FeedbackKind

TARGETS = (
    "trace_id",
    "turn_id",
    "question",
    "at",
    "kind",
    "comment",
    "corrected_answer",
    "external_id",
)
"""What a column can be mapped to. A mapping that starts with "=" is a fixed value."""

KINDS: frozenset[str] = frozenset(get_args(FeedbackKind))
WITHIN = timedelta(hours=24)
"""How far a ticket's time may be from the turn's: people complain later than they ask."""

_TRACE = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Ticket:
    """One line after mapping; `number` counts from 1 without the header."""

    number: int
    trace_id: str = ""
    turn_id: str = ""
    question: str = ""
    at: datetime | None = None
    kind: str = "disputed"
    comment: str = ""
    corrected_answer: str = ""
    external_id: str = ""
    problem: str = ""


def parse_mapping(text: str) -> dict[str, str]:
    """Target → column (or "=value") from JSON.

    Raises:
        InvalidInputError: not a JSON object of texts, an unknown target, or no way to find turns.
    """
    try:
        body = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise InvalidInputError("mapping: not JSON") from None
    if not isinstance(body, dict) or not all(isinstance(v, str) for v in body.values()):
        raise InvalidInputError("mapping: an object of target → column name")
    unknown = sorted(set(body) - set(TARGETS))
    if unknown:
        raise InvalidInputError(f"mapping: unknown target {unknown[0]!r}; use {', '.join(TARGETS)}")
    if "trace_id" not in body and "question" not in body:
        raise InvalidInputError("mapping: trace_id, or question (with at), must be mapped")
    return dict(body)


def read_lines(body: bytes, kind: str) -> list[dict[str, Any]]:
    """The lines of a CSV or JSON lines file as column → value.

    Raises:
        InvalidInputError: the file is not of that kind.
    """
    try:
        text = body.decode("utf-8-sig")
        if kind == "csv":
            return [dict(row) for row in csv.DictReader(io.StringIO(text, newline=""))]
        found = [orjson.loads(line) for line in text.splitlines() if line.strip()]
    except (UnicodeDecodeError, csv.Error, orjson.JSONDecodeError):
        raise InvalidInputError(f"not a UTF-8 {kind} file") from None
    if not all(isinstance(item, dict) for item in found):
        raise InvalidInputError("every line must be a JSON object")
    return found


def read_tickets(lines: Sequence[Mapping[str, Any]], mapping: Mapping[str, str]) -> list[Ticket]:
    """Every line as a ticket; what is wrong with one is in its `problem`.

    Raises:
        InvalidInputError: a mapped column is in no line.
    """
    columns = {column for line in lines for column in line}
    for target, column in mapping.items():
        if lines and not column.startswith("=") and column not in columns:
            raise InvalidInputError(
                f"mapping: no column {column!r} for {target}; "
                f"there are: {', '.join(sorted(columns))}"
            )
    return [_ticket(number, line, mapping) for number, line in enumerate(lines, start=1)]


def _ticket(number: int, line: Mapping[str, Any], mapping: Mapping[str, str]) -> Ticket:
    values = {
        target: column[1:] if column.startswith("=") else str(line.get(column) or "").strip()
        for target, column in mapping.items()
    }
    kind = values.pop("kind", "").lower().replace(" ", "_") or "disputed"
    at_text = values.pop("at", "")
    at = _moment(at_text)
    values["trace_id"] = values.get("trace_id", "").lower().replace("-", "")
    problem = ""
    if kind not in KINDS:
        problem = f"kind is none of {', '.join(sorted(KINDS))}"
    elif values["trace_id"] and not _TRACE.fullmatch(values["trace_id"]):
        problem = "trace_id is not 32 hex digits"
    elif at_text and at is None:
        problem = "at is not an ISO 8601 time"
    elif not values["trace_id"] and not values.get("question"):
        problem = "neither trace id nor question"
    elif kind == "corrected" and not values.get("corrected_answer"):
        problem = "kind corrected needs corrected_answer"
    return Ticket(number=number, kind=kind, at=at, problem=problem, **values)


def _moment(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return clamped(found if found.tzinfo else found.replace(tzinfo=UTC))


@dataclass(frozen=True, slots=True)
class Candidate:
    """A turn that a ticket may be about."""

    turn_id: str
    trace_id: str
    question: str
    started_at: datetime


def same_question(text: str) -> str:
    """A question without case, punctuation at its end and repeated blanks."""
    return " ".join(text.lower().split()).rstrip("?!. ")


def match_ticket(ticket: Ticket, candidates: Sequence[Candidate]) -> Candidate | str:
    """The turn a ticket is about, else why none could be named.

    The question must be the same; with a time, the last turn before it and within a day counts
    (a complaint follows its answer). Without one, there must be exactly one such turn.
    """
    wanted = same_question(ticket.question)
    found = [item for item in candidates if same_question(item.question) == wanted]
    if not found:
        return "no turn asked this"
    if ticket.at is None:
        return found[0] if len(found) == 1 else f"{len(found)} turns asked this: map a time"
    at = ticket.at
    near = [item for item in found if timedelta(0) <= at - item.started_at <= WITHIN]
    if not near:
        return "no turn asked this in the day before"
    return max(near, key=lambda item: item.started_at)
