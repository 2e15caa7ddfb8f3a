"""OTLP request bodies (protobuf, or OTLP/JSON) to the rows that assembly takes.

The collector's store yields the same shapes; this decoder lets tests of the pure part run
without an engine.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stagewatch.collector.assemble import assemble_turns
from stagewatch.collector.assemble.otlp_file import read_otlp_file
from stagewatch.core.model import LogRow, SpanRow, Turn

GOLDEN = Path(__file__).parents[1] / "golden" / "otlp"


def capture_rows(folder: Path) -> tuple[list[SpanRow], list[LogRow]]:
    """Every span and log record of one capture folder, in the order sent."""
    spans: list[SpanRow] = []
    logs: list[LogRow] = []
    for path in sorted(folder.glob("[0-9]*.*")):
        more_spans, more_logs = read_otlp_file(path)
        spans += more_spans
        logs += more_logs
    return spans, logs


def assemble_capture(folder: Path) -> list[Turn]:
    """The turns of every trace of a capture, with its own attribute map, by start time."""
    spans, logs = capture_rows(folder)
    attribute_map = attribute_map_of(json.loads((folder / "expected.json").read_bytes()))
    traces = sorted({span.trace_id for span in spans})
    turns = [
        turn
        for trace_id in traces
        for turn in assemble_turns(
            [span for span in spans if span.trace_id == trace_id],
            [log for log in logs if log.trace_id == trace_id],
            attribute_map=attribute_map,
        )
    ]
    return sorted(turns, key=lambda turn: turn.started_at)


def attribute_map_of(expected: dict[str, Any]) -> dict[str, str]:
    """The capture's attribute map, turned around: attribute name to turn field.

    Its values may name several attributes ("a or b") and event attributes ("EVENT name a").
    """
    found = {}
    for field, names in expected.get("attribute_map", {}).items():
        for name in names.split(" or "):
            found[name.split()[-1]] = field
    return found
