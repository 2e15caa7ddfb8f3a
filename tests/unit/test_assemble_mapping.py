"""An app with names of its own: what is proposed for it, and what the proposal gives."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.support.assemble_spans import Trace, only

from stagewatch.collector.assemble.report import check, report_text
from stagewatch.collector.assemble.suggest import followed, suggest, suggestions_text
from stagewatch.core.errors import SettingsError
from stagewatch.core.settings import load_settings

QUESTION = "How long is the warranty for my laptop?"
ANSWER = "Your laptop has a warranty of two years."
HITS = [
    {"doc": "a", "body": "The warranty of a laptop is two years.", "sim": 0.9},
    {"doc": "b", "body": "Refunds are taken for thirty days.", "sim": 0.4},
]
STEPS: list[tuple[str, dict[str, Any]]] = [
    (
        "vector_search",
        {"app.search_text": "laptop warranty", "app.hits": json.dumps(HITS), "app.k": 5},
    ),
    (
        "call_llm",
        {
            "app.llm": "m-1",
            "app.prompt": f"Use: {HITS[0]['body']}\nQuestion: {QUESTION}",
            "app.completion": ANSWER,
            "app.prompt_tokens": 12,
        },
    ),
]
ROOT = {
    "app.user_question": QUESTION,
    "app.bot_reply": ANSWER,
    "app.session": "s-1",
    "app.build_sha": "abcdef1",
    "app.api_token": "not to be shown",
    "app.auth_session": "not to be shown",
}


def trace_of(root: dict[str, Any], *steps: tuple[str, dict[str, Any]]) -> Trace:
    trace = Trace()
    top = trace.add("answer_question", root)
    for name, attributes in steps:
        trace.add(name, attributes, top)
    return trace


def folder_of(trace: Trace, folder: Path) -> Path:
    spans = [
        {
            "traceId": span.trace_id,
            "spanId": span.span_id,
            "parentSpanId": span.parent_id,
            "name": span.name,
            "startTimeUnixNano": str(span.start_ns),
            "endTimeUnixNano": str(span.end_ns),
            "attributes": [
                {"key": k, "value": {"intValue" if isinstance(v, int) else "stringValue": v}}
                for k, v in span.attributes.items()
            ],
        }
        for span in trace.spans
    ]
    body = {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "mine"}, "spans": spans}]}]}
    (folder / "a.json").write_text(json.dumps(body))
    return folder


def test_the_proposal_gives_turns_when_followed(tmp_path: Path) -> None:
    folder = folder_of(trace_of(ROOT, *STEPS), tmp_path)
    proposal = suggest(folder)
    assert {s.field: s.attribute for s in proposal} == {
        "question": "app.user_question",
        "answer": "app.bot_reply",
        "conversation_id": "app.session",
        "release": "app.build_sha",
        "documents": "app.hits",
        "query": "app.search_text",
        "top_k": "app.k",
        "model": "app.llm",
        "prompt": "app.prompt",
        "completion": "app.completion",
        "input_tokens": "app.prompt_tokens",
    }
    assert followed(folder, proposal) == (0, 1)
    text = suggestions_text(proposal, followed(folder, proposal))
    assert "these files give 0 turns; with this mapping 1" in text
    assert "not to be shown" not in text
    mapping = tomllib.loads(text)["attribute_map"]
    assert load_settings({"STAGEWATCH_ATTRIBUTE_MAP": json.dumps(mapping)}).attribute_map == mapping


def test_a_mapped_turn_has_all_its_stages() -> None:
    mapping = {
        "app.user_question": "question",
        "app.bot_reply": "answer",
        "app.hits": "documents",
        "app.search_text": "query",
        "app.k": "top_k",
        "app.llm": "model",
        "app.prompt": "prompt",
        "app.prompt_tokens": "input_tokens",
    }
    got = only(trace_of(ROOT, *STEPS).turns(attribute_map=mapping))
    assert (got.question, got.answer, got.model) == (QUESTION, ANSWER, "m-1")
    (retrieval,) = got.retrievals
    assert (retrieval.query, retrieval.top_k) == ("laptop warranty", 5)
    assert [(c.document_id, c.score) for c in retrieval.chunks] == [("a", 0.9), ("b", 0.4)]
    assert [c.document_id for c in got.window] == ["a"]
    assert got.window_source == "prompt"
    assert got.usage.input_tokens == 12
    assert got.rewritten_query == "laptop warranty"


def test_all_on_one_span() -> None:
    every = {**ROOT, **STEPS[0][1], **STEPS[1][1]}
    mapping = {
        "app.user_question": "question",
        "app.bot_reply": "answer",
        "app.hits": "documents",
        "app.llm": "model",
        "app.prompt_tokens": "input_tokens",
    }
    got = only(trace_of(every).turns(attribute_map=mapping))
    assert (got.question, got.answer, got.model) == (QUESTION, ANSWER, "m-1")
    assert len(got.retrievals[0].chunks) == 2
    assert got.usage.input_tokens == 12


def test_a_mapped_question_and_answer_alone_are_a_turn() -> None:
    mapping = {"app.user_question": "question", "app.bot_reply": "answer"}
    got = only(trace_of(ROOT).turns(attribute_map=mapping))
    assert (got.question, got.answer) == (QUESTION, ANSWER)
    assert trace_of(ROOT).turns() == []


def test_a_mapped_reranking() -> None:
    ranked = ("order", {"app.best": json.dumps(HITS[::-1])})
    mapping = {"app.user_question": "question", "app.hits": "documents", "app.best": "reranked"}
    trace = trace_of(ROOT, STEPS[0], ranked, STEPS[1])
    got = only(trace.turns(attribute_map={**mapping, "app.completion": "completion"}))
    assert got.reranked is not None
    assert [chunk.document_id for chunk in got.reranked] == ["b", "a"]
    assert got.answer == ANSWER


def test_weaker_names_on_first_spans_serve_when_there_is_nothing_better(tmp_path: Path) -> None:
    root = {"app.query": QUESTION, "app.result": ANSWER}
    folder = folder_of(trace_of(root, ("llm", {"app.model": "m-1"})), tmp_path)
    proposal = suggest(folder)
    found = {s.field: s.attribute for s in proposal}
    assert found == {"question": "app.query", "answer": "app.result", "model": "app.model"}
    assert followed(folder, proposal) == (0, 1)


def test_names_seen_only_in_an_event_of_the_first_span(tmp_path: Path) -> None:
    folder = folder_of(trace_of({}), tmp_path)
    body = json.loads((folder / "a.json").read_text())
    (span,) = body["resourceSpans"][0]["scopeSpans"][0]["spans"]
    told = [("app.query", QUESTION), ("app.result", ANSWER)]
    attributes = [{"key": key, "value": {"stringValue": value}} for key, value in told]
    span["events"] = [{"name": "asked", "timeUnixNano": "1", "attributes": attributes}]
    (folder / "a.json").write_text(json.dumps(body))
    proposal = suggest(folder)
    assert [s.where for s in proposal] == ["answer_question (event asked)"] * 2
    assert followed(folder, proposal) == (0, 1)


def test_check_says_why_there_is_no_turn_and_knows_mapped_spans(tmp_path: Path) -> None:
    folder = folder_of(trace_of(ROOT, *STEPS), tmp_path)
    report = check(folder)
    ((why, count, _),) = report.turnless
    assert (why, count) == ("no span is of a known convention or carries a mapped attribute", 1)
    assert "traces that give no turn" in report_text(report)
    mapped = check(folder, {s.attribute: s.field for s in suggest(folder)})
    assert mapped.turnless == ()
    assert mapped.strangers == ()


@pytest.mark.parametrize("text", ['{"app.q": "question"}', '{"app.q" = "question"}'])
def test_a_variable_takes_json_and_toml(text: str) -> None:
    assert load_settings({"STAGEWATCH_ATTRIBUTE_MAP": text}).attribute_map == {"app.q": "question"}


@pytest.mark.parametrize("text", ["[1", '{"app.q": "qestion"}', "7"])
def test_a_variable_that_is_no_mapping_stops_the_start(text: str) -> None:
    with pytest.raises(SettingsError, match="ATTRIBUTE_MAP"):
        load_settings({"STAGEWATCH_ATTRIBUTE_MAP": text})
