"""Spans of our own provider: ordinary to everybody else, and SDK spans as soon as anybody looks."""

from __future__ import annotations

import random
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, TraceFlags, use_span

from stagewatch import sdk
from stagewatch.collector.assemble.otlp_file import read_otlp_spans
from stagewatch.core.model import SpanRow
from stagewatch.sdk._direct import DirectSpan, DirectTracer, OwnProvider
from stagewatch.sdk._runtime import runtime


class Keeping(SpanProcessor):
    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self.spans.append(span)


def tracer_of(**environ: str) -> tuple[DirectTracer, Keeping]:
    kept = Keeping()
    provider = OwnProvider(kept, Resource({"service.name": "bot"}), environ)
    return DirectTracer(provider, kept, "stagewatch.sdk"), kept


def rows(kept: Keeping) -> list[SpanRow]:
    return read_otlp_spans(encode_spans(kept.spans).SerializeToString())


def test_direct_and_foreign_spans_are_parents_of_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tracer, kept = tracer_of()
    monkeypatch.setattr(runtime, "own_tracer", tracer)
    theirs = tracer.provider.get_tracer("openai")
    with theirs.start_as_current_span("request"), sdk.turn("q"):
        with theirs.start_as_current_span("inside") as inside:
            inside.set_attribute("k", 1)
        trace.get_current_span().set_attribute("added", "by another")
        with sdk.retrieve("q") as step:
            step.record(["text"])
    by_name = {row.name: row for row in rows(kept)}
    turn = by_name["invoke_workflow rag"]
    assert turn.parent_id == by_name["request"].span_id
    assert by_name["inside"].parent_id == turn.span_id
    assert by_name["retrieval"].parent_id == turn.span_id
    assert len({row.trace_id for row in by_name.values()}) == 1
    assert turn.attributes["added"] == "by another"
    assert by_name["retrieval"].kind == 3
    assert turn.resource["service.name"] == "bot"
    assert turn.scope_name == "stagewatch.sdk"


def test_a_processor_of_the_app_sees_every_later_span() -> None:
    tracer, kept = tracer_of()
    theirs = Keeping()
    assert isinstance(tracer.start_span("direct"), DirectSpan)
    tracer.provider.add_span_processor(theirs)
    tracer.start_span("seen").end()
    assert [span.name for span in theirs.spans] == ["seen"]
    assert [span.name for span in kept.spans] == ["seen"]


@pytest.mark.parametrize(
    "name", ["OTEL_TRACES_SAMPLER", "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "OTEL_EVENT_COUNT_LIMIT"]
)
def test_samplers_and_limits_from_the_environment_are_the_sdks_work(name: str) -> None:
    tracer, _ = tracer_of(**{name: "x"})
    assert not isinstance(tracer.start_span("x"), DirectSpan)


def test_a_parent_that_is_not_sampled_is_followed() -> None:
    tracer, kept = tracer_of()
    parent = SpanContext(1, 2, is_remote=True, trace_flags=TraceFlags(0))
    with use_span(NonRecordingSpan(parent)):
        span = tracer.start_span("x", kind=SpanKind.CLIENT)
    assert not span.is_recording()
    span.end()
    assert kept.spans == []


def test_events_status_and_odd_attributes() -> None:
    tracer, kept = tracer_of()
    span = tracer.start_span("x")
    odd: Any = object()
    span.set_attributes({"good": [1, 2], "odd": odd})
    span.add_event("happened", {"k": "v"})
    span.record_exception(ValueError("private"))
    span.set_status(trace.StatusCode.ERROR, "why")
    span.update_name("y")
    span.end()
    span.end()
    (row,) = rows(kept)
    assert (row.name, row.status_code, row.status_message) == ("y", 2, "why")
    assert row.attributes == {"good": [1, 2]}
    assert [event.name for event in row.events] == ["happened", "exception"]
    assert "private" not in repr(row)
    assert not span.is_recording()


def test_ids_neither_follow_nor_disturb_a_seed_of_the_app() -> None:
    def seeded() -> tuple[int, float]:
        random.seed(7)
        span = tracer_of()[0].start_span("x")
        return span.get_span_context().trace_id, random.random()

    (first_id, first), (second_id, second) = seeded(), seeded()
    assert first_id != second_id
    assert first == second
