"""Attributes go into OpenTelemetry's spans as its own `set_attributes` would put them."""

from __future__ import annotations

import logging
from decimal import Decimal
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import INVALID_SPAN, Span

from stagewatch.sdk._attributes import put, well_formed

GIVEN: dict[str, Any] = {
    "text": "Größe",
    "surrogate": "a\ud800",
    "number": 3,
    "share": 0.5,
    "flag": True,
    "ids": ["a", "b\udfff"],
    "other": Decimal("1.5"),
}


def ended(limits: SpanLimits, *, directly: bool, before: int = 0) -> ReadableSpan:
    kept = InMemorySpanExporter()
    provider = TracerProvider(span_limits=limits, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    span = provider.get_tracer("t").start_span("s")
    for n in range(before):
        span.set_attribute(f"k{n}", n)
    span.set_attribute("text", "overwritten")
    attributes = well_formed(dict(GIVEN))
    if directly:
        put(span, attributes)
    else:
        span.set_attributes(attributes)
    span.end()
    (found,) = kept.get_finished_spans()
    return found


@pytest.mark.parametrize(
    ("limits", "before"),
    [
        (SpanLimits(), 0),
        (SpanLimits(max_span_attributes=SpanLimits.UNSET), 200),
        (SpanLimits(), 125),
        (SpanLimits(max_attributes=6), 0),
        (SpanLimits(max_attribute_length=3), 0),
    ],
)
def test_a_span_ends_up_the_same(
    limits: SpanLimits, before: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    ours = ended(limits, directly=True, before=before)
    theirs = ended(limits, directly=False, before=before)
    assert dict(ours.attributes or {}) == dict(theirs.attributes or {})
    assert ours.dropped_attributes == theirs.dropped_attributes


def test_values_become_what_the_wire_can_hold() -> None:
    found = dict(ended(SpanLimits(), directly=True).attributes or {})
    assert found == {
        "text": "Größe",
        "surrogate": "a?",
        "number": 3,
        "share": 0.5,
        "flag": True,
        "ids": ("a", "b?"),
        "other": 1.5,
    }


def test_a_span_that_somebody_ended_stays_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    kept = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    span = provider.get_tracer("t").start_span("s")
    span.end()
    put(span, {"late": 1})
    assert kept.get_finished_spans()[0].attributes == {}
    assert "ended span" in caplog.text


def test_spans_of_other_makes_are_asked_politely() -> None:
    taken: dict[str, Any] = {}

    class Foreign(type(INVALID_SPAN)):  # type: ignore[misc]
        def set_attributes(self, attributes: Any) -> None:
            taken.update(attributes)

    span: Span = Foreign(INVALID_SPAN.get_span_context())
    put(span, {"k": 1})
    assert taken == {"k": 1}
