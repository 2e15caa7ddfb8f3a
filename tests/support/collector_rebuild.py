"""Stored columns back into the protobuf messages they came from, by code that shares nothing with
the product's reading of them."""

from __future__ import annotations

import base64
import json
from typing import Any

from google.protobuf.message import Message
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

SPANS = """
SELECT base64Encode(trace_id) t, base64Encode(span_id) s, base64Encode(parent_id) p, trace_state,
    flags, name, kind, start_ns, toUInt64(start_ns + duration_ns) AS end_ns, status_code,
    status_message, mapKeys(attrs) AS keys, arrayMap(x -> base64Encode(x), mapValues(attrs)) AS vals,
    kinds, arrayMap(x -> base64Encode(x), events) AS events,
    arrayMap(x -> base64Encode(x), links) AS links,
    dropped_attributes, dropped_events, dropped_links, resource, resource_schema_url, scope_name,
    scope_version, scope_attrs, scope_schema_url, service
FROM spans WHERE project = {project:String}
"""

LOGS = """
SELECT base64Encode(trace_id) t, base64Encode(span_id) s, flags, time_ns, observed_ns,
    severity_number, severity_text, event_name, base64Encode(body) AS body,
    mapKeys(attrs) AS keys, arrayMap(x -> base64Encode(x), mapValues(attrs)) AS vals, kinds,
    dropped_attributes, resource, resource_schema_url, scope_name, scope_version, scope_attrs,
    scope_schema_url
FROM logs WHERE project = {project:String}
"""


def _any(kind: int, raw: bytes) -> AnyValue:
    if kind == 0:
        return AnyValue()
    if kind == 1:
        return AnyValue(string_value=raw.decode())
    if kind == 2:
        return AnyValue(bool_value={b"true": True, b"false": False}[raw])
    if kind == 3:
        return AnyValue(int_value=int(raw))
    if kind == 4:
        return AnyValue(double_value=float(raw))
    if kind == 5:
        return AnyValue(array_value=ArrayValue.FromString(raw))
    if kind == 6:
        return AnyValue(kvlist_value=KeyValueList.FromString(raw))
    return AnyValue(bytes_value=raw)


def _attributes(row: dict[str, Any]) -> list[KeyValue]:
    return [
        _pair(key, kind, base64.b64decode(value))
        for key, kind, value in zip(row["keys"], row["kinds"], row["vals"], strict=True)
    ]


def _pair(key: str, kind: int, raw: bytes) -> KeyValue:
    # OTLP gives an absent value and an empty one the same meaning, so one form stands for both.
    return KeyValue(key=key, value=_any(kind, raw)) if kind else KeyValue(key=key)


def _head(text: str) -> tuple[list[KeyValue], int]:
    if not text:
        return [], 0
    keys, values, dropped = json.loads(text)
    pairs = []
    for key, value in zip(keys, values, strict=True):
        pair = KeyValue(key=key)
        if value.startswith("\0"):
            pair.value.ParseFromString(base64.b64decode(value[1:]))
            if not pair.value.WhichOneof("value"):
                pair.ClearField("value")
        else:
            pair.value.string_value = value
        pairs.append(pair)
    return pairs, dropped


def span_of(row: dict[str, Any]) -> Span:
    span = Span(
        trace_id=base64.b64decode(row["t"]),
        span_id=base64.b64decode(row["s"]),
        parent_span_id=base64.b64decode(row["p"]),
        trace_state=row["trace_state"],
        flags=row["flags"],
        name=row["name"],
        kind=row["kind"],
        start_time_unix_nano=row["start_ns"],
        end_time_unix_nano=row["end_ns"],
        attributes=_attributes(row),
        dropped_attributes_count=row["dropped_attributes"],
        events=[Span.Event.FromString(base64.b64decode(raw)) for raw in row["events"]],
        dropped_events_count=row["dropped_events"],
        links=[Span.Link.FromString(base64.b64decode(raw)) for raw in row["links"]],
        dropped_links_count=row["dropped_links"],
    )
    span.status.code = row["status_code"]
    span.status.message = row["status_message"]
    return span


def log_of(row: dict[str, Any]) -> LogRecord:
    record = LogRecord(
        time_unix_nano=row["time_ns"],
        observed_time_unix_nano=row["observed_ns"],
        severity_number=row["severity_number"],
        severity_text=row["severity_text"],
        event_name=row["event_name"],
        attributes=_attributes(row),
        dropped_attributes_count=row["dropped_attributes"],
        flags=row["flags"],
        trace_id=base64.b64decode(row["t"]).rstrip(b"\0"),
        span_id=base64.b64decode(row["s"]).rstrip(b"\0"),
    )
    record.body.ParseFromString(base64.b64decode(row["body"]))
    return record


def around(row: dict[str, Any]) -> tuple[str, ...]:
    """Resource, scope and schema URLs of a row, comparable with `around_message`."""
    resource, dropped = _head(row["resource"])
    scope, scope_dropped = _head(row["scope_attrs"])
    return (
        repr([pair.SerializeToString(deterministic=True) for pair in resource]),
        str(dropped),
        row["resource_schema_url"],
        row["scope_name"],
        row["scope_version"],
        repr([pair.SerializeToString(deterministic=True) for pair in scope]),
        str(scope_dropped),
        row["scope_schema_url"],
    )


def around_message(entry: Any, group: Any) -> tuple[str, ...]:
    return (
        repr([pair.SerializeToString(deterministic=True) for pair in entry.resource.attributes]),
        str(entry.resource.dropped_attributes_count),
        entry.schema_url,
        group.scope.name,
        group.scope.version,
        repr([pair.SerializeToString(deterministic=True) for pair in group.scope.attributes]),
        str(group.scope.dropped_attributes_count),
        group.schema_url,
    )


def flat(item: Message, head: tuple[str, ...]) -> tuple[bytes, tuple[str, ...]]:
    """Something sortable and comparable of an item and what is around it."""
    return item.SerializeToString(deterministic=True), head
