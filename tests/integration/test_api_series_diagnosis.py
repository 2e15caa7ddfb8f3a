"""A series told apart by what the turns were diagnosed with."""

from __future__ import annotations

from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from tests.support.refund import send_turn
from tests.support.server import serving, until

pytestmark = pytest.mark.integration


def test_points_are_grouped_by_the_stage_that_failed_first(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as server:
        exporter = OTLPSpanExporter(endpoint=f"{server.otlp_http}/v1/traces")
        for _ in range(2):
            send_turn(exporter)
        send_turn(exporter, answer="You can request a refund within 30 days of delivery.")
        exporter.shutdown()  # type: ignore[no-untyped-call] # none in the library

        def groups() -> dict[str, tuple[int, float]] | None:
            asked = "/series?metric=faithfulness&stat=pass_rate&group_by=diagnosis&step=86400"
            items = server.get(asked)["items"]
            found = {item["group"]: (item["n"], item["estimate"]) for item in items}
            # Scores are stored before diagnoses.
            done = "" not in found and sum(n for n, _ in found.values()) == 3
            return found if done else None

        assert until("three turns", groups) == {"generation": (2, 0.0), "ok": (1, 1.0)}
        assert server.call("GET", "/api/v1/compare?by=diagnosis&a=ok&b=generation").status == 400
