"""Rules of labels that people argue about, signed deliveries, and questions seen before."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from stagewatch.api.hooks import check_signature, ticket_of
from stagewatch.api.likeness import Asked, duplicates_of
from stagewatch.api.rows import RowIn, confirm, new_row, refuse
from stagewatch.core.errors import (
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    UnauthorizedError,
)
from stagewatch.core.store.row_history import Said, changes_between, open_disagreement

AT = datetime(2026, 3, 2, tzinfo=UTC)


def said(by: str, action: str, *, label: bool = False, author: str = "Ann") -> Said:
    return Said("r", AT, by, f"row.{action}", "why", label=label, author=author)


@pytest.mark.parametrize(
    ("story", "standing"),
    [
        ([said("Ann", "add")], []),
        ([said("Bea", "refuse")], ["Bea"]),
        ([said("Bea", "refuse"), said("Cyd", "refuse")], ["Bea", "Cyd"]),
        ([said("Bea", "refuse"), said("Cyd", "confirm")], []),
        ([said("Cyd", "confirm"), said("Bea", "refuse")], ["Bea"]),
        ([said("Bea", "refuse"), said("Ann", "edit", label=True)], []),
        ([said("Bea", "refuse"), said("Ann", "edit")], ["Bea"]),
        ([said("Bea", "edit", label=True)], ["Bea"]),
        ([said("Bea", "edit", label=True), said("Ann", "confirm")], []),
        ([said("Bea", "import", label=True)], ["Bea"]),
    ],
)
def test_what_stands_until_somebody_settles_it(story: list[Said], standing: list[str]) -> None:
    assert [item.by for item in open_disagreement(story)] == standing


def test_a_refusal_takes_the_confirmation_away() -> None:
    row = new_row(RowIn(question="How long?", kind="stale_policy"), "d", version=1, by="Ann")
    confirmed = confirm(row, by="Bea")
    refused = refuse(confirmed, by="Cyd")
    assert (refused.status, refused.provenance.reviewed_by) == ("needs_review", None)
    assert [c.field for c in changes_between(confirmed, refused)] == ["provenance", "status"]
    with pytest.raises(ForbiddenError, match="edit it or retire"):
        refuse(confirmed, by="Ann")


def test_a_retired_row_cannot_be_refused() -> None:
    row = new_row(RowIn(question="How long?"), "d", version=1, by="Ann")
    with pytest.raises(ConflictError):
        refuse(replace(row, status="retired"), by="Bea")


@pytest.mark.parametrize("shape", ["{}", "sha256={}", " SHA256={} "])
def test_a_right_signature_passes_in_each_form(shape: str) -> None:
    right = hmac.new(b"key", b"body", hashlib.sha256).hexdigest()
    check_signature("key", b"body", shape.format(right))
    check_signature("key", b"body", shape.format(right.upper()))
    for secret, body in (("other", b"body"), ("key", b"body ")):
        with pytest.raises(UnauthorizedError):
            check_signature(secret, body, shape.format(right))
    with pytest.raises(UnauthorizedError):
        check_signature("key", b"body", None)


def test_a_delivery_is_read_by_its_paths() -> None:
    mapping = {
        "trace_id": "$.a[0].t", "kind": "=escalated", "comment": "$.none", "external_id": "$.id",
    }  # fmt: skip
    ticket = ticket_of(b'{"a": [{"t": "%s"}], "id": 7}' % (b"AB" * 16), mapping)
    assert (ticket.trace_id, ticket.kind, ticket.comment) == ("ab" * 16, "escalated", "")
    assert (ticket.external_id, ticket.problem) == ("7", "")
    for body in (b"", b"[]", b"{", b'{"id": true}', b'{"id": ""}'):
        with pytest.raises(InvalidInputError):
            ticket_of(body, mapping)


def test_questions_seen_before_are_those_a_full_comparison_finds() -> None:
    questions = [
        "How many days do I have to request a refund?", "How many days to request a refund?",
        "how many DAYS do I have for requesting refunds", "Do you sell gift cards?", "", "the of",
        "Refund within 14 days?", "Refund within 30 days?",
    ]  # fmt: skip
    rows = [new_row(RowIn(question=q or "?"), "d", version=1, by="a") for q in questions]
    asked = Asked()
    for number, row in enumerate(rows):
        assert asked.alike(row.question, row.kind) == duplicates_of(
            row.question, row.kind, rows[:number]
        )
        assert asked.alike(row.question, "near_miss") == []
        asked.add(row.row_id, row.question, row.kind)
