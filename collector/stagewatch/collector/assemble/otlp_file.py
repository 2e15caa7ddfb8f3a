"""OTLP request bodies in files (protobuf or OTLP/JSON) as the rows that assembly takes.

For reports and tests; what is ingested is decoded by the engine instead.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from stagewatch.core.errors import InvalidInputError
from stagewatch.core.model import LogRow, SpanEvent, SpanRow

_GZIP_MAGIC = b"\x1f\x8b"


def read_otlp_file(path: Path, project: str = "") -> tuple[list[SpanRow], list[LogRow]]:
    """Spans and log records of one request body, in the order sent.

    `.json` files are OTLP/JSON, others protobuf; gzip is recognised. Protobuf traces and logs
    have the same outer shape, so a name with "logs" in it says which; in JSON the keys do.

    Raises:
        InvalidInputError: unreadable, or not an OTLP request.
    """
    try:
        body = path.read_bytes()
        if body.startswith(_GZIP_MAGIC):
            body = gzip.decompress(body)
    except (OSError, EOFError) as error:
        raise InvalidInputError(f"cannot read {path}: {type(error).__name__}") from None
    if path.name.removesuffix(".gz").endswith(".json"):
        return read_otlp_json(body, project, str(path))
    try:
        if "logs" in path.name:
            return [], _proto_logs(ExportLogsServiceRequest.FromString(body), project)
    except DecodeError:
        raise InvalidInputError(f"{path} is not an OTLP protobuf request") from None
    return read_otlp_spans(body, project, str(path)), []


def read_otlp_spans(body: bytes, project: str = "", name: str = "body") -> list[SpanRow]:
    """Spans of a protobuf trace request; raises as `read_otlp_file`."""
    try:
        return _proto_spans(ExportTraceServiceRequest.FromString(body), project)
    except DecodeError:
        raise InvalidInputError(f"{name} is not an OTLP protobuf request") from None


def read_otlp_json(
    body: bytes, project: str = "", name: str = "body"
) -> tuple[list[SpanRow], list[LogRow]]:
    """Spans and log records of an OTLP/JSON request; raises as `read_otlp_file`."""
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidInputError(f"{name} is not JSON") from None
    if not isinstance(request, dict) or not (request.keys() & {"resourceSpans", "resourceLogs"}):
        raise InvalidInputError(f"{name} holds neither resourceSpans nor resourceLogs")
    spans = [
        _json_span(span, scope, resource, project)
        for resource, scope, span in _walk(request, "resourceSpans", "scopeSpans", "spans")
    ]
    logs = [
        _json_log(record, scope, resource, project)
        for resource, scope, record in _walk(request, "resourceLogs", "scopeLogs", "logRecords")
    ]
    return spans, logs


# -- protobuf --------------------------------------------------------------------------------


def _proto_value(value: Any) -> Any:  # noqa: ANN401 - AnyValue of generated code
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "array_value":
        return [_proto_value(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        return _proto_attributes(value.kvlist_value.values)
    return getattr(value, kind)


def _proto_attributes(pairs: Iterable[Any]) -> dict[str, Any]:
    return {pair.key: _proto_value(pair.value) for pair in pairs}


def _proto_spans(request: Any, project: str) -> list[SpanRow]:  # noqa: ANN401
    rows = []
    for group in request.resource_spans:
        resource = _proto_attributes(group.resource.attributes)
        for scoped in group.scope_spans:
            scope_attributes = _proto_attributes(scoped.scope.attributes)
            rows += [
                SpanRow(
                    project=project,
                    trace_id=span.trace_id.hex(),
                    span_id=span.span_id.hex(),
                    parent_id=span.parent_span_id.hex(),
                    name=span.name,
                    kind=span.kind,
                    start_ns=span.start_time_unix_nano,
                    end_ns=span.end_time_unix_nano,
                    status_code=span.status.code,
                    status_message=span.status.message,
                    scope_name=scoped.scope.name,
                    scope_version=scoped.scope.version,
                    resource=resource,
                    attributes=_proto_attributes(span.attributes),
                    events=tuple(
                        SpanEvent(
                            event.name, event.time_unix_nano, _proto_attributes(event.attributes)
                        )
                        for event in span.events
                    ),
                    scope_attributes=scope_attributes,
                    schema_url=scoped.schema_url,
                    dropped_attributes=span.dropped_attributes_count,
                    dropped_events=span.dropped_events_count,
                )
                for span in scoped.spans
            ]
    return rows


def _proto_logs(request: Any, project: str) -> list[LogRow]:  # noqa: ANN401
    rows = []
    for group in request.resource_logs:
        resource = _proto_attributes(group.resource.attributes)
        for scoped in group.scope_logs:
            rows += [
                LogRow(
                    project=project,
                    trace_id=record.trace_id.hex(),
                    span_id=record.span_id.hex(),
                    event_name=record.event_name,
                    time_ns=record.time_unix_nano,
                    body=_proto_value(record.body),
                    attributes=_proto_attributes(record.attributes),
                    scope_name=scoped.scope.name,
                    resource=resource,
                )
                for record in scoped.log_records
            ]
    return rows


# -- JSON ------------------------------------------------------------------------------------


def _maps(value: object) -> list[Mapping[str, Any]]:
    if not isinstance(value, list):
        return []
    return [item for item in value if isinstance(item, dict)]


def _map(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _walk(
    request: Mapping[str, Any], groups: str, scopes: str, items: str
) -> Iterable[tuple[dict[str, Any], Mapping[str, Any], Mapping[str, Any]]]:
    for group in _maps(request.get(groups)):
        resource = _json_attributes(_map(group.get("resource")).get("attributes"))
        for scoped in _maps(group.get(scopes)):
            for item in _maps(scoped.get(items)):
                yield resource, scoped, item


def _json_value(value: object) -> Any:  # noqa: ANN401
    held = _map(value)
    if "stringValue" in held:
        return str(held["stringValue"])
    if "boolValue" in held:
        return bool(held["boolValue"])
    if "intValue" in held:
        return _int(held["intValue"])
    if "doubleValue" in held:
        return _float(held["doubleValue"])
    if "arrayValue" in held:
        return [_json_value(item) for item in _maps(_map(held["arrayValue"]).get("values"))]
    if "kvlistValue" in held:
        return _json_attributes(_map(held["kvlistValue"]).get("values"))
    if "bytesValue" in held:
        try:
            return base64.b64decode(str(held["bytesValue"]))
        except binascii.Error:
            return b""
    return None


def _json_attributes(pairs: object) -> dict[str, Any]:
    return {str(pair.get("key", "")): _json_value(pair.get("value")) for pair in _maps(pairs)}


def _int(value: object) -> int:
    try:
        return int(value)  # type: ignore[call-overload,no-any-return]  # failures are caught
    except (TypeError, ValueError, OverflowError):
        return 0


def _float(value: object) -> float | None:
    try:
        return float(value)  # type: ignore[arg-type]  # failures are caught
    except (TypeError, ValueError):
        return None


def _id(value: object) -> str:
    return value.lower() if isinstance(value, str) else ""


def _json_span(
    span: Mapping[str, Any], scoped: Mapping[str, Any], resource: dict[str, Any], project: str
) -> SpanRow:
    scope, status = _map(scoped.get("scope")), _map(span.get("status"))
    return SpanRow(
        project=project,
        trace_id=_id(span.get("traceId")),
        span_id=_id(span.get("spanId")),
        parent_id=_id(span.get("parentSpanId")),
        name=str(span.get("name", "")),
        kind=_int(span.get("kind", 0)),
        start_ns=_int(span.get("startTimeUnixNano", 0)),
        end_ns=_int(span.get("endTimeUnixNano", 0)),
        status_code=_int(status.get("code", 0)),
        status_message=str(status.get("message", "")),
        scope_name=str(scope.get("name", "")),
        scope_version=str(scope.get("version", "")),
        resource=resource,
        attributes=_json_attributes(span.get("attributes")),
        events=tuple(
            SpanEvent(
                str(event.get("name", "")),
                _int(event.get("timeUnixNano", 0)),
                _json_attributes(event.get("attributes")),
            )
            for event in _maps(span.get("events"))
        ),
        scope_attributes=_json_attributes(scope.get("attributes")),
        schema_url=str(scoped.get("schemaUrl", "")),
        dropped_attributes=_int(span.get("droppedAttributesCount", 0)),
        dropped_events=_int(span.get("droppedEventsCount", 0)),
    )


def _json_log(
    record: Mapping[str, Any], scoped: Mapping[str, Any], resource: dict[str, Any], project: str
) -> LogRow:
    return LogRow(
        project=project,
        trace_id=_id(record.get("traceId")),
        span_id=_id(record.get("spanId")),
        event_name=str(record.get("eventName", "")),
        time_ns=_int(record.get("timeUnixNano", 0)),
        body=_json_value(record.get("body")),
        attributes=_json_attributes(record.get("attributes")),
        scope_name=str(_map(scoped.get("scope")).get("name", "")),
        resource=resource,
    )
