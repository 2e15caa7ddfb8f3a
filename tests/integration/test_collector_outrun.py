"""Spans that come faster than turns can be made wait on disk: shown, bounded, and all of them done."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tests.support.collector_process import post
from tests.support.server import serving, until

pytestmark = pytest.mark.integration

TRACES = 3000


def _burst(traces: int) -> list[bytes]:
    """Traces of a turn, a retrieval and a model call, 200 in a body."""
    bodies = []
    for first in range(0, traces, 200):
        request = ExportTraceServiceRequest()
        group = request.resource_spans.add().scope_spans.add()
        for number in range(first, min(first + 200, traces)):
            _trace(group.spans, number)
        bodies.append(request.SerializeToString())
    return bodies


def _trace(spans: object, number: int) -> None:
    trace, root, start = os.urandom(16), os.urandom(8), time.time_ns()
    passages = '[{"id": "a", "content": "the window is 30 days"}]'
    for kind, attributes in {
        "turn": {"input.value": f"question {number}", "output.value": f"answer {number}"},
        "retrieve": {
            "gen_ai.retrieval.query.text": f"question {number}",
            "gen_ai.retrieval.documents": passages,
        },
        "generate": {"gen_ai.request.model": "small"},
    }.items():
        span = spans.add(  # type: ignore[attr-defined] # a repeated field
            trace_id=trace,
            span_id=root if kind == "turn" else os.urandom(8),
            parent_span_id=b"" if kind == "turn" else root,
            name=kind,
            start_time_unix_nano=start,
            end_time_unix_nano=start + 1_000_000,
        )
        for key, value in {"stagewatch.step": kind, **attributes}.items():
            pair = span.attributes.add(key=key)
            pair.value.string_value = value


def test_the_backlog_is_shown_lists_answer_meanwhile_and_every_turn_comes(tmp_path: Path) -> None:
    rate = {"STAGEWATCH_SAMPLE_RATE": "0", "STAGEWATCH_QUIET_SECONDS": "0"}
    with serving(tmp_path / "data", **rate) as server:
        port = int(server.otlp_http.rsplit(":", 1)[1])
        for body in _burst(TRACES):
            assert post(port, body).status == 200
        backlog = 0.0

        def all_made() -> bool:
            nonlocal backlog
            metrics = server.call("GET", "/metrics").body.decode()
            (waiting,) = re.findall(
                r"^stagewatch_assembler_pending_traces (\S+)$", metrics, re.MULTILINE
            )
            backlog = max(backlog, float(waiting))
            page = server.get("/turns?limit=50")
            assert len(page["items"]) == min(50, page["total"])
            return int(page["total"]) >= TRACES

        until("every turn", all_made, deadline_s=120)
        # A batch takes 400: had assembly kept up, there would never have been more in wait.
        assert backlog > 400
        assert server.get("/turns?limit=1")["total"] == TRACES
        health = server.call("GET", "/readyz")
        assert health.status == 200
