"""OTLP/JSON to protobuf messages, by the mapping of the OTLP specification ("JSON Protobuf
Encoding"): lowerCamelCase names, hex ids, integer enums, 64-bit integers as text or numbers,
unknown fields ignored.

Not `google.protobuf.json_format`: it reads a 32-digit hex id as base64 without complaint, fails a
whole batch for one bad item and takes many times as long. Lenient where senders are known to err:
base64 ids of the right length, enum names, null items, lone surrogates, NaN.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import orjson
from opentelemetry.proto.common.v1.common_pb2 import (
    AnyValue,
    ArrayValue,
    InstrumentationScope,
    KeyValue,
    KeyValueList,
)
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from stagewatch.collector.check import Checked, sift
from stagewatch.collector.pack_attributes import length, pack_plain
from stagewatch.collector.refusal import bad_request
from stagewatch.collector.signals import Signal

BAD_RESOURCE = "its resource or scope is malformed"
_SPAN_ATTRIBUTES = b"\x4a"  # field 9 of Span, length-delimited
_LOG_ATTRIBUTES = b"\x32"  # field 6 of LogRecord
MAX_DEPTH = 90
"""Nesting of values that protobuf parsers still read (their limit is 100 messages)."""


class _MalformedError(ValueError):
    """This item does not fit the mapping; the text names the field, never its value."""


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
    message = signal.request()
    rejected: Counter[str] = Counter()
    build = _span if signal.name == "traces" else _log_record
    try:
        for entry in entries:
            if entry is not None:
                _entry(signal, getattr(message, signal.entries), entry, build, rejected)
    except _MalformedError as error:
        # Not one item but the envelope around items: what was meant cannot be told.
        raise bad_request(str(error)) from None
    return sift(signal, message, rejected)


def _entry(
    signal: Signal,
    target: Any,  # noqa: ANN401 - a repeated field
    entry: Any,  # noqa: ANN401 - JSON
    build: Callable[[dict[str, Any]], Any],
    rejected: Counter[str],
) -> None:
    groups_key, items_key = _JSON_NAMES[signal.name]
    groups = [g for g in _list(_dict(entry, signal.json_key), groups_key) if g is not None]
    count = sum(len(_list(_dict(group, groups_key), items_key)) for group in groups)
    added = target.add()
    try:
        _resource(added, entry.get("resource"))
        added.schema_url = _text(entry.get("schemaUrl"))
    except _MalformedError:
        del target[-1]
        rejected[BAD_RESOURCE] += count
        return
    for group in groups:
        into = getattr(added, signal.groups).add()
        members = _list(_dict(group, groups_key), items_key)
        try:
            _scope(into, group.get("scope"))
            into.schema_url = _text(group.get("schemaUrl"))
        except _MalformedError:
            del getattr(added, signal.groups)[-1]
            rejected[BAD_RESOURCE] += len(members)
            continue
        good = []
        for member in members:
            try:
                if member is not None:
                    good.append(build(_dict(member, items_key)))
            except _MalformedError as error:
                rejected[str(error)] += 1
        getattr(into, signal.items).extend(good)


_JSON_NAMES = {"traces": ("scopeSpans", "spans"), "logs": ("scopeLogs", "logRecords")}


def _resource(entry: Any, value: Any) -> None:  # noqa: ANN401
    if value is not None:
        entry.resource.CopyFrom(
            Resource(
                attributes=_attributes(_dict(value, "resource")),
                dropped_attributes_count=_int(value, "droppedAttributesCount", 2**32),
            )
        )


def _scope(group: Any, value: Any) -> None:  # noqa: ANN401
    if value is not None:
        group.scope.CopyFrom(
            InstrumentationScope(
                name=_text(_dict(value, "scope").get("name")),
                version=_text(value.get("version")),
                attributes=_attributes(value),
                dropped_attributes_count=_int(value, "droppedAttributesCount", 2**32),
            )
        )


def _dict(value: Any, name: str) -> dict[str, Any]:  # noqa: ANN401
    if not isinstance(value, dict):
        raise _MalformedError(f"{name} holds something that is not an object")
    return value


def _list(holder: dict[str, Any], name: str) -> list[Any]:
    value = holder.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise _MalformedError(f"{name} is not a list")
    return value


def _text(value: Any) -> str:  # noqa: ANN401
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _MalformedError("a text field is not a string")
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value


def _number(value: Any, name: str) -> int:  # noqa: ANN401
    if isinstance(value, bool):
        raise _MalformedError(f"{name} is not an integer")
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            raise _MalformedError(f"{name} is not an integer") from None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, int):
        return value
    raise _MalformedError(f"{name} is not an integer")


def _int(holder: dict[str, Any], name: str, above: int) -> int:
    value = holder.get(name)
    if value is None:
        return 0
    number = _number(value, name)
    if not 0 <= number < above:
        raise _MalformedError(f"{name} is out of range")
    return number


def _enum(holder: dict[str, Any], name: str, names: Any) -> int:  # noqa: ANN401 - an enum wrapper
    value = holder.get(name)
    if value is None:
        return 0
    if isinstance(value, str) and value in names.keys():  # noqa: SIM118 - not a mapping
        return int(names.Value(value))
    number = _number(value, name)
    if not -(2**31) <= number < 2**31:
        raise _MalformedError(f"{name} is out of range")
    return number


def _id(value: Any, size: int) -> bytes:  # noqa: ANN401
    """The id's bytes; b"" for what is no id, so that the check of ids names it."""
    if not isinstance(value, str):
        return b""
    try:
        if len(value) == 2 * size:
            return bytes.fromhex(value)
        # Senders that use protobuf's own JSON mapping: 24 or 12 characters, so never hex.
        if len(value) == (size + 2) // 3 * 4:
            return base64.b64decode(value, altchars=b"-_" if "-" in value or "_" in value else None)
    except (ValueError, binascii.Error):
        pass
    return b""


def _double(value: Any) -> float:  # noqa: ANN401
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise _MalformedError("doubleValue is not a number")
    try:
        return float(value)
    except (ValueError, OverflowError):
        raise _MalformedError("doubleValue is not a number") from None


def _any(value: Any, depth: int = 0) -> AnyValue:  # noqa: ANN401
    if value is None:
        return AnyValue()
    if depth > MAX_DEPTH // 3:
        raise _MalformedError("values are nested too deep")
    held = _dict(value, "value")
    for name, inner in held.items():
        if inner is None:
            continue
        if name == "stringValue":
            return AnyValue(string_value=_text(inner))
        if name in _ANY:
            return _ANY[name](inner, depth)
    return AnyValue()


def _any_bool(inner: Any, _depth: int) -> AnyValue:  # noqa: ANN401
    if not isinstance(inner, bool):
        raise _MalformedError("boolValue is not true or false")
    return AnyValue(bool_value=inner)


def _any_int(inner: Any, _depth: int) -> AnyValue:  # noqa: ANN401
    number = _number(inner, "intValue")
    if not -(2**63) <= number < 2**63:
        raise _MalformedError("intValue is out of range")
    return AnyValue(int_value=number)


def _any_bytes(inner: Any, _depth: int) -> AnyValue:  # noqa: ANN401
    try:
        return AnyValue(bytes_value=base64.b64decode(inner))
    except (ValueError, TypeError):
        raise _MalformedError("bytesValue is not base64") from None


def _any_array(inner: Any, depth: int) -> AnyValue:  # noqa: ANN401
    values = [_any(item, depth + 1) for item in _list(_dict(inner, "arrayValue"), "values")]
    return AnyValue(array_value=ArrayValue(values=values))


def _any_kvlist(inner: Any, depth: int) -> AnyValue:  # noqa: ANN401
    pairs = _pairs(_list(_dict(inner, "kvlistValue"), "values"), depth + 1)
    return AnyValue(kvlist_value=KeyValueList(values=pairs))


_ANY: dict[str, Callable[[Any, int], AnyValue]] = {
    "boolValue": _any_bool,
    "intValue": _any_int,
    "doubleValue": lambda inner, _depth: AnyValue(double_value=_double(inner)),
    "bytesValue": _any_bytes,
    "arrayValue": _any_array,
    "kvlistValue": _any_kvlist,
}


def _pairs(items: Iterable[Any], depth: int) -> list[KeyValue]:
    return [
        KeyValue(
            key=_text(_dict(item, "attributes").get("key")), value=_any(item.get("value"), depth)
        )
        for item in items
        if item is not None
    ]


def _attributes(holder: dict[str, Any]) -> list[KeyValue]:
    return _pairs(_list(holder, "attributes"), 0)


def _fill_attributes(message: Any, tag: bytes, holder: dict[str, Any]) -> None:  # noqa: ANN401
    """Add the attributes in `holder` to a message whose field with this tag they are."""
    packed: list[bytes] = []
    for item in _list(holder, "attributes"):
        if item is None:
            continue
        plain = pack_plain(item)
        if plain is None:
            plain = _pairs([item], 0)[0].SerializeToString()
        packed += (tag, length(len(plain)), plain)
    if packed:
        message.MergeFromString(b"".join(packed))


def _event(value: Any) -> Span.Event:  # noqa: ANN401
    held = _dict(value, "events")
    return Span.Event(
        time_unix_nano=_int(held, "timeUnixNano", 2**64),
        name=_text(held.get("name")),
        attributes=_attributes(held),
        dropped_attributes_count=_int(held, "droppedAttributesCount", 2**32),
    )


def _link(value: Any) -> Span.Link:  # noqa: ANN401
    held = _dict(value, "links")
    return Span.Link(
        trace_id=_id(held.get("traceId"), 16),
        span_id=_id(held.get("spanId"), 8),
        trace_state=_text(held.get("traceState")),
        attributes=_attributes(held),
        dropped_attributes_count=_int(held, "droppedAttributesCount", 2**32),
        flags=_int(held, "flags", 2**32),
    )


def _span(held: dict[str, Any]) -> Span:
    span = Span(
        trace_id=_id(held.get("traceId"), 16),
        span_id=_id(held.get("spanId"), 8),
        trace_state=_text(held.get("traceState")),
        parent_span_id=_id(held.get("parentSpanId"), 8),
        flags=_int(held, "flags", 2**32),
        name=_text(held.get("name")),
        kind=_enum(held, "kind", Span.SpanKind),  # type: ignore[arg-type] # open enum
        start_time_unix_nano=_int(held, "startTimeUnixNano", 2**64),
        end_time_unix_nano=_int(held, "endTimeUnixNano", 2**64),
        dropped_attributes_count=_int(held, "droppedAttributesCount", 2**32),
        events=[_event(item) for item in _list(held, "events") if item is not None],
        dropped_events_count=_int(held, "droppedEventsCount", 2**32),
        links=[_link(item) for item in _list(held, "links") if item is not None],
        dropped_links_count=_int(held, "droppedLinksCount", 2**32),
    )
    _fill_attributes(span, _SPAN_ATTRIBUTES, held)
    status = held.get("status")
    if status is not None:
        code = _enum(_dict(status, "status"), "code", Status.StatusCode)
        span.status.CopyFrom(
            Status(message=_text(status.get("message")), code=code)  # type: ignore[arg-type] # open enum
        )
    return span


def _log_record(held: dict[str, Any]) -> LogRecord:
    record = LogRecord(
        time_unix_nano=_int(held, "timeUnixNano", 2**64),
        observed_time_unix_nano=_int(held, "observedTimeUnixNano", 2**64),
        severity_number=_enum(held, "severityNumber", SeverityNumber),  # type: ignore[arg-type] # open enum
        severity_text=_text(held.get("severityText")),
        dropped_attributes_count=_int(held, "droppedAttributesCount", 2**32),
        flags=_int(held, "flags", 2**32),
        trace_id=_id(held.get("traceId"), 16),
        span_id=_id(held.get("spanId"), 8),
        event_name=_text(held.get("eventName")),
    )
    _fill_attributes(record, _LOG_ATTRIBUTES, held)
    if held.get("body") is not None:
        record.body.CopyFrom(_any(held["body"]))
    return record
