"""Rows in the shapes of other tools, tickets, and likeness of questions."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from stagewatch.api.exchange import export_rows, import_rows
from stagewatch.api.likeness import Live, coverage_of, duplicate_pairs, duplicates_of
from stagewatch.api.rows import imported_over
from stagewatch.api.shapes import SHAPES
from stagewatch.api.tickets import (
    Candidate,
    match_ticket,
    parse_mapping,
    read_lines,
    read_tickets,
)
from stagewatch.core.errors import InvalidInputError
from stagewatch.core.model import DatasetRow, Message, Need, Passage, Provenance
from stagewatch.scorer.plans.rows_file import read_rows_path, write_rows_folder

ROWS = [
    DatasetRow(
        "r1", "d", 1, "stale_policy", "stale_source", "And how many days for =shoes?",
        history=(Message("user", "refunds?"), Message("assistant", "yes")),
        standalone_question="How many days for a refund of shoes?",
        needs=(Need((Passage("a#1", "a", "v7"), Passage("b#1"))), Need((Passage("c#1"),))),
        expected_output=("30 days.", "From delivery."), status="confirmed", tags=("x",),
    ),
    DatasetRow("r2", "d", 1, "unanswerable", "unknown", "Weather on Mars?"),
]  # fmt: skip
LABEL = (
    "row_id", "kind", "failure", "question", "history", "standalone_question", "needs",
    "expected_output", "status", "tags",
)  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_labels_survive_a_round_trip_through_every_shape(shape: str) -> None:
    body = export_rows(ROWS, shape)
    back = import_rows(body, shape, dataset="e", version=2, by="me")
    for old, new in zip(ROWS, back, strict=True):
        assert {n: getattr(old, n) for n in LABEL} == {n: getattr(new, n) for n in LABEL}
        assert new.dataset == "e"


@pytest.mark.parametrize(
    ("shape", "item", "question", "expected"),
    [
        ("ragas", {"user_input": "q", "reference": "a\nb"}, "q", ("a", "b")),
        ("ragas", {"question": "q", "contexts": ["c"], "ground_truth": "a"}, "q", ("a",)),
        ("ragas", {"user_input": [{"type": "human", "content": "q"}], "reference": "a"}, "q", ("a",)),
        ("deepeval", {"input": "q", "expectedOutput": "a"}, "q", ("a",)),
        ("phoenix", {"input": {"query": "q"}, "output": {"answer": "a"}}, "q", ("a",)),
        ("phoenix", {"inputs": {"anything": "q"}, "outputs": "a"}, "q", ("a",)),
        ("langfuse", {"input": {"messages": [{"role": "system", "content": "s"},
                                             {"role": "user", "content": "q"}]},
                      "expectedOutput": {"ideal": "a"}}, "q", ("a",)),
        ("openai", {"input": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}],
                    "ideal": ["a", "b"]}, "q", ("a", "b")),
        ("openai", {"item": {"question": "q", "reference": "a"}}, "q", ("a",)),
    ],
)  # fmt: skip
def test_files_as_the_tools_write_them(
    shape: str, item: dict[str, Any], question: str, expected: tuple[str, ...]
) -> None:
    for body in (json.dumps(item), json.dumps([item])):
        row = import_rows(body.encode(), shape, dataset="d", version=1, by="me")[0]
        assert (row.question, row.expected_output) == (question, expected)


def test_a_langfuse_item_keeps_its_trace() -> None:
    body = json.dumps({"input": "q", "sourceTraceId": "t1"}).encode()
    row = import_rows(body, "langfuse", dataset="d", version=1, by="me")[0]
    assert (row.provenance.trace_id, row.provenance.promoted_by) == ("t1", "me")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("body", [b'{"x": 1, "y": 2}', b"[1]", b"nope", b"[[]]"])
def test_what_is_not_of_the_shape_is_refused(shape: str, body: bytes) -> None:
    with pytest.raises(InvalidInputError):
        import_rows(body, shape, dataset="d", version=1, by="me")


def test_a_folder_of_rows_is_readable_and_reads_back(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.json").write_text('{"not": "a row"}')
    assert write_rows_folder(ROWS, tmp_path) == 2
    path = tmp_path / "stale_policy" / "and-how-many-days-for-shoes-r1.json"
    assert '\n  "question": "And how many days for =shoes?",\n' in path.read_text()
    (tmp_path / "notes" / "mine.json").unlink()
    assert {r.row_id: r for r in read_rows_path(tmp_path, "d")} == {r.row_id: r for r in ROWS}
    (tmp_path / "notes" / "mine.json").write_text('{"not": "a row"}')
    write_rows_folder(ROWS[:1], tmp_path)
    assert not (tmp_path / "unanswerable" / "weather-on-mars-r2.json").exists()
    assert (tmp_path / "notes" / "mine.json").exists()


def test_rows_in_a_file_keep_their_ids_from_run_to_run(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"question": "a"}\n\n{"question": "b", "kind": "near_miss"}\n')
    one, two = read_rows_path(path), read_rows_path(path)
    assert one == two
    assert [row.status for row in one] == ["confirmed", "needs_review"]
    path.write_text('{"question": "a"}\n{"question": "a"}\n')
    with pytest.raises(InvalidInputError, match=r"line 2: row_id .* is in rows\.jsonl line 1 too"):
        read_rows_path(path)
    path.write_text('{"question": "a", "colour": 1}\n')
    with pytest.raises(InvalidInputError, match="line 1: unknown field 'colour'"):
        read_rows_path(path)


def row(row_id: str, question: str, kind: str = "happy_path") -> DatasetRow:
    return DatasetRow(row_id, "d", 1, kind, "unknown", question)  # type: ignore[arg-type]


def test_near_duplicates_differ_in_small_words_not_in_numbers() -> None:
    rows = [
        row("a", "How many days do I have to request a refund?"),
        row("b", "How many days do you have for requesting refunds?"),
        row("c", "Can I request a refund within 30 days?"),
        row("d", "Can I request a refund within 60 days?"),
        row("e", "How many days do I have to request a refund?", "near_miss"),
    ]
    assert duplicate_pairs(rows) == [("a", "b")]
    assert duplicates_of("days to request refunds", "happy_path", rows) == ["a", "b"]


def test_coverage_weighs_questions_and_shows_what_no_row_is_about() -> None:
    rows = [row("a", "refund days"), row("b", "shipping cost", "near_miss")]
    live = [
        Live("How many days for a refund?", "t1", 7),
        Live("What does shipping cost?", "t2", 2),
        Live("Do you sell gift cards?", "t3", 1),
    ]
    found = coverage_of(live, rows)
    assert (found.questions, found.by_kind, found.far) == (10, {"happy_path": 7, "near_miss": 2}, 1)
    assert [item.turn_id for item in found.examples] == ["t3"]
    assert coverage_of(live, []).far == 10


NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
ASKED = [
    Candidate("t1", "a" * 32, "How  many days?", NOON),
    Candidate("t2", "b" * 32, "how many days", NOON + timedelta(hours=3)),
]


def ticket(**columns: str) -> Any:
    mapping = {name: name for name in columns}
    return read_tickets([columns], mapping)[0]


@pytest.mark.parametrize(
    ("at", "found"),
    [
        ("2026-03-02T13:00:00Z", "t1"),
        ("2026-03-02T16:00:00+00:00", "t2"),
        ("2026-03-02T11:00:00Z", "no turn asked this in the day before"),
        ("2026-03-09T11:00:00Z", "no turn asked this in the day before"),
    ],
)
def test_a_ticket_is_of_the_last_turn_before_it(at: str, found: str) -> None:
    got = match_ticket(ticket(question="How many days?", at=at), ASKED)
    assert (got if isinstance(got, str) else got.turn_id) == found


def test_a_ticket_without_a_time_needs_one_turn_only() -> None:
    assert match_ticket(ticket(question="how many days"), ASKED) == "2 turns asked this: map a time"
    assert match_ticket(ticket(question="else"), ASKED) == "no turn asked this"
    assert match_ticket(ticket(question="how many days"), ASKED[:1]) == ASKED[0]


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"trace_id": "xyz"}, "trace_id is not 32 hex digits"),
        ({"trace_id": "A" * 32}, ""),
        ({"trace_id": ""}, "neither trace id nor question"),
        ({"question": "q", "kind": "hated"}, "kind is none of"),
        ({"question": "q", "at": "yesterday"}, "at is not an ISO 8601 time"),
        ({"question": "q", "kind": "corrected"}, "kind corrected needs corrected_answer"),
    ],
)
def test_what_is_wrong_with_a_line_is_said(columns: dict[str, str], problem: str) -> None:
    assert ticket(**columns).problem.startswith(problem)
    assert bool(ticket(**columns).problem) == bool(problem)


def test_mappings_are_checked() -> None:
    lines = read_lines(b"Trace,Reason\n" + b"a" * 32 + b",late\n", "csv")
    mapping = parse_mapping('{"trace_id": "Trace", "comment": "Reason", "kind": "=escalated"}')
    found = read_tickets(lines, mapping)[0]
    assert (found.kind, found.comment, found.trace_id) == ("escalated", "late", "a" * 32)
    with pytest.raises(InvalidInputError, match="no column 'Nope' for comment; there are: Reason"):
        read_tickets(lines, {"trace_id": "Trace", "comment": "Nope"})
    for bad in ("[]", "nope", '{"colour": "x"}', '{"comment": "x"}', '{"trace_id": 1}'):
        with pytest.raises(InvalidInputError, match="mapping"):
            parse_mapping(bad)
    with pytest.raises(InvalidInputError, match="csv"):
        read_lines(b"\xff\xfe", "csv")


def test_a_confirmation_falls_when_an_imported_file_changes_the_label() -> None:
    seen = Provenance(promoted_by="Alice", reviewed_by="Bob")
    known = dataclasses.replace(ROWS[0], provenance=seen)
    changed = dataclasses.replace(known, expected_output=("60 days.",))
    fallen = imported_over(known, changed)
    assert (fallen.status, fallen.provenance.reviewed_by) == ("needs_review", None)
    by_carol = dataclasses.replace(changed, provenance=Provenance("", None, (), "Alice", "Carol"))
    assert imported_over(known, by_carol).status == "confirmed"
    retagged = dataclasses.replace(known, tags=("y",))
    assert imported_over(known, retagged) == retagged
    assert imported_over(None, known) == known
