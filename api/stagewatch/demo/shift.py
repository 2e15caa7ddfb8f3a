"""Captured requests with their times moved to now; nothing else is touched."""

from __future__ import annotations

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

_LAG_NS = 60_000_000_000


def shifted(body: bytes, signal: str, *, now_ns: int) -> bytes:
    """The export request with all times moved by one offset, so that it ended a minute ago.

    Captures keep the dates they were recorded on, which retention would drop one day.
    """
    return _logs(body, now_ns) if signal == "logs" else _traces(body, now_ns)


def _traces(body: bytes, now_ns: int) -> bytes:
    request = ExportTraceServiceRequest.FromString(body)
    spans = [s for r in request.resource_spans for g in r.scope_spans for s in g.spans]
    offset = now_ns - _LAG_NS - max((s.end_time_unix_nano for s in spans), default=now_ns)
    for span in spans:
        span.start_time_unix_nano += offset
        span.end_time_unix_nano += offset
        for event in span.events:
            event.time_unix_nano += offset
    return request.SerializeToString()


def _logs(body: bytes, now_ns: int) -> bytes:
    request = ExportLogsServiceRequest.FromString(body)
    records = [x for r in request.resource_logs for g in r.scope_logs for x in g.log_records]
    newest = max((max(x.time_unix_nano, x.observed_time_unix_nano) for x in records), default=0)
    offset = now_ns - _LAG_NS - newest
    for record in records:
        for name in ("time_unix_nano", "observed_time_unix_nano"):
            if getattr(record, name):
                setattr(record, name, getattr(record, name) + offset)
    return request.SerializeToString()
