"""Which tools and functions are searches: by whole words of their names and by what they return."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.assemble_spans import Trace, only, why

from stagewatch.core.model import Turn

QUESTION = "How long is the warranty?"
ANSWER = "Two years."
ROWS = [{"id": "d0", "text": "The warranty lasts two years."}]


def turn_of(name: str, output: Any, kind: str = "TOOL", **changes: Any) -> Turn:
    trace = Trace()
    told = {"openinference.span.kind": "CHAIN", "input.value": QUESTION, "output.value": ANSWER}
    top = trace.add("bot", told)
    text = output if isinstance(output, str) else json.dumps(output)
    attributes = {"openinference.span.kind": kind, "input.value": '{"query": "warranty"}'}
    trace.add(name, {**attributes, "output.value": text}, top, **changes)
    trace.add("llm", {"openinference.span.kind": "LLM", "output.value": ANSWER}, top)
    return only(trace.turns())


@pytest.mark.parametrize(
    "name",
    [
        "search_kb",
        "searchDocs",
        "KBSearch",
        "websearch",
        "web-search",
        "VectorStoreQuery",
        "DocumentRetriever",
        "retrieve",
        "lookup_policy_documents",
        "kb_lookup",
        "execute_tool search",
    ],
)
def test_a_tool_that_searches_is_a_retrieval(name: str) -> None:
    got = turn_of(name, ROWS)
    assert [chunk.chunk_id for r in got.retrievals for chunk in r.chunks] == ["d0"]
    assert got.retrievals[0].query == "warranty"


@pytest.mark.parametrize(
    "name",
    [
        "research_notes_writer",
        "lookup_customer",
        "lookup_price",
        "validate_search_form",
        "search_and_replace",
        "websearch_click",
        "retrieve_password_hint",
        "core_ranking",
    ],
)
def test_a_tool_that_does_something_else_is_none(name: str) -> None:
    got = turn_of(name, ROWS)
    assert got.retrievals == ()
    assert got.reranked is None


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("search_files", ["file1.txt", "file2.txt"]),
        ("score-search", ["gold", "silver"]),
        ("retrieve_hint", ["your dog's name"]),
        ("web_search", '["ok"]'),
        ("search_steps", {"results": ["step one", "step two"]}),
    ],
)
def test_a_list_of_bare_words_is_no_passage_list(name: str, output: Any) -> None:
    assert turn_of(name, output).retrievals == ()


def test_bare_sentences_are_passages() -> None:
    (retrieval,) = turn_of("retrieve", ["The warranty lasts two years.", "ok"]).retrievals
    assert [chunk.content for chunk in retrieval.chunks] == ["The warranty lasts two years.", "ok"]


def test_a_ranking_function_that_returns_labels_is_no_rerank() -> None:
    got = turn_of("rerank", ["a", "b"], "CHAIN")
    assert got.reranked is None
    assert got.window == ()


def test_a_rerank_without_its_result_says_so() -> None:
    before = {"reranker.input_documents.0.document.id": "d0"}
    trace = Trace()
    told = {"openinference.span.kind": "CHAIN", "input.value": QUESTION, "output.value": ANSWER}
    top = trace.add("bot", told)
    trace.add("rank", {"openinference.span.kind": "RERANKER", **before}, top)
    trace.add("llm", {"openinference.span.kind": "LLM", "output.value": ANSWER}, top)
    got = only(trace.turns())
    assert got.reranked is None
    assert why(got, "reranked") == "not_captured"
    assert why(turn_of("search", ROWS), "reranked") is None


def test_a_search_that_failed_and_was_got_over_is_said() -> None:
    got = turn_of("find", [], "RETRIEVER", status_code=2, status_message="index is down")
    assert got.error is None
    assert got.answer == ANSWER
    assert got.retrievals[0].query == "warranty"
    assert why(got, "retrievals[0].chunks") == "failed"


def test_a_failed_search_that_says_nothing_else_and_a_failed_rerank_are_said() -> None:
    trace = Trace()
    told = {"openinference.span.kind": "CHAIN", "input.value": QUESTION, "output.value": ANSWER}
    top = trace.add("bot", told)
    trace.add("find", {"openinference.span.kind": "RETRIEVER"}, top, status_code=2)
    trace.add("rank", {"openinference.span.kind": "RERANKER"}, top, status_code=2)
    trace.add("llm", {"openinference.span.kind": "LLM", "output.value": ANSWER}, top)
    got = only(trace.turns())
    assert len(got.retrievals) == 1
    assert why(got, "retrievals[0].chunks") == "failed"
    assert why(got, "reranked") == "failed"


@pytest.mark.parametrize(
    ("name", "found"), [("search_kb", 1), ("research_plan", 0), ("send_mail", 0)]
)
def test_a_tools_own_name_counts_where_the_spans_is_general(name: str, found: int) -> None:
    trace = Trace()
    told = {"openinference.span.kind": "CHAIN", "input.value": QUESTION, "output.value": ANSWER}
    top = trace.add("bot", told)
    called = {"openinference.span.kind": "TOOL", "tool.name": name}
    trace.add("tool", {**called, "output.value": json.dumps(ROWS)}, top)
    trace.add("llm", {"openinference.span.kind": "LLM", "output.value": ANSWER}, top)
    assert len(only(trace.turns()).retrievals) == found


def test_the_model_says_where_it_was_read() -> None:
    trace = Trace()
    trace.add(
        "llm",
        {
            "openinference.span.kind": "LLM",
            "input.value": QUESTION,
            "output.value": ANSWER,
            "llm.model_name": "m-1",
        },
    )
    got = only(trace.turns())
    assert (got.request_model, got.response_model, got.model) == (None, "m-1", "m-1")
    assert {s.field: s.key for s in got.sources}["response_model"] == "llm.model_name"
