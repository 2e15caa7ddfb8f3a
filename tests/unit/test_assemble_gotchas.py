"""What emitters really do, one oddity a test: each was seen on the wire or in an emitter's source."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.assemble_spans import Trace, event, only, why

from stagewatch.collector.assemble.lenient import value_limit
from stagewatch.collector.assemble.otlp_file import read_otlp_file
from stagewatch.core.model import Missing, Turn

QUESTION = "How long is the refund window?"
ANSWER = "Thirty days after delivery."
PASSAGES = ["Refunds are taken for thirty days after delivery.", "The warranty lasts two years."]


def oi_turn(**llm: Any) -> Trace:
    """Question, two passages, one model call, in OpenInference's names."""
    trace = Trace()
    root = trace.add(
        "bot",
        {"openinference.span.kind": "CHAIN", "input.value": QUESTION, "output.value": ANSWER},
    )
    found = {
        f"retrieval.documents.{at}.document.{name}": value
        for at, text in enumerate(PASSAGES)
        for name, value in (("id", f"d{at}"), ("content", text))
    }
    trace.add("find", {"openinference.span.kind": "RETRIEVER", **found}, root)
    trace.add("llm", {"openinference.span.kind": "LLM", **llm}, root)
    return trace


def genai_turn(*steps: tuple[str, dict[str, Any]]) -> Trace:
    trace = Trace()
    root = trace.add("bot", {"openinference.span.kind": "CHAIN", "input.value": QUESTION})
    for name, attributes in steps:
        trace.add(name, attributes, root)
    return trace


def chat(**more: Any) -> tuple[str, dict[str, Any]]:
    reply = [{"role": "assistant", "parts": [{"type": "text", "content": ANSWER}]}]
    told = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai"}
    return "chat", {**told, "gen_ai.output.messages": json.dumps(reply), **more}


# -- cut values ------------------------------------------------------------------------------


def test_a_prompt_cut_by_a_length_limit_does_not_shorten_the_window_unsaid() -> None:
    limit = len(PASSAGES[0]) + 10
    prompt = f"Context:\n{PASSAGES[0]}\n{PASSAGES[1]}\n{QUESTION}"
    whole = {"llm.input_messages.0.message.role": "user"}
    name = "llm.input_messages.0.message.content"
    asked = json.dumps({"messages": [{"role": "user", "content": prompt}]})
    got = only(oi_turn(**whole, **{name: prompt, "input.value": asked}).turns())
    assert [chunk.chunk_id for chunk in got.window] == ["d0", "d1"]
    assert got.complete
    got = only(oi_turn(**whole, **{name: prompt[:limit], "input.value": asked[:limit]}).turns())
    assert why(got, "window") == "truncated"
    assert not got.complete


def test_passages_of_one_size_are_no_sign_of_a_limit() -> None:
    same = {f"retrieval.documents.{n}.document.content": str(n) * 800 for n in range(5)}
    same["input.value"] = "[1] is cited [2]".ljust(800, ".")
    same["output.value"] = json.dumps(["x" * 796])
    assert {len(value) for value in same.values()} == {800}
    assert value_limit(same) == 0
    assert value_limit({**same, "cut": json.dumps(["y" * 900])[:800]}) == 800


# -- hidden texts ----------------------------------------------------------------------------


@pytest.mark.parametrize("mark", ["__REDACTED__", "sha256:" + "0" * 32])
def test_a_mark_in_place_of_a_passage_is_no_text(mark: str) -> None:
    trace = Trace()
    root = trace.add("bot", {"openinference.span.kind": "CHAIN", "input.value": QUESTION})
    prefix = "retrieval.documents.0.document."
    hidden = {prefix + "id": "d0", prefix + "content": mark, prefix + "score": 0.5}
    trace.add("find", {"openinference.span.kind": "RETRIEVER", **hidden}, root)
    trace.add("llm", {"openinference.span.kind": "LLM", "output.value": ANSWER}, root)
    got = only(trace.turns())
    (chunk,) = got.retrievals[0].chunks
    assert (chunk.chunk_id, chunk.content, chunk.score) == ("d0", "", 0.5)
    assert why(got, "retrievals[0].content") == "redacted"


def test_an_empty_answer_is_an_answer() -> None:
    said = [{"role": "assistant", "parts": [{"type": "text", "content": ""}]}]
    empty = genai_turn(chat(**{"gen_ai.output.messages": json.dumps(said)}))
    got = only(empty.turns())
    assert got.answer == ""
    assert why(got, "answer") is None
    silent = genai_turn(("chat", {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "x"}))
    got = only(silent.turns())
    assert got.answer is None
    assert why(got, "answer") == "not_captured"


# -- tools -----------------------------------------------------------------------------------

ROWS = [{"id": f"d{at}", "content": text, "score": 0.5} for at, text in enumerate(PASSAGES)]


def tool(name: str, result: Any) -> tuple[str, dict[str, Any]]:
    return f"execute_tool {name}", {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.call.arguments": json.dumps({"query": "refund window"}),
        "gen_ai.tool.call.result": json.dumps(result),
    }


def test_an_agents_search_tool_is_a_retrieval() -> None:
    got = only(genai_turn(tool("search_kb", ROWS), chat()).turns())
    (retrieval,) = got.retrievals
    assert retrieval.query == "refund window"
    assert [chunk.content for chunk in retrieval.chunks] == PASSAGES
    assert got.rewritten_query == "refund window"


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("send_mail", ROWS),
        ("search_orders", [{"id": 5, "status": "shipped"}]),
        ("lookup_customer", {"id": 5, "name": "Ann"}),
    ],
)
def test_other_tools_are_none(name: str, result: Any) -> None:
    got = only(genai_turn(tool(name, result), chat()).turns())
    assert got.retrievals == ()


def test_what_a_tool_gave_back_is_not_what_the_user_said() -> None:
    messages = [
        {"role": "user", "parts": [{"type": "text", "content": QUESTION}]},
        {"role": "user", "parts": [{"type": "tool_call_response", "id": "c1", "result": ROWS}]},
    ]
    trace = Trace()
    root = trace.add(
        "agent", {"gen_ai.operation.name": "invoke_agent", "gen_ai.provider.name": "x"}
    )
    for name, attributes in (
        tool("search_kb", ROWS),
        chat(**{"gen_ai.input.messages": json.dumps(messages)}),
    ):
        trace.add(name, attributes, root)
    got = only(trace.turns())
    assert got.question == QUESTION
    assert [chunk.chunk_id for chunk in got.window] == ["d0", "d1"]
    assert got.window_source == "prompt"


# -- GenAI -----------------------------------------------------------------------------------


@pytest.mark.parametrize("encode", [json.dumps, lambda value: value])
@pytest.mark.parametrize("top_k", ["gen_ai.retrieval.top_k", "gen_ai.request.top_k"])
def test_json_text_and_structured_values_read_alike(encode: Any, top_k: str) -> None:
    found = (
        "retrieval kb",
        {
            "gen_ai.operation.name": "retrieval",
            "gen_ai.retrieval.query.text": "refund window",
            "gen_ai.retrieval.documents": encode([{"id": "d0", "score": 1}, {"id": "d1"}]),
            top_k: 7,
        },
    )
    asked = [{"role": "user", "parts": [{"type": "text", "content": QUESTION}]}]
    said = [{"role": "assistant", "parts": [{"type": "text", "content": ANSWER}]}]
    messages = {
        "gen_ai.input.messages": encode(asked),
        "gen_ai.output.messages": encode(said),
    }
    got = only(genai_turn(found, chat(**messages)).turns())
    (retrieval,) = got.retrievals
    assert [(c.rank, c.chunk_id, c.score) for c in retrieval.chunks] == [
        (1, "d0", 1),
        (2, "d1", None),
    ]
    assert (retrieval.query, retrieval.top_k) == ("refund window", 7)
    assert got.answer == ANSWER


def test_a_memory_search_is_a_retrieval() -> None:
    memory = (
        "search_memory",
        {
            "gen_ai.operation.name": "search_memory",
            "gen_ai.provider.name": "x",
            "gen_ai.memory.query.text": "what we said of refunds",
            "gen_ai.memory.records": json.dumps(ROWS),
        },
    )
    got = only(genai_turn(memory, chat()).turns())
    assert got.retrievals[0].query == "what we said of refunds"
    assert [chunk.content for chunk in got.retrievals[0].chunks] == PASSAGES


def test_a_conversation_told_by_one_span_is_the_turns_and_the_roots_word_is_last() -> None:
    inner = chat(**{"gen_ai.conversation.id": "from the call"})
    assert only(genai_turn(inner).turns()).conversation_id == "from the call"
    trace = genai_turn(inner)
    trace.spans[0].attributes["session.id"] = "from the root"
    assert only(trace.turns()).conversation_id == "from the root"


# -- OpenInference ---------------------------------------------------------------------------


def test_messages_of_several_parts() -> None:
    prefix = "llm.input_messages.0.message."
    parts = {
        prefix + "role": "user",
        prefix + "contents.0.message_content.type": "text",
        prefix + "contents.0.message_content.text": f"Context: {PASSAGES[1]} ",
        prefix + "contents.1.message_content.type": "text",
        prefix + "contents.1.message_content.text": QUESTION,
    }
    got = only(oi_turn(**parts).turns())
    assert [chunk.chunk_id for chunk in got.window] == ["d1"]


def test_flattened_ranks_are_numbers_with_gaps() -> None:
    trace = Trace()
    root = trace.add("bot", {"openinference.span.kind": "CHAIN", "input.value": QUESTION})
    numbered = {f"retrieval.documents.{n}.document.id": f"d{n}" for n in (10, 2, 9, 0)}
    trace.add("find", {"openinference.span.kind": "RETRIEVER", **numbered}, root)
    trace.add("llm", {"openinference.span.kind": "LLM", "output.value": ANSWER}, root)
    got = only(trace.turns())
    told = [(chunk.rank, chunk.chunk_id) for chunk in got.retrievals[0].chunks]
    assert told == [(1, "d0"), (3, "d2"), (10, "d9"), (11, "d10")]


# -- vector stores ---------------------------------------------------------------------------


def store_turn(attributes: dict[str, Any], *events: Any) -> Turn:
    trace = Trace()
    root = trace.add("bot", {"openinference.span.kind": "CHAIN", "input.value": QUESTION})
    trace.add(
        "embed",
        {
            "gen_ai.operation.name": "embeddings",
            "gen_ai.provider.name": "x",
            "gen_ai.input.messages": "refund window",
        },
        root,
    )
    trace.add("query", attributes, root, events=events)
    name, told = chat()
    trace.add(name, told, root)
    return only(trace.turns())


def test_pinecones_metadata_is_a_python_text_and_its_score_a_score() -> None:
    told: dict[str, Any] = {
        "db.query.result.id": "d0",
        "db.query.result.score": 0.75,
        "db.query.result.metadata": "{'text': 'Refunds…', 'n': __import__('os')}",
    }
    got = store_turn(
        {"db.system": "Pinecone", "db.operation": "query", "db.vector.query.top_k": 4},
        event("db.query.result", **told),
    )
    (retrieval,) = got.retrievals
    (chunk,) = retrieval.chunks
    assert (chunk.chunk_id, chunk.score, chunk.metadata) == ("d0", 0.75, {})
    assert (retrieval.query, retrieval.top_k) == ("refund window", 4)


def test_milvus_writes_distances_as_text() -> None:
    told: dict[str, Any] = {"db.search.result.id": "7", "db.search.result.distance": "0.25"}
    got = store_turn(
        {"db.system": "milvus", "db.operation": "search"}, event("db.search.result", **told)
    )
    (chunk,) = got.retrievals[0].chunks
    assert (chunk.chunk_id, chunk.score, chunk.score_kind) == ("7", 0.25, "distance")


# -- Langfuse --------------------------------------------------------------------------------


def test_a_root_whose_own_parent_was_filtered_out_is_the_root() -> None:
    trace = Trace()
    root = trace.add(
        "ask",
        {
            "langfuse.observation.type": "chain",
            "langfuse.observation.input": QUESTION,
            "langfuse.observation.output": ANSWER,
            "langfuse.internal.as_root": True,
        },
        "00f067aa0ba902b7",
    )
    trace.add(
        "llm",
        {"langfuse.observation.type": "generation", "langfuse.observation.output": ANSWER},
        root,
    )
    got = only(trace.turns())
    assert (got.span_id, got.question, got.answer) == (root.span_id, QUESTION, ANSWER)
    assert got.complete
    assert Missing("root", "not_captured") not in got.missing


# -- OTLP/JSON -------------------------------------------------------------------------------


def test_odd_values_of_otlp_json(tmp_path: Path) -> None:
    span = {
        "traceId": "0AF7651916CD43DD8448EB211C80319C",
        "spanId": "b7ad6b7169203331",
        "name": "s",
        "startTimeUnixNano": "1",
        "endTimeUnixNano": 2,
        "attributes": [
            {"key": "empty", "value": {}},
            {"key": "absent"},
            {"key": "bytes", "value": {"bytesValue": base64.b64encode(b"\x00\xff").decode()}},
            {"key": "twice", "value": {"stringValue": "first"}},
            {"key": "twice", "value": {"stringValue": "last"}},
            {"key": "text int", "value": {"intValue": "7"}},
            {"key": "number int", "value": {"intValue": 7}},
            {
                "key": "mixed",
                "value": {"arrayValue": {"values": [{"intValue": 1}, {"doubleValue": 0.5}]}},
            },
        ],
        "somethingNew": {"ignored": True},
    }
    body = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    file = tmp_path / "001.traces.json"
    file.write_text(json.dumps(body))
    (row,) = read_otlp_file(file)[0]
    assert row.trace_id == "0af7651916cd43dd8448eb211c80319c"
    assert row.attributes.get("empty") is None
    assert row.attributes.get("absent") is None
    assert row.attributes["bytes"] == b"\x00\xff"
    assert row.attributes["twice"] == "last"
    assert row.attributes["text int"] == row.attributes["number int"] == 7
    assert row.attributes["mixed"] == [1, 0.5]


def test_passages_without_captured_words_take_them_from_the_prompt() -> None:
    prompt = "\n".join(f"[d{at}] {text}" for at, text in enumerate(PASSAGES))
    messages = [{"role": "user", "parts": [{"type": "text", "content": f"{prompt}\n\n{QUESTION}"}]}]
    found = (
        "retrieval",
        {
            "gen_ai.operation.name": "retrieval",
            "gen_ai.retrieval.query.text": QUESTION,
            "gen_ai.retrieval.documents": json.dumps([{"id": f"d{n}"} for n in range(4)]),
        },
    )
    got = only(genai_turn(found, chat(**{"gen_ai.input.messages": json.dumps(messages)})).turns())
    assert [(c.chunk_id, c.content) for c in got.window] == [
        ("d0", PASSAGES[0]),
        ("d1", PASSAGES[1]),
    ]
    assert [c.content for c in got.retrievals[0].chunks] == [""] * 4
