"""Which text is the answer, what is said of one that was cut or withheld, and what limits leave."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from stagewatch import sdk
from stagewatch.sdk import Content, semconv
from stagewatch.sdk._content import digest
from stagewatch.sdk._runtime import runtime
from stagewatch.sdk.testing import Captured, capture


@pytest.fixture
def captured() -> Iterator[Captured]:
    with capture() as found:
        yield found


def told(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_the_last_model_calls_answer_counts_unless_one_is_recorded(captured: Captured) -> None:
    with sdk.turn("q") as turn:
        for text in ("plan: search", "the answer"):
            with sdk.generate("m") as step:
                step.record(text)
    with sdk.turn("q") as turn:
        turn.record("recorded")
        with sdk.generate("m") as step:
            step.record("later")
    assert [got.answer for got in captured.turns] == ["the answer", "recorded"]


@pytest.mark.parametrize("pieces", [[b"data: real"], [{"event": "token"}], []])
def test_pieces_of_another_kind_are_not_an_empty_answer(
    captured: Captured, pieces: list[Any]
) -> None:
    @sdk.turn
    def serve(question: str) -> Iterator[Any]:
        with sdk.generate("m") as step:
            step.record("real answer")
        yield from pieces

    assert list(serve("q")) == pieces
    assert captured.turn().answer == "real answer"


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        (Content(answer="off"), None),
        (Content(answer="hashed"), digest("secret")),
        (Content(redact=lambda field, text: None if field == "answer" else text), None),
    ],
)
@pytest.mark.parametrize("recorded", [True, False])
def test_a_withheld_answer_is_noted_on_the_turn(
    content: Content, answer: str | None, recorded: bool
) -> None:
    with capture(content=content) as found, sdk.turn("q") as turn:
        with sdk.generate("m") as step:
            step.record("secret")
        if recorded:
            turn.record("secret")
    assert found.turn().answer == answer
    assert found.turn().attributes[semconv.REDACTED] == (semconv.OUTPUT,)


@pytest.mark.parametrize("streamed", [True, False])
def test_a_cut_answer_says_its_length_on_both_spans(streamed: bool) -> None:
    with capture(content=Content(max_text=5)) as found, sdk.turn("q"), sdk.generate("m") as step:
        if streamed:
            assert "".join(step.record(iter(["abc"] * 100))) == "abc" * 100
        else:
            step.record("abc" * 100)
    generate, turn = map(told, found.spans)
    assert turn[semconv.OUTPUT] == "abcab"
    assert turn[semconv.CUT] == ("output.value:300",)
    assert generate[semconv.CUT] == ("gen_ai.output.messages:300",)


def test_a_streamed_turns_cut_says_its_length() -> None:
    with capture(content=Content(max_text=5)) as found:

        @sdk.turn
        def reply(question: str) -> Iterator[str]:
            yield from ["abc"] * 100

        list(reply("q"))
    assert found.turn().attributes[semconv.CUT] == ("output.value:300",)


def test_the_hash_of_a_streamed_answer_is_that_of_the_whole() -> None:
    content = Content(answer="hashed", max_text=5)
    with capture(content=content) as found, sdk.turn("q"), sdk.generate("m") as step:
        list(step.record(iter(["abc"] * 100)))
    assert found.turn().answer == digest("abc" * 100)


def test_of_several_streamed_choices_the_first_is_the_answer(captured: Captured) -> None:
    def piece(index: int, text: str) -> SimpleNamespace:
        delta = SimpleNamespace(content=text)
        return SimpleNamespace(choices=[SimpleNamespace(index=index, delta=delta)])

    pieces = [piece(0, "Hel"), piece(1, "Other"), piece(0, "lo"), piece(1, "!")]
    with sdk.turn("q"), sdk.generate("m") as step:
        list(step.record(iter(pieces)))
    assert captured.turn().answer == "Hello"


def test_ids_are_not_taken_for_the_question(captured: Captured) -> None:
    @sdk.turn
    def ask(user_id: str, wording: str) -> str:
        return "x"

    ask("u-7", "How long?")
    assert captured.turn().question == "How long?"
    assert captured.turn().attributes[semconv.USER_ID] == "u-7"


@pytest.mark.parametrize("limit", [70, 200, 1_000])
def test_a_length_limit_leaves_whole_json_or_none(limit: int) -> None:
    content = Content().limited_to(limit)
    with capture(content=content) as found, sdk.turn("q", history=[("user", 'a"\n' * 90)] * 4):
        with sdk.retrieve("q") as retrieve:
            retrieve.record([{"id": f"d{n}", "content": 'y"' * 90} for n in range(9)])
        messages = [("system", "x" * 150), ("user", 'y"' * 150)]
        with sdk.generate("m", messages=messages, context=["z" * 300]) as generate:
            generate.record('answer "' * 90)
    names = (
        semconv.HISTORY, semconv.DOCUMENTS, semconv.INPUT_MESSAGES, semconv.OUTPUT_MESSAGES,
        semconv.CONTEXT_DOCUMENTS,
    )  # fmt: skip
    seen = 0
    for span in found.spans:
        for name, value in told(span).items():
            if isinstance(value, str):
                assert len(value) <= limit, name
            if name in names:
                assert json.loads(str(value)) != []
                seen += 1
    assert seen == (5 if limit == 1_000 else seen)
    assert told(found.spans[0])[semconv.CUT]


def test_a_prompt_over_the_cap_is_shortened_evenly_and_then_from_the_oldest(
    captured: Captured,
) -> None:
    runtime.content = Content(max_json=2_000)
    many = [("user", f"message {n} " + "x" * 500) for n in range(40)]
    with sdk.turn("q"), sdk.generate("m", messages=many):
        pass
    sent = told(captured.spans[0])
    rows = json.loads(sent[semconv.INPUT_MESSAGES])
    assert len(sent[semconv.INPUT_MESSAGES]) <= 2_000
    assert rows[-1]["parts"][0]["content"].startswith("message 39")
    assert any(note.startswith(f"{semconv.INPUT_MESSAGES}:") for note in sent[semconv.CUT])


def test_an_attribute_count_limit_keeps_what_is_needed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    kept = InMemorySpanExporter()
    provider = TracerProvider(span_limits=SpanLimits(max_span_attributes=5), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    with capture():
        runtime.use(provider.get_tracer("t"))
        tags = {f"t{n}": n for n in range(130)}
        with sdk.turn("q", conversation_id="c", index_version="i", tags=tags) as turn:
            with sdk.retrieve("r", top_k=3, source="kb") as retrieve:
                retrieve.record([{"id": "a", "content": "x"}])
            with sdk.generate("m", context=["a"]) as generate:
                generate.record("answer")
            turn.record("answer")
    retrieval, chat, root = map(told, kept.get_finished_spans())
    assert {semconv.STEP, semconv.INPUT, semconv.OUTPUT, semconv.CONVERSATION_ID} <= root.keys()
    assert {semconv.STEP, semconv.DOCUMENTS, semconv.RETRIEVAL_QUERY} <= retrieval.keys()
    assert {semconv.STEP, semconv.OUTPUT_MESSAGES, semconv.REQUEST_MODEL} <= chat.keys()
