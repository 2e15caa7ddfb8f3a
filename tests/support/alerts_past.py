"""Turns of the last days, sent as OTLP/JSON: a project that used to be busy."""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.request import Request, urlopen

from tests.support.server import Server, until

_DAY_NS = 86_400 * 10**9


def _attribute(name: str, value: str) -> dict[str, Any]:
    return {"key": name, "value": {"stringValue": value}}


def _span(trace_id: str, span_id: str, start: int) -> dict[str, Any]:
    return {
        "traceId": trace_id,
        "spanId": span_id,
        "name": "turn",
        "kind": 1,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + 10**9),
        "attributes": [
            _attribute("stagewatch.step", "turn"),
            _attribute("input.value", "How long may I return it?"),
            _attribute("output.value", "30 days from delivery."),
        ],
    }


def send_past(
    otlp_http: str, *, days: float = 6.0, until_days_ago: float = 0.5, n: int = 600
) -> None:
    """`n` turns, evenly from `days` ago to `until_days_ago`."""
    now = time.time_ns()
    begin, end = now - int(days * _DAY_NS), now - int(until_days_ago * _DAY_NS)
    _send(
        otlp_http,
        [
            _span(f"{begin:016x}{number:016x}", f"{begin + number:016x}",
                  begin + (end - begin) * number // n)
            for number in range(n)
        ],
    )  # fmt: skip


def have_past_alert(server: Server) -> None:
    """Bring the server to an open alert: a past that was busy, and silence since."""
    send_past(server.otlp_http)
    server.turns(500)
    # The job that notices silence runs at the start.
    server.stop()
    server.start()
    until("the alert", lambda: server.get("/alerts")["items"])


def send_turn_of_trace(otlp_http: str, trace_id: str) -> None:
    """One turn, now, in this trace."""
    _send(otlp_http, [_span(trace_id, "1" * 16, time.time_ns())])


def _send(otlp_http: str, spans: list[dict[str, Any]]) -> None:
    body = {
        "resourceSpans": [
            {
                "resource": {"attributes": [_attribute("service.name", "bot")]},
                "scopeSpans": [{"scope": {"name": "test"}, "spans": spans}],
            }
        ]
    }
    request = Request(
        f"{otlp_http}/v1/traces", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urlopen(request, timeout=30) as answer:
        said = json.loads(answer.read() or b"{}")
    assert not said.get("partialSuccess", {}).get("rejectedSpans"), said
