"""The field-by-field report on OTLP files, and the proposal of an attribute map."""

from __future__ import annotations

import gzip
import json
import tomllib
from pathlib import Path

import pytest
from tests.support.assemble_decode import GOLDEN

from stagewatch.collector.assemble.report import check, report_text
from stagewatch.collector.assemble.suggest import followed, suggest, suggestions_text
from stagewatch.core.errors import InvalidInputError


def test_check_tells_each_field_with_its_source() -> None:
    report = check(GOLDEN / "recommended-own-sdk")
    assert (report.files, report.traces, len(report.turns)) == (2, 2, 2)
    fields = {row.field: row for row in report.turns[1].fields}
    assert fields["question"].state == "found"
    assert fields["question"].source == "invoke_workflow refund_rag :: input.value"
    assert fields["retrievals[0]"].value == "12 chunks, ids, text, scores"
    text = report_text(report)
    assert report.turns[0].turn_id in text
    assert "window" in text


def test_check_names_what_is_missing_and_why() -> None:
    report = check(GOLDEN / "openinference-attribute-count-limit")
    fields = {row.field: row.state for row in report.turns[0].fields}
    assert fields["retrievals[0]"] == "dropped"
    assert fields["window"] == "not_captured"
    assert not report.turns[0].complete


def test_check_counts_spans_that_no_table_knows(tmp_path: Path) -> None:
    span = {"traceId": "ab" * 16, "spanId": "cd" * 8, "name": "x", "attributes": []}
    body = {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "mine"}, "spans": [span]}]}]}
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(json.dumps(body).encode()))
    (tmp_path / "b.pb").write_bytes(b"\xff\xff")
    report = check(tmp_path)
    assert report.strangers == (("mine", 1),)
    assert [Path(name).name for name, _ in report.unread] == ["b.pb"]
    assert report.turns == ()


def test_check_of_a_folder_without_otlp_says_so(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"hello": 1}')
    with pytest.raises(InvalidInputError, match="no OTLP spans"):
        check(tmp_path)


def test_content_cannot_reach_the_terminal_as_control_codes(tmp_path: Path) -> None:
    attributes = [
        {"key": "openinference.span.kind", "value": {"stringValue": "LLM"}},
        {"key": "output.value", "value": {"stringValue": "\x1b[31mred\x07"}},
    ]
    span = {"traceId": "ab" * 16, "spanId": "cd" * 8, "name": "\x1b]0;x", "attributes": attributes}
    body = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    (tmp_path / "a.json").write_text(json.dumps(body))
    text = report_text(check(tmp_path))
    assert "red" in text
    assert "\x1b" not in text
    assert "\x07" not in text


@pytest.mark.parametrize("name", ["node-custom-proto", "otel-genai-openai-content-on-span"])
def test_what_suggest_proposes_is_what_the_capture_needs(name: str) -> None:
    suggestions = suggest(GOLDEN / name)
    found = {s.field: s.attribute for s in suggestions}
    assert found["question"] == "app.question"
    assert found["answer"] == "app.answer"
    assert found["turn_index"] == "app.turn"
    assert found["index_version"] == "app.index_version"
    assert "conversation_id" not in found  # session.id is read already
    loaded = tomllib.loads(suggestions_text(suggestions))
    mapped = check(GOLDEN / name, loaded["attribute_map"])
    fields = {row.field: row for row in mapped.turns[1].fields}
    assert fields["question"].value == "And what about digital items?"
    assert fields["index_version"].value == "kb-2026-11-01"


@pytest.mark.parametrize(
    "name",
    ["recommended-own-sdk", "llamaindex-native-otel", "pydantic-ai", "openinference-openai"],
)
def test_nothing_is_suggested_for_known_conventions(name: str) -> None:
    assert [s for s in suggest(GOLDEN / name) if not s.attribute.startswith("app.")] == []


@pytest.mark.parametrize(
    "folder", sorted(p for p in GOLDEN.iterdir() if p.is_dir()), ids=lambda p: p.name
)
def test_what_is_suggested_never_costs_a_turn(folder: Path) -> None:
    before, after = followed(folder, suggest(folder))
    assert after >= before


def test_without_a_suggestion_the_text_says_so() -> None:
    assert "nothing to map" in suggestions_text(())
