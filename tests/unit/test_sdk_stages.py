"""The SDK's surface: blocks, decorators and streams of every flavour, seen through its own kit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan

from stagewatch import sdk
from stagewatch.sdk import semconv
from stagewatch.sdk.testing import Captured, capture

DOCS = [
    {"id": "a", "content": "first", "score": 0.9, "metadata": {"version": "v1"}},
    {"id": "b", "content": "second", "score": 0.5},
]


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


@pytest.fixture
def captured() -> Iterator[Captured]:
    with capture() as found:
        yield found


def test_blocks_give_back_what_they_record(captured: Captured) -> None:
    with sdk.turn("q") as turn:
        with sdk.retrieve("q") as step:
            assert step.record(DOCS) is DOCS
        answer = object()
        assert turn.record(answer) is answer
    got = captured.turn()
    assert got.stages == ["retrieve"]
    assert [d["id"] for d in got.documents] == ["a", "b"]
    assert got.documents[0]["version"] == "v1"


def test_decorated_functions_make_a_turn(captured: Captured) -> None:
    @sdk.rewrite
    def standalone(question: str) -> str:
        return question + "!"

    @sdk.retrieve(source="kb")
    def search(query: str, top_k: int = 5) -> list[dict[str, Any]]:
        return DOCS

    @sdk.rerank
    def reorder(query: str, documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
        documents.reverse()
        return documents

    @sdk.generate
    def answer(question: str, context: list[dict[str, Any]]) -> str:
        return "yes"

    @sdk.turn
    def ask(question: str, conversation_id: str) -> str:
        found = reorder(standalone(question), list(search(question, top_k=2)))
        return answer(question, context=found[:1])

    assert ask("q", conversation_id="c1") == "yes"
    got = captured.turn()
    assert got.stages == ["rewrite", "retrieve", "rerank", "generate"]
    assert (got.question, got.rewritten_query, got.answer) == ("q", "q!", "yes")
    assert got.attributes[semconv.CONVERSATION_ID] == "c1"
    assert [d["id"] for d in got.reranked] == ["b", "a"]
    assert got.context_ids == ["b"]
    by_step = {(s.attributes or {})[semconv.STEP]: s.attributes or {} for s in captured.spans}
    assert by_step["retrieve"][semconv.RETRIEVAL_TOP_K] == 2
    # Before the reranker sorted the list in place.
    assert by_step["rerank"][semconv.RERANK_INPUT_IDS] == ("a", "b")
    assert by_step["generate"][semconv.CONVERSATION_ID] == "c1"


def test_an_unchanged_rewrite_is_told_as_not_rewritten(captured: Captured) -> None:
    with sdk.turn("q"), sdk.rewrite("q") as step:
        step.record("q")
    assert captured.turn().rewritten_query is None
    rewrite = captured.spans[0].attributes or {}
    assert rewrite[semconv.REWRITE_APPLIED] is False


async def test_async_blocks_and_functions(captured: Captured) -> None:
    @sdk.retrieve
    async def search(query: str) -> list[dict[str, Any]]:
        await asyncio.sleep(0)
        return DOCS

    async def ask(question: str) -> str:
        async with sdk.turn(question, conversation_id=question):
            await search(question)
            async with sdk.generate("m") as step:
                return step.record(f"answer to {question}")

    answers = await asyncio.gather(*(ask(f"q{n}") for n in range(5)))
    assert answers == [f"answer to q{n}" for n in range(5)]
    assert len(captured.turns) == 5
    for got in captured.turns:
        assert got.stages == ["retrieve", "generate"]
        assert got.answer == f"answer to {got.question}"
        conversations = {(s.attributes or {})[semconv.CONVERSATION_ID] for s in got.spans}
        assert conversations == {got.question}


def test_a_generator_streams_and_ends_its_turn_when_read(captured: Captured) -> None:
    @sdk.turn
    def ask(question: str) -> Iterator[str]:
        with sdk.generate("m") as step:
            yield from step.record(iter(["al", "so"]))

    stream = ask("q")
    assert next(stream) == "al"
    # Nothing of the turn is current in the code that reads the stream.
    assert not trace.get_current_span().get_span_context().is_valid
    assert sdk.current_trace_id() is None
    assert captured.turns == []
    assert list(stream) == ["so"]
    assert captured.turn().answer == "also"


async def test_an_async_generator_streams(captured: Captured) -> None:
    @sdk.generate
    async def answer(question: str) -> AsyncIterator[str]:
        yield "al"
        yield "so"

    @sdk.turn
    async def ask(question: str) -> AsyncIterator[str]:
        async for piece in answer(question):
            yield piece

    assert [piece async for piece in ask("q")] == ["al", "so"]
    assert captured.turn().answer == "also"
    assert captured.turn().stages == ["generate"]


def test_a_stream_left_half_way_keeps_what_was_read(captured: Captured) -> None:
    closed = []

    @sdk.turn
    def ask(question: str) -> Iterator[str]:
        try:
            yield "al"
            yield "so"
        finally:
            closed.append(True)

    stream = ask("q")
    next(stream)
    stream.close()  # type: ignore[attr-defined]  # it is a generator
    got = captured.turn()
    assert closed == [True]
    assert got.answer == "al"
    assert got.error is None
    assert got.attributes[semconv.STREAM_CLOSED_EARLY] is True


def test_generators_keep_send_throw_and_return() -> None:
    def plain() -> Any:
        got = yield 1
        try:
            yield got
        except KeyError:
            yield "caught"
        return "end"

    def drive(make: Any) -> list[Any]:
        stream = make()
        seen = [next(stream), stream.send("sent"), stream.throw(KeyError())]
        try:
            next(stream)
        except StopIteration as stop:
            seen.append(stop.value)
        return seen

    with capture():
        assert drive(sdk.generate(plain)) == drive(plain)


class FakeStream:
    """Shaped like a client library's stream: iterates, closes, is a context manager."""

    def __init__(self, pieces: list[Any]) -> None:
        self._pieces = iter(pieces)
        self.response = "raw"
        self.closed = False

    def __iter__(self) -> FakeStream:
        return self

    def __next__(self) -> Any:
        return next(self._pieces)

    def __enter__(self) -> FakeStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True

    def close(self) -> None:
        self.closed = True


def chunk(text: str | None, **more: Any) -> SimpleNamespace:
    choices = [SimpleNamespace(delta=SimpleNamespace(content=text), finish_reason=None)]
    fields = {"id": "r1", "model": "gpt-x", "choices": choices, "usage": None, **more}
    return SimpleNamespace(**fields)


def test_a_client_stream_is_handed_through_and_read_along(captured: Captured) -> None:
    usage = SimpleNamespace(prompt_tokens=7, completion_tokens=2)
    pieces = [chunk("al"), chunk("so"), chunk(None, choices=[], usage=usage)]
    inner = FakeStream(pieces)
    with sdk.turn("q"), sdk.generate("gpt") as step:
        stream = step.record(inner)
    assert isinstance(stream, FakeStream)
    assert stream.response == "raw"
    with stream:
        assert list(stream) == pieces
    assert inner.closed
    (generate,) = [s for s in captured.spans if s.name == "chat gpt"]
    told = attributes(generate)
    assert json.loads(told[semconv.OUTPUT_MESSAGES])[0]["parts"][0]["content"] == "also"
    assert (told[semconv.INPUT_TOKENS], told[semconv.OUTPUT_TOKENS]) == (7, 2)
    assert (told[semconv.RESPONSE_MODEL], told[semconv.RESPONSE_ID]) == ("gpt-x", "r1")


def test_exceptions_of_the_app_pass_unchanged(captured: Captured) -> None:
    error = ValueError("mine")

    @sdk.retrieve
    def search(query: str) -> list[str]:
        raise error

    with pytest.raises(ValueError, match="mine") as caught, sdk.turn("q"):
        search("q")
    assert caught.value is error
    assert captured.turn().error == "ValueError"


def test_threads_of_a_pool_join_the_turn_when_carried(captured: Captured) -> None:
    @sdk.retrieve
    def search(query: str) -> list[dict[str, Any]]:
        return DOCS

    with sdk.turn("q"), ThreadPoolExecutor(4) as pool:
        results = [pool.submit(sdk.carry(search), f"q{n}").result() for n in range(4)]
    assert results == [DOCS] * 4
    assert captured.turn().stages == ["retrieve"] * 4


def test_documents_without_ids_are_sent_as_context_whole(captured: Captured) -> None:
    with sdk.turn("q"), sdk.generate("m", context=["some text", {"id": "x", "text": "y"}]) as step:
        step.record("a")
    told = attributes(captured.spans[0])
    assert told[semconv.CONTEXT_IDS] == ("x",)
    rows = json.loads(told[semconv.CONTEXT_DOCUMENTS])
    assert [row["content"] for row in rows] == ["some text", "y"]


def test_a_misspelt_option_warns_and_breaks_nothing(
    captured: Captured, caplog: pytest.LogCaptureFixture
) -> None:
    make: Any = sdk.turn
    with make("q", conversation="c1"):
        pass
    assert captured.turn().question == "q"
    assert "turn has no option conversation" in caplog.text


def test_text_that_utf8_cannot_hold_does_not_cost_the_batch(captured: Captured) -> None:
    with sdk.turn("q \ud800"), sdk.generate("m\udfff") as step:
        step.record("a \ud800 b")
    assert encode_spans(captured.spans).SerializeToString()
    assert captured.turn().answer == "a ? b"
