"""The queue between the app and the network: bounded, counted, never waited for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from stagewatch.sdk._export import QueueProcessor
from stagewatch.sdk._guard import Guard, guard


class Gate(SpanExporter):
    """Takes nothing until it is opened; then answers what it was told to."""

    def __init__(self, answer: SpanExportResult = SpanExportResult.SUCCESS) -> None:
        self.open = threading.Event()
        self.entered = threading.Event()
        self.answer = answer
        self.batches: list[list[str]] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.entered.set()
        assert self.open.wait(20)
        self.batches.append([span.name for span in spans])
        return self.answer

    def shutdown(self) -> None:
        self.open.set()


@pytest.fixture(autouse=True)
def fresh_counts() -> Iterator[None]:
    guard.counts.clear()
    yield
    guard.counts.clear()


def running(gate: Gate, **options: Any) -> tuple[QueueProcessor, TracerProvider]:
    processor = QueueProcessor(lambda: gate, **options)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    return processor, provider


def test_what_does_not_fit_is_dropped_and_counted() -> None:
    gate = Gate()
    processor, provider = running(gate, max_queue=3, send_every_s=0.01)
    tracer = provider.get_tracer("t")
    tracer.start_span("first").end()
    assert gate.entered.wait(20)
    for number in range(5):
        tracer.start_span(f"s{number}").end()
    assert guard.counts["queue_full"] == 2
    gate.open.set()
    assert processor.force_flush(20_000)
    assert gate.batches == [["first"], ["s0", "s1", "s2"]]
    processor.shutdown()


@pytest.mark.parametrize("parent", [None, "elsewhere"])
def test_a_process_that_may_be_ended_any_time_sends_when_a_root_ends(parent: str | None) -> None:
    gate = Gate()
    gate.open.set()
    processor, provider = running(gate, at_start=lambda: True, send_every_s=3_600)
    tracer = provider.get_tracer("t")
    remote = SpanContext(1, 2, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    context = None if parent is None else set_span_in_context(NonRecordingSpan(remote))
    root = tracer.start_span("root", context)
    tracer.start_span("stage", set_span_in_context(root)).end()
    assert not gate.entered.is_set()
    root.end()
    assert gate.entered.wait(20)
    processor.shutdown()
    assert gate.batches == [["stage", "root"]]


def test_a_refused_batch_is_the_exporters_to_try_again_and_counted_as_lost() -> None:
    gate = Gate(SpanExportResult.FAILURE)
    gate.open.set()
    processor, provider = running(gate)
    provider.get_tracer("t").start_span("s").end()
    assert processor.force_flush(20_000)
    assert gate.batches == [["s"]]
    assert guard.counts["not_sent"] == 1
    processor.shutdown()


def test_spans_after_shutdown_are_ignored() -> None:
    gate = Gate()
    gate.open.set()
    processor, provider = running(gate)
    tracer = provider.get_tracer("t")
    tracer.start_span("before").end()
    processor.shutdown()
    tracer.start_span("after").end()
    processor.shutdown()
    assert gate.batches == [["before"]]


def test_losses_are_logged_once_a_minute_with_their_number(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = 0.0
    watch = Guard(clock=lambda: now)
    with caplog.at_level(logging.WARNING, "stagewatch.sdk"):
        for second in range(121):
            now = float(second)
            watch.count("queue_full", "dropped a span")
    assert [record.getMessage() for record in caplog.records] == [
        "stagewatch dropped a span [1 so far]",
        "stagewatch dropped a span [61 so far]",
        "stagewatch dropped a span [121 so far]",
    ]


def test_bytes_bound_the_queue_a_batch_and_a_span() -> None:
    gate = Gate()
    processor, provider = running(
        gate, max_queue_bytes=45_000, max_batch_bytes=20_000, send_every_s=0.01
    )
    tracer = provider.get_tracer("t")
    tracer.start_span("first").end()
    assert gate.entered.wait(20)
    for number in range(6):
        tracer.start_span(f"s{number}", attributes={"text": "x" * 9_000}).end()
    tracer.start_span("large", attributes={"text": "é" * 10_000}).end()
    assert guard.counts == {"queue_full": 2, "too_large": 1}
    gate.open.set()
    assert processor.force_flush(20_000)
    assert gate.batches == [["first"], ["s0", "s1"], ["s2", "s3"]]
    tracer.start_span("again", attributes={"text": "x" * 9_000}).end()
    assert processor.force_flush(20_000)
    assert gate.batches[-1] == ["again"]
    processor.shutdown()


def test_an_exporter_that_cannot_be_made_is_a_loss_with_its_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def missing() -> SpanExporter:
        raise FileNotFoundError("/secret/path")

    processor = QueueProcessor(missing)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    with caplog.at_level(logging.WARNING, "stagewatch.sdk"):
        provider.get_tracer("t").start_span("s").end()
        assert processor.force_flush(20_000)
    processor.shutdown()
    assert guard.counts["not_sent"] == 1
