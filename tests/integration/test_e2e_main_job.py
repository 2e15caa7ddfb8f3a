"""The main job, whole: real exporters → spans → turn → scores → dispute → promote → export."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tests.support.refund import CURRENT, OLD, SHIPPING, send_turn
from tests.support.server import Server, serving, until

pytestmark = pytest.mark.integration


def spans_of(server: Server, trace_id: str) -> list[str]:
    return [span["span_id"] for span in server.get(f"/traces/{trace_id}")["spans"]]


def test_a_killed_server_loses_and_doubles_nothing_and_a_dispute_becomes_a_row(
    tmp_path: Path,
) -> None:
    server = Server(tmp_path / "data").start()
    sent = []
    for n in range(5):
        over_http = HttpExporter(endpoint=f"{server.otlp_http}/v1/traces")
        over_grpc = GrpcExporter(endpoint=server.otlp_grpc, insecure=True)
        exporter = over_http if n % 2 else over_grpc
        sent.append(send_turn(exporter, conversation=f"c{n}"))
    server.kill()

    server.start()
    try:
        turns = server.turns(5)
        assert Counter(turn["trace_id"] for turn in turns) == Counter(sent)
        for trace_id in sent:
            spans = spans_of(server, trace_id)
            assert len(spans) == len(set(spans)) == 3, trace_id

        turn = server.scored(turns[0]["turn_id"])
        assert turn["diagnosis"]["stage"] == "generation"
        faithfulness = next(s for s in turn["scores"] if s["metric"] == "faithfulness")
        assert faithfulness["hard_fail"] is True
        assert faithfulness["verdict"] == "fail"
        assert [claim["label"] for claim in turn["claims"]] == ["CONTRADICTED"]
        assert turn["decision"]["outcome"] == "scored"

        said = server.post(
            "/feedback",
            {
                "trace_id": turn["trace_id"],
                "kind": "disputed",
                "comment": "the policy says 30",
                "source": "helpdesk",
                "external_id": "case-9",
            },
            201,
        )
        assert said["joined"] is True
        queue = server.get("/review")["items"]
        assert [item["turn_id"] for item in queue] == [turn["turn_id"]]

        row = server.post(f"/turns/{turn['turn_id']}/promote", {"dataset": "regressions"}, 201)
        again = server.post(f"/turns/{turn['turn_id']}/promote", {"dataset": "regressions"}, 200)
        assert again["row_id"] == row["row_id"]
        exported = server.call("GET", "/api/v1/datasets/regressions/export?format=jsonl")
        rows = [json.loads(line) for line in exported.body.splitlines()]
        assert len(rows) == 1
        assert rows[0]["failure"] == "generation"
        assert rows[0]["kind"] == "happy_path"
        assert rows[0]["needs"] == [
            {
                "any_of": [
                    {"chunk_id": CURRENT["id"], "document_id": "refund-policy", "version": "v7"}
                ]
            }
        ]
        assert rows[0]["provenance"]["turn_id"] == turn["turn_id"]
        assert rows[0]["provenance"]["feedback"] == [said["feedback"]["feedback_id"]]
        assert rows[0]["turn"]["answer"] == turn["answer"]
        assert server.get("/review")["items"] == []
    except BaseException:
        print(server.output())
        raise
    finally:
        assert server.stop() == 0


def test_a_stale_answer_that_is_disputed_arrives_as_a_stale_policy_row(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as server:
        exporter = HttpExporter(endpoint=f"{server.otlp_http}/v1/traces")
        trace_id = send_turn(exporter, documents=[OLD, CURRENT, SHIPPING])
        turn = server.scored(server.turns(1)[0]["turn_id"])
        assert turn["diagnosis"]["stage"] == "stale_source"
        server.post("/feedback", {"trace_id": trace_id, "kind": "disputed"}, 201)
        row = server.post(f"/turns/{turn['turn_id']}/promote", {"dataset": "regressions"}, 201)
        assert row["kind"] == "stale_policy"
        assert row["failure"] == "stale_source"
        assert row["status"] == "needs_review"
        assert [p["version"] for need in row["needs"] for p in need["any_of"]] == ["v7"]

        confirm = f"/api/v1/datasets/regressions/rows/{row['row_id']}/confirm"
        own = server.call("POST", confirm, {})
        assert own.status == 403
        assert "second person" in own.json()["detail"]
        other = server.call("POST", confirm, {}, {"x-stagewatch-user": "Second Reviewer"})
        assert other.status == 200
        assert other.json()["row"]["provenance"]["reviewed_by"] == "Second Reviewer"


def test_feedback_that_comes_before_its_trace_is_joined_when_it_comes(tmp_path: Path) -> None:
    later = 0xABCDEF0123456789ABCDEF0123456789
    with serving(tmp_path / "data") as server:
        told = {"trace_id": f"{later:032x}", "kind": "escalated", "external_id": "t-1"}
        assert server.post("/feedback", told, 202)["joined"] is False
        assert server.get("/review")["items"] == []
        send_turn(HttpExporter(endpoint=f"{server.otlp_http}/v1/traces"), trace_id=later)
        turn_id = server.turns(1)[0]["turn_id"]

        def flagged() -> list[str] | None:
            return [item["turn_id"] for item in server.get("/review")["items"]] or None

        assert until("the flag", flagged) == [turn_id]
        feedback = server.get(f"/turns/{turn_id}")["feedback"]
        assert [item["turn_id"] for item in feedback] == [turn_id]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_drain_the_spool_and_end_with_exit_0(tmp_path: Path, number: int) -> None:
    server = Server(tmp_path / "data", {"STAGEWATCH_SEGMENT_SECONDS": "30"}).start()
    send_turn(HttpExporter(endpoint=f"{server.otlp_http}/v1/traces"))
    assert server.stop(number) == 0, server.output()
    left = list((tmp_path / "data" / "spool").rglob("*.seg"))
    assert left == []
    server.start()
    assert len(server.turns(1)) == 1
    assert server.stop() == 0


def test_a_backfill_over_many_days_is_assembled(tmp_path: Path) -> None:
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    now = time.time_ns()
    for day in range(150):
        span = spans.add(
            trace_id=os.urandom(16),
            span_id=(day + 1).to_bytes(8, "big"),
            name="ask",
            start_time_unix_nano=now - day * 86_400_000_000_000,
            end_time_unix_nano=now - day * 86_400_000_000_000 + 1_000_000,
        )
        for key, text in (
            ("openinference.span.kind", "LLM"),
            ("input.value", f"Question {day}?"),
            ("output.value", "An answer."),
        ):
            span.attributes.add(key=key).value.string_value = text
    with serving(tmp_path / "data", STAGEWATCH_RETENTION_DAYS="1000") as server:
        body = request.SerializeToString()
        sent = Request(f"{server.otlp_http}/v1/traces", data=body, method="POST")
        sent.add_header("content-type", "application/x-protobuf")
        with urlopen(sent, timeout=30) as answer:
            assert answer.status == 200
        assert len(server.turns(150)) == 150
        assert server.call("GET", "/readyz").status == 200


def test_nothing_is_written_outside_the_data_folder(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as server:
        send_turn(HttpExporter(endpoint=f"{server.otlp_http}/v1/traces"))
        server.scored(server.turns(1)[0]["turn_id"])
    # The server runs in tmp_path; its log is the test's own.
    assert {path.name for path in tmp_path.iterdir()} == {"data", "data.log"}
