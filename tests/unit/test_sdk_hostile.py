"""Values that raise when they are looked at cost themselves, not the span, the batch or the app."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan

from stagewatch import sdk
from stagewatch.sdk import Content, semconv
from stagewatch.sdk._guard import guard
from stagewatch.sdk.testing import Captured, capture


class Hostile:
    """Raises when it is made a text, a truth or a part of one."""

    def __str__(self) -> str:
        raise RuntimeError("str")

    def __format__(self, spec: str) -> str:
        raise RuntimeError("format")

    def __bool__(self) -> bool:
        raise RuntimeError("bool")


class Stop(BaseException):
    """No `Exception`, as a library's own control flow may be."""


class HostileText(str):
    """A text with another idea of itself."""

    __slots__ = ()

    def __len__(self) -> int:
        raise RuntimeError("len")

    def __str__(self) -> str:
        raise RuntimeError("str")


class SpeechlessError(Exception):
    def __str__(self) -> str:
        raise Stop


@pytest.fixture(autouse=True)
def fresh_counts() -> Iterator[None]:
    guard.counts.clear()
    yield
    guard.counts.clear()


@pytest.fixture
def captured() -> Iterator[Captured]:
    with capture(strict=False) as found:
        yield found


def told(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_an_error_that_cannot_say_what_it_is_ends_its_spans(captured: Captured) -> None:
    with pytest.raises(SpeechlessError), sdk.turn("q"), sdk.retrieve("q"):
        raise SpeechlessError
    assert [span.name for span in captured.spans] == ["retrieval", "invoke_workflow rag"]
    assert captured.turn().question == "q"
    assert captured.turn().error == "SpeechlessError"
    assert captured.spans[0].status.description == "SpeechlessError: SpeechlessError"


def test_a_surrogate_in_an_errors_text_does_not_cost_the_batch(captured: Captured) -> None:
    with pytest.raises(ValueError, match="bad"), sdk.turn("q"):
        raise ValueError("bad \ud800 text")
    assert captured.spans[0].status.description == "ValueError: bad ? text"
    assert encode_spans(captured.spans).SerializeToString()


def test_texts_of_odd_classes_are_read_as_the_text_they_hold(captured: Captured) -> None:
    with sdk.turn(HostileText("q")) as turn:
        with sdk.retrieve(HostileText("r")) as step:
            step.record([HostileText("passage"), {"id": HostileText("b"), "content": "x"}])
        turn.record(HostileText("a"))
    got = captured.turn()
    assert (got.question, got.answer) == ("q", "a")
    assert [row["content"] for row in got.documents] == ["passage", "x"]
    assert got.documents[1]["id"] == "b"
    assert encode_spans(captured.spans).SerializeToString()


@pytest.mark.parametrize(
    "option", ["conversation_id", "user_id", "turn_index", "history", "index_version", "app",
               "prompt_version", "release", "reused_from", "tags", "probe"],
)  # fmt: skip
@pytest.mark.parametrize("value", [Hostile(), object(), ["x"], {"a": Hostile()}, -1, 5])
def test_a_bad_option_costs_that_option_only(captured: Captured, option: str, value: Any) -> None:
    good: dict[str, Any] = {
        "conversation_id": "c", "user_id": "u", "turn_index": 2, "history": [("user", "h")],
        "index_version": "i", "prompt_version": "p", "release": "r", "tags": {"t": 1},
    }  # fmt: skip
    make: Any = sdk.turn
    with make("q", **(good | {option: value})):
        pass
    with make("q", **good):
        pass
    bad, whole = map(told, captured.spans)
    names = {
        "conversation_id": {semconv.CONVERSATION_ID, semconv.SESSION_ID},
        "user_id": {semconv.USER_ID},
        "turn_index": {semconv.TURN_INDEX},
        "history": {semconv.HISTORY},
        "index_version": {semconv.INDEX_VERSION},
        "prompt_version": {semconv.PROMPT_VERSION},
        "release": {semconv.RELEASE},
        "tags": {"stagewatch.tag.t"},
        "app": {semconv.WORKFLOW},
    }.get(option, set())
    assert {n: v for n, v in whole.items() if n not in names}.items() <= bad.items()
    assert encode_spans(captured.spans).SerializeToString()


def test_nothing_hostile_raises_into_the_app(captured: Captured) -> None:
    bad: Any = Hostile()
    steps = [
        sdk.retrieve(bad, source=bad, top_k=bad, score_kind=bad, index_version=bad),
        sdk.rerank(bad, bad, model=bad, top_k=bad),
        sdk.generate(bad, context=bad, messages=[bad, (bad, bad)], provider=bad),
        sdk.rewrite(bad, model=bad),
        sdk.turn(bad, app=bad),
    ]
    for step in steps:
        with step:
            assert step.record(bad) is bad
    with sdk.turn("q") as turn:
        turn.refused(bad)
        turn.tag(a=bad)
    with sdk.generate("m") as generate:
        generate.usage(input_tokens=bad, cost_usd=bad)
    assert len(captured.spans) == 7
    assert encode_spans(captured.spans).SerializeToString()


def test_one_bad_document_keeps_its_rank_and_the_others(captured: Captured) -> None:
    class Trap:
        @property
        def page_content(self) -> str:
            raise Stop

    with sdk.turn("q"), sdk.retrieve("q") as step:
        step.record([{"id": "a", "content": "x"}, Trap(), {"id": Hostile(), "content": "z"}])
    assert [(d["rank"], d["content"]) for d in captured.turn().documents] == [
        (1, "x"),
        (2, ""),
        (3, "z"),
    ]


def test_a_redactor_that_raises_anything_withholds(captured: Captured) -> None:
    def redact(field: str, text: str) -> str:
        raise Stop

    with capture(content=Content(redact=redact)) as found, sdk.turn("secret") as turn:
        turn.record("secret")
    assert "secret" not in json.dumps([told(span) for span in found.spans], default=str)
    assert found.turn().attributes[semconv.REDACTED] == (semconv.INPUT, semconv.OUTPUT)


def test_an_interrupt_is_the_apps() -> None:
    def redact(field: str, text: str) -> str:
        raise KeyboardInterrupt

    with capture(content=Content(redact=redact)) as found:
        with pytest.raises(KeyboardInterrupt), sdk.turn("q"):
            pass
        assert sdk.current_trace_id() is None
    assert [span.name for span in found.spans] == ["invoke_workflow rag"]


def test_what_was_lost_since_it_was_told_is_told_at_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "stagewatch.sdk"):
        for _ in range(3):
            guard.count("some_loss", "lost one")
        guard.tell_rest()
        guard.tell_rest()
    assert [r.getMessage() for r in caplog.records][-1:] == [
        "stagewatch losses in all: some_loss 3"
    ]
