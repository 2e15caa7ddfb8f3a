"""Spans for tests of assembly: written by hand, or what the SDK really emits."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan

from stagewatch.collector.assemble import assemble_turns
from stagewatch.collector.assemble.otlp_file import read_otlp_spans
from stagewatch.core.model import SpanEvent, SpanRow, Turn
from stagewatch.sdk.testing import capture

TRACE = "0af7651916cd43dd8448eb211c80319c"


class Trace:
    """One trace written span by span; each starts after the one before and ends in its parent."""

    def __init__(self) -> None:
        self.spans: list[SpanRow] = []
        self._ids = itertools.count(1)

    def add(
        self,
        name: str,
        attributes: dict[str, Any],
        parent: SpanRow | str | None = None,
        **changes: Any,
    ) -> SpanRow:
        """Add one span; `parent` is a span, a raw parent id or None for a root."""
        number = next(self._ids)
        parent_id = parent.span_id if isinstance(parent, SpanRow) else parent or ""
        fields: dict[str, Any] = {
            "project": "p",
            "trace_id": TRACE,
            "span_id": f"{number:016x}",
            "parent_id": parent_id,
            "name": name,
            "kind": 1,
            "start_ns": number * 1_000,
            "end_ns": 1_000_000 - number if not attributes.get("_end") else attributes["_end"],
            "status_code": 0,
            "status_message": "",
            "scope_name": "test",
            "scope_version": "",
            "resource": {"service.name": "bot"},
            "attributes": {k: v for k, v in attributes.items() if k != "_end"},
        }
        span = SpanRow(**{**fields, **changes})
        self.spans.append(span)
        return span

    def turns(self, **options: Any) -> list[Turn]:
        """The turns of the trace, sent in reverse to show that order does not matter."""
        return assemble_turns(self.spans[::-1], **options)


def event(name: str, time_ns: int = 0, **attributes: Any) -> SpanEvent:
    """A span event."""
    return SpanEvent(name, time_ns, attributes)


def only(turns: list[Turn]) -> Turn:
    """The one turn there is."""
    (turn,) = turns
    return turn


def why(turn: Turn, field: str) -> str | None:
    """Why `field` is missing, or None when it is not."""
    return next((missing.why for missing in turn.missing if missing.field == field), None)


def rows_of(spans: Sequence[ReadableSpan]) -> list[SpanRow]:
    """SDK spans over the wire format and back, as rows."""
    return read_otlp_spans(encode_spans(spans).SerializeToString())


@contextmanager
def sdk_turns() -> Iterator[list[Turn]]:
    """The turns that SDK calls inside the block assemble to (filled when it ends)."""
    found: list[Turn] = []
    with capture() as captured:
        yield found
    rows = rows_of(captured.spans)
    for trace_id in sorted({row.trace_id for row in rows}):
        found += assemble_turns([row for row in rows if row.trace_id == trace_id])
