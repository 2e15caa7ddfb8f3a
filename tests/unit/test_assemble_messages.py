"""What is said in a message, and what is only in it: thoughts, pictures, marks of hidden texts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.assemble_spans import Trace, only, why

from stagewatch.collector.assemble.shapes import messages_of, reply_of
from stagewatch.core.model import Turn

QUESTION = "How long is the warranty?"
ANSWER = "Two years."
THOUGHT = "The user is in a hurry."
MARK = "__REDACTED__"


def genai(said: Any, asked: Any = QUESTION) -> Turn:
    parts = asked if isinstance(asked, list) else [{"type": "text", "content": asked}]
    trace = Trace()
    trace.add(
        "chat",
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "x",
            "gen_ai.input.messages": json.dumps([{"role": "user", "parts": parts}]),
            "gen_ai.output.messages": said,
        },
    )
    return only(trace.turns())


# -- thoughts and pictures -------------------------------------------------------------------


@pytest.mark.parametrize(
    "parts",
    [
        [{"type": "reasoning", "content": THOUGHT}, {"type": "text", "content": ANSWER}],
        [{"type": "thinking", "thinking": THOUGHT}, {"type": "text", "text": ANSWER}],
        [{"type": "text", "content": ANSWER}, {"type": "blob", "content": "QUJD"}],
        [{"text": THOUGHT, "thought": True}, {"text": ANSWER}],
        [{"block_type": "thinking", "content": THOUGHT}, {"block_type": "text", "text": ANSWER}],
    ],
)
def test_only_text_parts_are_the_answer(parts: list[dict[str, Any]]) -> None:
    assert genai(json.dumps([{"role": "assistant", "parts": parts}])).answer == ANSWER
    assert reply_of(json.dumps({"role": "assistant", "content": parts})) == ANSWER


def test_parts_without_a_message_around_them_are_one_message() -> None:
    parts = [
        {"type": "thinking", "thinking": THOUGHT},
        {"type": "text", "text": "Two "},
        {"type": "text", "text": "years."},
        {"type": "blob", "content": "QUJD"},
    ]
    assert reply_of(json.dumps(parts)) == ANSWER
    assert messages_of(parts) == [("user", ANSWER)]


def test_a_reply_of_items_leaves_its_reasoning_item_out() -> None:
    items = [
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": ANSWER}],
        },
        {"type": "reasoning", "content": [{"type": "reasoning_text", "text": THOUGHT}]},
    ]
    assert reply_of(json.dumps(items)) == ANSWER
    assert messages_of(items) == [("assistant", ANSWER)]


def test_a_picture_in_the_question_is_not_read_out() -> None:
    parts = [
        {"type": "text", "content": QUESTION},
        {"type": "blob", "mime_type": "image/png", "content": "QUJD"},
        {"type": "image_url", "text": "https://x/y.png"},
    ]
    said = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": ANSWER}]}])
    assert genai(said, parts).question == QUESTION


def test_flattened_reasoning_parts() -> None:
    message = "llm.output_messages.0.message."
    trace = Trace()
    trace.add(
        "llm",
        {
            "openinference.span.kind": "LLM",
            "input.value": QUESTION,
            message + "role": "assistant",
            message + "contents.0.message_content.type": "reasoning",
            message + "contents.0.message_content.text": THOUGHT,
            message + "contents.1.message_content.type": "text",
            message + "contents.1.message_content.text": ANSWER,
        },
    )
    got = only(trace.turns())
    assert (got.question, got.answer) == (QUESTION, ANSWER)


def test_messages_as_an_array_of_json_texts() -> None:
    said = [json.dumps({"role": "assistant", "parts": [{"type": "text", "content": ANSWER}]})]
    assert genai(said).answer == ANSWER


def test_what_a_model_thought_aloud_is_not_its_reply_but_what_the_app_gave_out_is() -> None:
    said = json.dumps([{"role": "assistant", "content": f"<think>{THOUGHT}</think>\n{ANSWER}"}])
    assert genai(said).answer == ANSWER
    assert (
        genai(json.dumps([{"role": "assistant", "content": "a <think> b"}])).answer == "a <think> b"
    )
    trace = Trace()
    given = f"<think>{THOUGHT}</think> {ANSWER}"
    top = trace.add("bot", {"openinference.span.kind": "CHAIN", "output.value": given})
    trace.add("llm", {"openinference.span.kind": "LLM", "output.value": given}, top)
    assert only(trace.turns()).answer == given


# -- hidden texts ----------------------------------------------------------------------------


def hidden_turn(root: dict[str, Any], **llm: Any) -> Turn:
    trace = Trace()
    above = trace.add("chain", {"openinference.span.kind": "CHAIN", **root})
    found = {
        "retrieval.documents.0.document.id": "d0",
        "retrieval.documents.0.document.content": MARK,
    }
    query = json.dumps({"query": MARK})
    trace.add(
        "find", {"openinference.span.kind": "RETRIEVER", "input.value": query, **found}, above
    )
    prefix = "llm.{}_messages.0.message."
    trace.add(
        "llm",
        {
            "openinference.span.kind": "LLM",
            prefix.format("input") + "role": "user",
            prefix.format("input") + "content": MARK,
            prefix.format("output") + "role": "assistant",
            prefix.format("output") + "content": MARK,
            **llm,
        },
        above,
    )
    return only(trace.turns())


@pytest.mark.parametrize(
    "root",
    [
        {},
        {"input.value": MARK, "output.value": MARK},
        {
            "input.value": json.dumps({"question": MARK}),
            "output.value": json.dumps({"answer": MARK}),
        },
    ],
)
def test_a_mark_is_neither_question_nor_answer_nor_query(root: dict[str, Any]) -> None:
    got = hidden_turn(root)
    assert (got.question, got.answer, got.rewritten_query) == (None, None, None)
    assert got.retrievals[0].query == ""
    for field in ("question", "answer", "window", "retrievals[0].query", "retrievals[0].content"):
        assert why(got, field) == "redacted", field


def test_a_hidden_last_message_does_not_make_an_earlier_one_the_question() -> None:
    earlier = "What is the price?"
    messages = [("user", earlier), ("assistant", "Ten euros."), ("user", MARK)]
    told = {
        f"llm.input_messages.{at}.message.{name}": value
        for at, pair in enumerate(messages)
        for name, value in zip(("role", "content"), pair, strict=True)
    }
    got = hidden_turn({}, **told)
    assert got.question is None
    assert why(got, "question") == "redacted"
    assert [message.content for message in got.history] == [earlier, "Ten euros."]


def test_a_mark_in_the_window_or_the_history_is_no_text() -> None:
    trace = Trace()
    prompt = f"[d0] {MARK}\n[d1] The warranty lasts two years.\n\nHow long?"
    trace.add(
        "llm",
        {
            "openinference.span.kind": "LLM",
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": prompt,
            "output.value": ANSWER,
        },
    )
    window = only(trace.turns()).window
    assert [(chunk.chunk_id, bool(chunk.content)) for chunk in window] == [
        ("d0", False),
        ("d1", True),
    ]
    told = [{"role": "user", "content": MARK}, {"role": "assistant", "content": "Ten euros."}]
    own = {"stagewatch.step": "turn", "input.value": QUESTION}
    trace = Trace()
    trace.add("turn", {**own, "stagewatch.history": json.dumps(told)})
    assert [message.content for message in only(trace.turns()).history] == ["Ten euros."]
