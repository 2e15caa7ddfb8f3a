"""Which model call answers when the root does not say what the answer was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.assemble_spans import Trace, only, why

from stagewatch.collector.assemble.shapes import calls_tool
from stagewatch.core.model import Turn

QUESTION = "How long is the warranty?"
ANSWER = "The warranty lasts two years."
PASSAGE = "Every device comes with a warranty of two years."


def call(name: str, reply: str, prompt: str = "", model: str = "m") -> tuple[str, dict[str, Any]]:
    told = {
        "openinference.span.kind": "LLM",
        "llm.model_name": model,
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": reply,
    }
    if prompt:
        told["llm.input_messages.0.message.role"] = "user"
        told["llm.input_messages.0.message.content"] = prompt
    return name, told


def turn_of(*calls: tuple[str, dict[str, Any]], root: dict[str, Any] | None = None) -> Turn:
    trace = Trace()
    kind = {"openinference.span.kind": "CHAIN", "input.value": QUESTION}
    top = trace.add("chain", {**kind, **(root or {})})
    found = {
        "retrieval.documents.0.document.id": "d0",
        "retrieval.documents.0.document.content": PASSAGE,
    }
    trace.add("find", {"openinference.span.kind": "RETRIEVER", **found}, top)
    for at, (name, attributes) in enumerate(calls):
        start = 10_000 * (at + 1)
        trace.add(name, attributes, top, start_ns=start, end_ns=start + 5_000)
    return only(trace.turns())


ANSWERING = call("ChatOpenAI", ANSWER, f"Use: {PASSAGE}\n{QUESTION}", "answerer")


@pytest.mark.parametrize(
    "after",
    [
        call("toxicity-check", "The text is harmless."),
        call("TitleGen", "Warranty question"),
        call("ChatOpenAI", "The text is harmless.", model="llama-guard-3"),
        call("ChatOpenAI", "SAFE"),
        call("ChatOpenAI", "unsafe\nS1"),
        call("ChatOpenAI", "0.9"),
        call("ChatOpenAI", "Warranty of devices", f"Name this conversation: {QUESTION} {ANSWER}"),
        call("ChatOpenAI", '{"score": "yes"}', f"{PASSAGE} Is this grounded: {ANSWER}"),
    ],
)
def test_what_an_app_calls_after_the_answer_is_not_the_answer(
    after: tuple[str, dict[str, Any]],
) -> None:
    got = turn_of(ANSWERING, after)
    assert (got.answer, got.model) == (ANSWER, "answerer")
    assert [chunk.chunk_id for chunk in got.window] == ["d0"]


def test_a_title_is_told_by_its_prompt_where_nothing_was_retrieved() -> None:
    trace = Trace()
    top = trace.add("chain", {"openinference.span.kind": "CHAIN", "input.value": QUESTION})
    titled = f"Give this conversation a short title.\nuser: {QUESTION}\nassistant: {ANSWER}"
    refined = f"Translate into plain words: {ANSWER}"
    trace.add(*call("llm", ANSWER, QUESTION), top, start_ns=10_000, end_ns=20_000)
    last = trace.add(*call("llm", "Warranty", titled), top, start_ns=30_000, end_ns=40_000)
    assert only(trace.turns()).answer == ANSWER
    trace.spans.remove(last)
    trace.add(*call("llm", "It is two years.", refined), top, start_ns=30_000, end_ns=40_000)
    assert only(trace.turns()).answer == "It is two years."


def test_a_call_below_a_guard_step_is_the_guards() -> None:
    trace = Trace()
    top = trace.add("chain", {"openinference.span.kind": "CHAIN", "input.value": QUESTION})
    trace.add(*call("ChatOpenAI", ANSWER), top, start_ns=10_000, end_ns=20_000)
    guard = trace.add("output_guardrail", {"openinference.span.kind": "CHAIN"}, top)
    trace.add(*call("ChatOpenAI", "The reply is fine."), guard, start_ns=30_000, end_ns=40_000)
    assert only(trace.turns()).answer == ANSWER


def test_the_last_of_several_equal_calls_answers() -> None:
    prompt = f"{PASSAGE}\n{QUESTION}"
    got = turn_of(call("llm", "A first draft of it.", prompt), call("llm", ANSWER, prompt))
    assert got.answer == ANSWER


def test_a_lone_call_answers_whatever_it_is_called_and_says() -> None:
    assert turn_of(call("title_guard", "Yes")).answer == "Yes"


def test_the_call_whose_words_the_root_gives_out_answers() -> None:
    told = {"output.value": f"{ANSWER}\n\nSources: d0"}
    got = turn_of(ANSWERING, call("llm", "Something else entirely."), root=told)
    assert got.model == "answerer"
    assert got.answer == f"{ANSWER}\n\nSources: d0"


# -- tool calls ------------------------------------------------------------------------------

ASKS_TOOL: dict[str, Any] = {
    "type": "tool_call",
    "id": "1",
    "name": "search_kb",
    "arguments": {"query": "w"},
}
LOOKING: list[dict[str, Any]] = [
    {"type": "text", "content": "Let me look that up for you."},
    ASKS_TOOL,
]


def agent(*replies: list[dict[str, Any]], **last: Any) -> Turn:
    trace = Trace()
    top = trace.add("agent", {"gen_ai.operation.name": "invoke_agent", "gen_ai.provider.name": "x"})
    asked = [{"role": "user", "parts": [{"type": "text", "content": QUESTION}]}]
    for at, parts in enumerate(replies):
        said = [{"role": "assistant", "parts": parts}]
        told = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": f"m{at}",
            "gen_ai.input.messages": json.dumps(asked),
            "gen_ai.output.messages": json.dumps(said),
        }
        more = last if at == len(replies) - 1 else {}
        start = 10_000 * (at + 1)
        trace.add("chat", {**told, **more}, top, start_ns=start, end_ns=start + 5_000)
    return only(trace.turns())


def test_the_plain_reply_after_the_tools_is_the_answer() -> None:
    got = agent(LOOKING, [{"type": "text", "content": ANSWER}])
    assert (got.answer, got.model) == (ANSWER, "m1")


def test_words_beside_a_tool_call_are_no_answer() -> None:
    got = agent(LOOKING)
    assert (got.question, got.answer, got.model) == (QUESTION, None, "m0")
    assert why(got, "answer") == "not_captured"


def test_a_finish_reason_tells_a_tool_call_too() -> None:
    words = [{"type": "text", "content": "Let me look that up for you."}]
    reason = {"gen_ai.response.finish_reasons": ["tool_calls"]}
    assert agent(words, **reason).answer is None
    assert agent(words).answer == "Let me look that up for you."


def test_only_the_last_message_of_a_reply_counts() -> None:
    asks = {"role": "assistant", "parts": [ASKS_TOOL]}
    plain = {"role": "assistant", "parts": [{"type": "text", "content": ANSWER}]}
    assert not calls_tool([asks, plain])
    assert calls_tool([plain, asks])
    assert calls_tool(json.dumps({"choices": [{"message": {"tool_calls": [{"id": "1"}]}}]}))
    assert not calls_tool({"content": ANSWER, "tool_calls": []})
    assert not calls_tool("no JSON")
    assert not calls_tool([])
