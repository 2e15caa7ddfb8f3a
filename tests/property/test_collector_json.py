"""Any request, written as OTLP/JSON, becomes the same protobuf; any JSON at all gets an answer."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from tests.support.collector_json import otlp_json

from stagewatch.collector.check import check_protobuf
from stagewatch.collector.otlp_json import check_json
from stagewatch.collector.refusal import RefusedError
from stagewatch.collector.signals import TRACES

words = st.text(max_size=12)
scalars = st.one_of(
    st.builds(AnyValue),
    st.builds(AnyValue, string_value=words),
    st.builds(AnyValue, bool_value=st.booleans()),
    st.builds(AnyValue, int_value=st.integers(-(2**63), 2**63 - 1)),
    st.builds(AnyValue, double_value=st.floats(allow_nan=False)),
    st.builds(AnyValue, bytes_value=st.binary(max_size=8)),
)


def _nested(inner: st.SearchStrategy[AnyValue]) -> st.SearchStrategy[AnyValue]:
    pairs = st.lists(st.builds(KeyValue, key=words, value=inner), max_size=3)
    return st.one_of(
        st.builds(
            AnyValue,
            array_value=st.builds(ArrayValue, values=st.lists(inner, max_size=3)),
        ),
        st.builds(AnyValue, kvlist_value=st.builds(KeyValueList, values=pairs)),
    )


values = st.recursive(scalars, _nested, max_leaves=8)
attributes = st.lists(st.builds(KeyValue, key=words, value=values), max_size=4)
nonzero16 = st.binary(min_size=16, max_size=16).filter(any)
nonzero8 = st.binary(min_size=8, max_size=8).filter(any)
times = st.integers(0, 2**64 - 1)
spans = st.builds(
    Span,
    trace_id=nonzero16,
    span_id=nonzero8,
    parent_span_id=st.one_of(st.just(b""), nonzero8),
    trace_state=words,
    name=words,
    flags=st.integers(0, 2**32 - 1),
    kind=st.integers(0, 5),
    start_time_unix_nano=times,
    end_time_unix_nano=times,
    attributes=attributes,
    dropped_attributes_count=st.integers(0, 2**32 - 1),
    events=st.lists(
        st.builds(Span.Event, name=words, time_unix_nano=times, attributes=attributes), max_size=2
    ),
    links=st.lists(
        st.builds(Span.Link, trace_id=nonzero16, span_id=nonzero8, attributes=attributes),
        max_size=2,
    ),
)


def request_of(found: list[Span], head: list[KeyValue]) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    entry = request.resource_spans.add()
    entry.resource.attributes.extend(head)
    group = entry.scope_spans.add()
    group.scope.attributes.extend(head)
    group.spans.extend(found)
    return request


@settings(deadline=None)
@given(st.lists(spans, min_size=1, max_size=3), attributes)
def test_json_becomes_the_same_protobuf(found: list[Span], head: list[KeyValue]) -> None:
    request = request_of(found, head)
    checked = check_json(TRACES, otlp_json(request))
    assert not checked.rejected
    assert ExportTraceServiceRequest.FromString(bytes(checked.body)) == request


@settings(deadline=None)
@given(st.lists(spans, min_size=1, max_size=4), attributes, st.data())
def test_a_bad_span_never_takes_its_neighbours_along(
    found: list[Span], head: list[KeyValue], data: st.DataObject
) -> None:
    bad = data.draw(st.integers(0, len(found) - 1))
    request = request_of(found, head)
    fault = data.draw(st.sampled_from(["trace", "span", "text"]))
    span = request.resource_spans[0].scope_spans[0].spans[bad]
    if fault == "trace":
        span.trace_id = data.draw(
            st.binary(max_size=20).filter(lambda b: len(b) != 16 or not any(b))
        )
    elif fault == "span":
        span.span_id = data.draw(st.binary(max_size=20).filter(lambda b: len(b) != 8 or not any(b)))
    else:
        span.name = "@@ill@@"
    body = request.SerializeToString().replace(b"@@ill@@", b"\xff\xfe\xc3ill\x80")
    checked = check_protobuf(TRACES, body)
    assert checked.rejected.total() == 1
    del request.resource_spans[0].scope_spans[0].spans[bad]
    assert ExportTraceServiceRequest.FromString(bytes(checked.body)) == request
    assert checked.items == len(found) - 1


json_values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), words),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from(
                [
                    "resourceSpans",
                    "scopeSpans",
                    "spans",
                    "attributes",
                    "key",
                    "value",
                    "status",
                    "stringValue",
                    "intValue",
                    "arrayValue",
                    "values",
                    "traceId",
                    "events",
                    "kind",
                ]
            ),
            inner,
            max_size=5,
        ),
    ),
    max_leaves=25,
)


@settings(deadline=None, max_examples=300)
@given(json_values)
def test_any_json_is_stored_rejected_or_refused_but_never_an_error(value: Any) -> None:
    try:
        checked = check_json(TRACES, json.dumps({"resourceSpans": value}).encode())
    except RefusedError as refused:
        assert refused.http == 400
    else:
        again = check_protobuf(TRACES, checked.body)
        assert (again.items, again.rejected.total()) == (checked.items, 0)


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=300))
def test_any_bytes_are_stored_rejected_or_refused_but_never_an_error(body: bytes) -> None:
    try:
        checked = check_protobuf(TRACES, body)
    except RefusedError as refused:
        assert refused.http == 400
    else:
        assert check_protobuf(TRACES, bytes(checked.body)).items == checked.items
