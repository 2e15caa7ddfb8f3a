"""The real OpenTelemetry exporters against a collector in a subprocess."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (
    OTLPSpanExporter as GrpcExporter,
)
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import (
    OTLPSpanExporter as HttpExporter,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from tests.support.collector_process import CollectorProcess, a_request, grpc_call, post

pytestmark = pytest.mark.integration

Exporter = Callable[[CollectorProcess], SpanExporter]

EXPORTERS: dict[str, Exporter] = {
    "grpc": lambda c: GrpcExporter(endpoint=c.addresses["otlp grpc"], insecure=True),
    "grpc-gzip": lambda c: GrpcExporter(
        endpoint=c.addresses["otlp grpc"], insecure=True, compression=grpc.Compression.Gzip
    ),
    "http": lambda c: HttpExporter(endpoint=c.addresses["otlp http"] + "/v1/traces"),
    "http-gzip": lambda c: HttpExporter(
        endpoint=c.addresses["otlp http"] + "/v1/traces", compression=Compression.Gzip
    ),
}


def send_turns(exporter: SpanExporter, turns: int, service: str) -> list[str]:
    """Send small RAG turns and return the ids of their spans."""
    provider = TracerProvider(resource=Resource({"service.name": service}))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    tracer = provider.get_tracer("test", "1")
    ids = []
    for number in range(turns):
        with tracer.start_as_current_span("turn") as root:
            root.set_attribute("openinference.span.kind", "CHAIN")
            root.set_attribute("input.value", f"question {number}?")
            root.set_attribute("output.value", f"answer {number}.")
            root.set_attribute("llm.token_count.prompt", number)
            with tracer.start_as_current_span("retrieve") as child:
                child.set_attribute("openinference.span.kind", "RETRIEVER")
                child.set_attribute("input.value", f"question {number}?")
                child.set_attribute("retrieval.documents.0.document.id", f"d{number}")
                child.set_attribute("retrieval.documents.0.document.content", f"text {number}")
        ids += [format(span.get_span_context().span_id, "016X") for span in (root, child)]
    assert provider.force_flush()
    provider.shutdown()
    return ids


@pytest.mark.parametrize("name", EXPORTERS)
def test_spans_survive_sigkill_after_the_last_yes_exactly_once(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    # Segments are held back, so that at the kill all of it is in the spool only.
    with CollectorProcess(folder, STAGEWATCH_SEGMENT_SECONDS="3600") as collector:
        sent = send_turns(EXPORTERS[name](collector), 700, "shop")
        assert collector.value("SELECT count() FROM spans") == 0
        collector.kill()
    with CollectorProcess(folder, STAGEWATCH_QUIET_SECONDS="0.2") as collector:
        collector.wait_drained()
        rows = collector.rows(
            "SELECT hex(span_id) AS id, service, attrs['input.value'] AS q FROM spans"
        )
        assert sorted(row["id"] for row in rows) == sorted(sent)
        assert {row["service"] for row in rows} == {"shop"}
        assert collector.value("SELECT sum(spans) FROM rollup_minute") == len(sent)
        assert collector.value("SELECT sum(spans) FROM trace_index") == len(sent)
        assert collector.value("SELECT sum(n) FROM trace_touch") == len(sent)
        assert collector.terminate() is None
    assert not list((folder / "spool").glob("*.*"))


def test_turns_are_assembled_once_their_trace_is_quiet(tmp_path: Path) -> None:
    with CollectorProcess(tmp_path / "data", STAGEWATCH_QUIET_SECONDS="0.3") as collector:
        send_turns(EXPORTERS["http"](collector), 20, "shop")
        count = "SELECT count() FROM turns FINAL WHERE replaced_by = ''"
        collector.wait_for(lambda: collector.value(count) == 20)
        rows = collector.rows("SELECT question, answer, chunk_ids FROM turns FINAL")
        assert sorted(row["question"] for row in rows) == sorted(
            f"question {n}?" for n in range(20)
        )
        assert {row["answer"] for row in rows} == {f"answer {n}." for n in range(20)}
        assert sorted(row["chunk_ids"][0] for row in rows) == sorted(f"d{n}" for n in range(20))


def test_late_spans_reopen_their_turn_and_a_restart_writes_nothing_anew(tmp_path: Path) -> None:
    request = a_request(3)
    root, child, answer = request.resource_spans[0].scope_spans[0].spans

    def put(span: Any, **attributes: str) -> None:
        for key, value in attributes.items():
            pair = span.attributes.add()
            pair.key = key.replace("__", ".")
            pair.value.string_value = value

    put(root, openinference__span__kind="CHAIN", input__value="why?", output__value="so.")
    put(answer, openinference__span__kind="LLM", input__value="why?", output__value="so.")
    put(child, openinference__span__kind="RETRIEVER", input__value="why?")
    put(child, retrieval__documents__0__document__content="because")
    late = type(request).FromString(request.SerializeToString())
    del request.resource_spans[0].scope_spans[0].spans[1]
    del late.resource_spans[0].scope_spans[0].spans[2]
    del late.resource_spans[0].scope_spans[0].spans[0]
    settings = {"STAGEWATCH_QUIET_SECONDS": "0.3", "STAGEWATCH_ORPHAN_SECONDS": "0.6"}
    chunks = "SELECT max(length(chunk_ids)) FROM turns FINAL"
    revision = "SELECT max(revision) FROM turns"
    with CollectorProcess(tmp_path / "data", **settings) as collector:
        assert post(collector.http_port, request.SerializeToString()).status == 200
        collector.wait_for(lambda: collector.value("SELECT count() FROM turns FINAL") == 1)
        assert collector.value(chunks) == 0
        first = collector.value(revision)
        assert post(collector.http_port, late.SerializeToString()).status == 200
        collector.wait_for(lambda: bool(collector.value(chunks) == 1))
        second = collector.value(revision)
        assert second > first
        assert collector.value("SELECT count() FROM turns FINAL") == 1
        collector.kill()
    with CollectorProcess(tmp_path / "data", **settings) as collector:
        other = a_request(2)
        root, answer = other.resource_spans[0].scope_spans[0].spans
        put(root, openinference__span__kind="CHAIN", input__value="next?", output__value="yes.")
        put(answer, openinference__span__kind="LLM", input__value="next?", output__value="yes.")
        assert post(collector.http_port, other.SerializeToString()).status == 200
        collector.wait_for(lambda: collector.value("SELECT count() FROM turns FINAL") == 2)
        known = "SELECT max(revision) FROM turns WHERE question = 'why?'"
        assert collector.value(known) == second


def test_the_same_body_is_stored_once_also_in_flight_and_after_a_restart(tmp_path: Path) -> None:
    body = a_request(50).SerializeToString()
    folder = tmp_path / "data"
    with CollectorProcess(folder) as collector:
        channel = grpc.insecure_channel(f"127.0.0.1:{collector.grpc_port}")
        call = grpc_call(channel)
        flights = [call.future(body, timeout=30) for _ in range(20)]
        assert post(collector.http_port, body).status == 200
        assert {flight.result() for flight in flights} == {b""}
        channel.close()
        collector.wait_stored(50)
        # Stored and out of the spool: only the store still knows the body.
        collector.wait_drained()
        collector.kill()
    with CollectorProcess(folder, STAGEWATCH_SEGMENT_SECONDS="3600") as collector:
        assert post(collector.http_port, body).status == 200
        fence = a_request(1).SerializeToString()
        assert post(collector.http_port, fence).status == 200
        # Not stored: only the spool knows the fence.
        collector.kill()
    with CollectorProcess(folder) as collector:
        assert post(collector.http_port, fence).status == 200
        collector.wait_stored(51)
        assert collector.terminate() is None
    with CollectorProcess(folder) as collector:
        assert collector.value("SELECT count() FROM spans") == 51
        assert collector.value("SELECT sum(spans) FROM trace_index") == 51


def test_grpc_answers_in_its_own_form(tmp_path: Path) -> None:
    with CollectorProcess(tmp_path / "data", STAGEWATCH_MAX_REQUEST_MB="1") as collector:
        channel = grpc.insecure_channel(f"127.0.0.1:{collector.grpc_port}")
        call = grpc_call(channel)
        request = a_request(3)
        request.resource_spans[0].scope_spans[0].spans[1].span_id = b"short"
        answer = ExportTraceServiceResponse.FromString(
            call(request.SerializeToString(), timeout=30)
        )
        assert answer.partial_success.rejected_spans == 1
        assert "span_id" in answer.partial_success.error_message
        with pytest.raises(grpc.RpcError) as garbage:
            call(b"\xff\xff", timeout=30)
        assert garbage.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert details_of(garbage.value).code == 3
        with pytest.raises(grpc.RpcError) as large:
            call(a_request(2, pad=1 << 20).SerializeToString(), timeout=30)
        assert large.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        bomb = a_request(1).SerializeToString() + bytes(100 << 20)
        with pytest.raises(grpc.RpcError) as inflated:
            call(bomb, timeout=60, compression=grpc.Compression.Gzip)
        assert inflated.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        with pytest.raises(grpc.RpcError) as unknown:
            grpc_call(channel, "/x.Y/Z")(b"", timeout=30)
        assert unknown.value.code() is grpc.StatusCode.UNIMPLEMENTED
        metrics = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
        assert grpc_call(channel, metrics)(b"\x0a\x00", timeout=30) == b""
        channel.close()
        with socket.create_connection(("127.0.0.1", collector.grpc_port), timeout=30) as raw:
            raw.sendall(os.urandom(2000))
            raw.settimeout(30)
            while raw.recv(1000):
                pass
        assert post(collector.http_port, a_request(1).SerializeToString()).status == 200
        collector.wait_stored(3)


def details_of(error: Any) -> Status:
    trailers = dict(error.trailing_metadata())
    return Status.FromString(trailers["grpc-status-details-bin"])


def test_bug_3_a_full_spool_is_retryable_with_a_short_delay_on_both_protocols(
    tmp_path: Path,
) -> None:
    settings = {"COLLECTOR_STORE": "refuse", "STAGEWATCH_SPOOL_MAX_MB": "1"}
    with CollectorProcess(tmp_path / "data", **settings) as collector:
        port = collector.http_port
        accepted = 0
        while (answer := post(port, a_request(5, pad=20_000).SerializeToString())).status == 200:
            accepted += 1
            assert accepted < 30
        assert answer.status == 503
        assert answer.headers["retry-after"] in {"1", "2", "3"}
        assert Status.FromString(answer.body).code == 14
        channel = grpc.insecure_channel(f"127.0.0.1:{collector.grpc_port}")
        with pytest.raises(grpc.RpcError) as refused:
            grpc_call(channel)(a_request(1).SerializeToString(), timeout=30)
        channel.close()
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        retry = RetryInfo()
        assert details_of(refused.value).details[0].Unpack(retry)
        assert 1 <= retry.retry_delay.seconds <= 3
        collector.kill()
    with CollectorProcess(tmp_path / "data") as collector:
        collector.wait_stored(accepted * 5)
        assert collector.terminate() is None
    assert accepted >= 5


def test_sigterm_drains_or_says_what_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with CollectorProcess(folder, STAGEWATCH_SEGMENT_SECONDS="3600") as collector:
        for _ in range(20):
            assert post(collector.http_port, a_request(5).SerializeToString()).status == 200
        assert collector.terminate() is None
    assert not list((folder / "spool").glob("*.*"))
    with CollectorProcess(folder, COLLECTOR_STORE="refuse") as collector:
        assert collector.value("SELECT count() FROM spans") == 100
        assert post(collector.http_port, a_request(5).SerializeToString()).status == 200
        said = collector.terminate()
    assert said is not None
    assert "left in the spool" in said
    with CollectorProcess(folder) as collector:
        collector.wait_stored(105)


@pytest.mark.parametrize("port", ["HTTP", "GRPC"])
def test_a_port_in_use_is_one_clear_line(tmp_path: Path, port: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = str(taken.getsockname()[1])
        name = f"STAGEWATCH_OTLP_{port}_PORT"
        with CollectorProcess(tmp_path / "data", **{name: number}) as collector:
            said = json.dumps(collector.addresses)
    assert number in said
    assert name in said
    assert "Traceback" not in collector.log.read_text()


def test_with_ack_insert_a_yes_means_stored(tmp_path: Path) -> None:
    with CollectorProcess(tmp_path / "data", STAGEWATCH_ACK="insert") as collector:
        for number in range(1, 4):
            assert post(collector.http_port, a_request(5).SerializeToString()).status == 200
            assert collector.value("SELECT count() FROM spans") == 5 * number
