"""Spans and log records read back from the store, for the assembler and the trace page."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from stagewatch.core.model import LogRow, SpanEvent, SpanRow
from stagewatch.core.store.client import Store, query
from stagewatch.core.store.values import plain_map, stored_any, stored_json, stored_map

MAX_SPANS = 200_000
"""Spans read at once: a bound on memory, far above what one trace of a RAG app holds."""

_ZERO_PARENT = "00" * 8


def _parent(row: Mapping[str, Any]) -> str:
    """Empty for a root; an all-zero parent, the span itself or a wrong length is no parent."""
    parent = str(row["parent"])
    if len(parent) != 16 or parent in {_ZERO_PARENT, row["span"]}:
        return ""
    return parent.lower()


def _event(raw: str) -> SpanEvent:
    event = Span.Event.FromString(base64.b64decode(raw))
    return SpanEvent(event.name, event.time_unix_nano, plain_map(event.attributes))


def _link(raw: str) -> dict[str, Any]:
    link = Span.Link.FromString(base64.b64decode(raw))
    return {
        "trace_id": link.trace_id.hex(),
        "span_id": link.span_id.hex(),
        "trace_state": link.trace_state,
        "flags": link.flags,
        "attributes": plain_map(link.attributes),
        "dropped_attributes": link.dropped_attributes_count,
    }


def _span(project: str, row: Mapping[str, Any]) -> SpanRow:
    start = int(row["start_ns"])
    return SpanRow(
        project=project,
        trace_id=row["trace"].lower(),
        span_id=row["span"].lower(),
        parent_id=_parent(row),
        name=row["name"],
        kind=row["kind"],
        start_ns=start,
        end_ns=(start + int(row["duration_ns"])) % 2**64,
        status_code=row["status_code"],
        status_message=row["status_message"],
        scope_name=row["scope_name"],
        scope_version=row["scope_version"],
        resource=stored_json(row["resource"]),
        attributes=stored_map(row["keys"], row["kinds"], row["vals"]),
        events=tuple(_event(raw) for raw in row["events"]),
        scope_attributes=stored_json(row["scope_attrs"]),
        schema_url=row["scope_schema_url"] or row["resource_schema_url"],
        links=tuple(_link(raw) for raw in row["links"]),
        dropped_attributes=row["dropped_attributes"],
        dropped_events=row["dropped_events"],
        received_at=row["received_at"].replace(tzinfo=UTC),
    )


def _log(project: str, row: Mapping[str, Any]) -> LogRow:
    return LogRow(
        project=project,
        trace_id=row["trace"].lower(),
        span_id="" if row["span"] == _ZERO_PARENT else row["span"].lower(),
        event_name=row["event_name"],
        time_ns=int(row["time_ns"] or row["observed_ns"]),
        body=stored_any(row["body64"]),
        attributes=stored_map(row["keys"], row["kinds"], row["vals"]),
        scope_name=row["scope_name"],
        resource=stored_json(row["resource"]),
    )


def _is_trace_id(text: str) -> bool:
    return len(text) == 32 and all(letter in "0123456789abcdefABCDEF" for letter in text)


_FEW_TRACES = 50
"""Up to here the hashes of trace ids narrow the primary key; those of more lie everywhere."""


@dataclass(frozen=True, slots=True)
class TraceExtent:
    """Where one stored trace lies: spans stored (copies too), start times in ns, days, receipt."""

    stored: int
    first_received: datetime
    first_ns: int
    last_ns: int
    first_day: date
    last_day: date


def _asked(project: str, ids: Sequence[str]) -> dict[str, Any]:
    return {"project": project, "ids": "".join(ids), "count": len(ids)}


def extents_of_traces(
    store: Store, project: str, trace_ids: Sequence[str]
) -> dict[str, TraceExtent]:
    """Where traces lie, by trace id (lower-case hex); unknown traces are left out."""
    ids = [text for text in trace_ids if _is_trace_id(text)]
    if not ids:
        return {}
    return {
        row.pop("trace").lower(): TraceExtent(
            **{**row, "first_received": row["first_received"].replace(tzinfo=UTC)}
        )
        for row in store.rows(query("spans_index_of_traces"), _asked(project, ids))
    }


def spans_of_traces(
    store: Store,
    project: str,
    trace_ids: Sequence[str],
    *,
    limit: int = MAX_SPANS,
    extents: Mapping[str, TraceExtent] | None = None,
) -> dict[str, list[SpanRow]]:
    """Spans by trace id (lower-case hex), each list in order of start; unknown traces are left out.

    A span that arrived in several bodies is there once. At most `limit` spans are read in all.
    `extents` saves asking for them when they are known.
    """
    ids = [text for text in trace_ids if _is_trace_id(text)]
    known = extents_of_traces(store, project, ids) if extents is None else extents
    within = [extent for text in ids if (extent := known.get(text.lower())) is not None]
    if not within:
        return {}
    asked = {
        **_asked(project, ids),
        "many": len(ids) > _FEW_TRACES,
        "first_day": min(extent.first_day for extent in within),
        "last_day": max(extent.last_day for extent in within),
        "first_ns": min(extent.first_ns for extent in within),
        "last_ns": max(extent.last_ns for extent in within),
        "limit": limit,
    }
    found: dict[str, list[SpanRow]] = {}
    for row in store.rows(query("spans_of_traces"), asked):
        span = _span(project, row)
        found.setdefault(span.trace_id, []).append(span)
    for spans in found.values():
        spans.sort(key=lambda span: (span.start_ns, span.span_id))
    return found


def trace_spans(store: Store, project: str, trace_id: str) -> list[SpanRow]:
    """The spans of one trace (lower-case hex) in order of start; empty when it is not known."""
    return spans_of_traces(store, project, [trace_id]).get(trace_id, [])


def logs_of_traces(
    store: Store, project: str, trace_ids: Sequence[str], *, limit: int = MAX_SPANS
) -> dict[str, list[LogRow]]:
    """Log records by trace id (lower-case hex), each list in order of time."""
    ids = [text for text in trace_ids if _is_trace_id(text)]
    found: dict[str, list[LogRow]] = {}
    if not ids:
        return found
    asked = {**_asked(project, ids), "limit": limit}
    for row in store.rows(query("spans_logs_of_traces"), asked):
        log = _log(project, row)
        found.setdefault(log.trace_id, []).append(log)
    return found
