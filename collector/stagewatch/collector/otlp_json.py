"""OTLP/JSON to protobuf messages, by the mapping of the OTLP specification ("JSON Protobuf
Encoding"): lowerCamelCase names, hex ids, integer enums, 64-bit integers as text or numbers,
unknown fields ignored.

Not `google.protobuf.json_format`: it reads a 32-digit hex id as base64 without complaint, fails a
whole batch for one bad item and takes many times as long. Lenient where senders are known to err:
base64 ids of the right length, enum names, null items, lone surrogates, NaN.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import orjson
from google.protobuf.message import Message
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from stagewatch.collector.check import Checked, fault_of
from stagewatch.collector.json_values import (
    MalformedError,
    any_value,
    as_object,
    as_text,
    attributes_in,
    enum_in,
    fill_attributes,
    id_bytes,
    int_in,
    list_in,
)
from stagewatch.collector.pack_attributes import length
from stagewatch.collector.pack_span import pack_span
from stagewatch.collector.refusal import bad_request
from stagewatch.collector.signals import Signal

BAD_RESOURCE = "its resource or scope is malformed"
_SPAN_ATTRIBUTES = b"\x4a"  # field 9 of Span, length-delimited
_LOG_ATTRIBUTES = b"\x32"  # field 6 of LogRecord


def _load(body: bytes) -> Any:  # noqa: ANN401 - JSON
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        pass
    # Bare NaN, lone surrogates and invalid UTF-8, which orjson rightly refuses, are no reason to
    # lose a batch of telemetry.
    try:
        return json.loads(body.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise bad_request("the body is not JSON") from None


def check_json(signal: Signal, body: bytes) -> Checked:
    """A JSON request body, checked and turned into protobuf.

    Raises:
        RefusedError: 400, not JSON or not this request.
    """
    document = _load(body)
    if not isinstance(document, dict):
        raise bad_request(f"the body is not an object with {signal.json_key!r}")
    entries = document.get(signal.json_key)
    if entries is None:
        if document:
            raise bad_request(f"there is no {signal.json_key!r} in the body")
        entries = []
    if not isinstance(entries, list):
        raise bad_request(f"{signal.json_key!r} is not a list")
    rejected: Counter[str] = Counter()
    build = _span_bytes if signal.name == "traces" else _log_bytes
    parts: list[bytes] = []
    items = 0
    try:
        for entry in entries:
            if entry is not None:
                packed, count = _entry(signal, entry, build, rejected)
                if packed is not None:
                    parts.append(packed)
                    items += count
    except MalformedError as error:
        # Not one item but the envelope around items: what was meant cannot be told.
        raise bad_request(str(error)) from None
    return Checked(b"".join(parts), len(parts), items, rejected)


def _entry(
    signal: Signal,
    entry: Any,  # noqa: ANN401 - JSON
    build: Callable[[dict[str, Any]], bytes],
    rejected: Counter[str],
) -> tuple[bytes | None, int]:
    """The bytes of one resource entry, as field 1 of the request, and how many items it holds.

    Resource, groups and schema URL are fields 1, 2, 3 of an entry; scope, items and schema URL are
    the same of a group, for spans and for log records.
    """
    groups_key, items_key = _JSON_NAMES[signal.name]
    groups = [g for g in list_in(as_object(entry, signal.json_key), groups_key) if g is not None]
    count = sum(len(list_in(as_object(group, groups_key), items_key)) for group in groups)
    try:
        parts = _head(_resource(entry.get("resource")))
        tail = _schema_url(entry)
    except MalformedError:
        rejected[BAD_RESOURCE] += count
        return None, 0
    total = 0
    for group in groups:
        members = list_in(group, items_key)
        try:
            inner = _head(_scope(group.get("scope")))
            end = _schema_url(group)
        except MalformedError:
            rejected[BAD_RESOURCE] += len(members)
            continue
        for member in members:
            if member is None:
                continue
            try:
                packed = build(as_object(member, items_key))
            except MalformedError as error:
                rejected[str(error)] += 1
                continue
            inner += (b"\x12", length(len(packed)), packed)
            total += 1
        inner += end
        parts += (b"\x12", length(sum(map(len, inner))), *inner)
    parts += tail
    return b"".join((b"\x0a", length(sum(map(len, parts))), *parts)), total


def _head(message: Message | None) -> list[bytes]:
    if message is None:
        return []
    raw = message.SerializeToString()
    return [b"\x0a", length(len(raw)), raw]


def _schema_url(holder: dict[str, Any]) -> list[bytes]:
    raw = as_text(holder.get("schemaUrl")).encode()
    return [b"\x1a", length(len(raw)), raw] if raw else []


_JSON_NAMES = {"traces": ("scopeSpans", "spans"), "logs": ("scopeLogs", "logRecords")}


def _resource(value: Any) -> Resource | None:  # noqa: ANN401
    if value is None:
        return None
    return Resource(
        attributes=attributes_in(as_object(value, "resource")),
        dropped_attributes_count=int_in(value, "droppedAttributesCount", 2**32),
    )


def _scope(value: Any) -> InstrumentationScope | None:  # noqa: ANN401
    if value is None:
        return None
    return InstrumentationScope(
        name=as_text(as_object(value, "scope").get("name")),
        version=as_text(value.get("version")),
        attributes=attributes_in(value),
        dropped_attributes_count=int_in(value, "droppedAttributesCount", 2**32),
    )


def _event(value: Any) -> Span.Event:  # noqa: ANN401
    held = as_object(value, "events")
    return Span.Event(
        time_unix_nano=int_in(held, "timeUnixNano", 2**64),
        name=as_text(held.get("name")),
        attributes=attributes_in(held),
        dropped_attributes_count=int_in(held, "droppedAttributesCount", 2**32),
    )


def _link(value: Any) -> Span.Link:  # noqa: ANN401
    held = as_object(value, "links")
    return Span.Link(
        trace_id=id_bytes(held.get("traceId"), 16),
        span_id=id_bytes(held.get("spanId"), 8),
        trace_state=as_text(held.get("traceState")),
        attributes=attributes_in(held),
        dropped_attributes_count=int_in(held, "droppedAttributesCount", 2**32),
        flags=int_in(held, "flags", 2**32),
    )


def _span_bytes(held: dict[str, Any]) -> bytes:
    packed = pack_span(held)
    if packed is None:
        span = _span(held)
        reason = fault_of(span)
        if reason is not None:
            raise MalformedError(reason)
        packed = span.SerializeToString()
    return packed


def _log_bytes(held: dict[str, Any]) -> bytes:
    return _log_record(held).SerializeToString()


def _span(held: dict[str, Any]) -> Span:
    span = Span(
        trace_id=id_bytes(held.get("traceId"), 16),
        span_id=id_bytes(held.get("spanId"), 8),
        trace_state=as_text(held.get("traceState")),
        parent_span_id=id_bytes(held.get("parentSpanId"), 8),
        flags=int_in(held, "flags", 2**32),
        name=as_text(held.get("name")),
        kind=enum_in(held, "kind", Span.SpanKind),  # type: ignore[arg-type] # open enum
        start_time_unix_nano=int_in(held, "startTimeUnixNano", 2**64),
        end_time_unix_nano=int_in(held, "endTimeUnixNano", 2**64),
        dropped_attributes_count=int_in(held, "droppedAttributesCount", 2**32),
        events=[_event(item) for item in list_in(held, "events") if item is not None],
        dropped_events_count=int_in(held, "droppedEventsCount", 2**32),
        links=[_link(item) for item in list_in(held, "links") if item is not None],
        dropped_links_count=int_in(held, "droppedLinksCount", 2**32),
    )
    fill_attributes(span, _SPAN_ATTRIBUTES, held)
    status = held.get("status")
    if status is not None:
        code = enum_in(as_object(status, "status"), "code", Status.StatusCode)
        span.status.CopyFrom(
            Status(message=as_text(status.get("message")), code=code)  # type: ignore[arg-type] # open enum
        )
    return span


def _log_record(held: dict[str, Any]) -> LogRecord:
    record = LogRecord(
        time_unix_nano=int_in(held, "timeUnixNano", 2**64),
        observed_time_unix_nano=int_in(held, "observedTimeUnixNano", 2**64),
        severity_number=enum_in(held, "severityNumber", SeverityNumber),  # type: ignore[arg-type] # open enum
        severity_text=as_text(held.get("severityText")),
        dropped_attributes_count=int_in(held, "droppedAttributesCount", 2**32),
        flags=int_in(held, "flags", 2**32),
        trace_id=id_bytes(held.get("traceId"), 16),
        span_id=id_bytes(held.get("spanId"), 8),
        event_name=as_text(held.get("eventName")),
    )
    fill_attributes(record, _LOG_ATTRIBUTES, held)
    if held.get("body") is not None:
        record.body.CopyFrom(any_value(held["body"]))
    return record
