"""OTLP/HTTP as senders really speak it. Numbers are those of the receiver bugs that others had
(docs/conventions.md, "Known receiver bugs")."""

from __future__ import annotations

import base64
import gzip
import http.client
import json
import os
import socket
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from tests.support.collector_json import otlp_json
from tests.support.collector_process import JSON, PROTOBUF, CollectorProcess, a_request, post

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorProcess]:
    folder = tmp_path_factory.mktemp("collector") / "data"
    with CollectorProcess(folder, STAGEWATCH_MAX_REQUEST_MB="2") as process:
        yield process


def span_ids(request: ExportTraceServiceRequest) -> list[str]:
    return [
        span.span_id.hex().upper()
        for entry in request.resource_spans
        for group in entry.scope_spans
        for span in group.spans
    ]


def stored(collector: CollectorProcess, request: ExportTraceServiceRequest) -> list[str]:
    """Ids of the request's spans that are stored, once all that was accepted is."""
    collector.wait_drained()
    ids = ", ".join(f"'{span}'" for span in span_ids(request))
    rows = collector.rows(f"SELECT hex(span_id) AS id FROM spans WHERE hex(span_id) IN ({ids})")
    return sorted(row["id"] for row in rows)


def status_of(body: bytes) -> Status:
    return Status.FromString(body)


@pytest.mark.parametrize("path", ["/v1/traces", "/v1/traces/", "/api/public/otel/v1/traces"])
@pytest.mark.parametrize("encoding", ["", "identity", "gzip", "GZIP", "deflate", "zstd"])
def test_every_encoding_is_taken_on_every_path(
    collector: CollectorProcess, path: str, encoding: str
) -> None:
    request = a_request()
    raw = request.SerializeToString()
    packers: dict[str, Callable[[bytes], bytes]] = {
        "gzip": gzip.compress,
        "deflate": zlib.compress,
        "zstd": zstandard.compress,
    }
    packed = packers.get(encoding.lower(), bytes)(raw)
    headers = {**PROTOBUF, **({"Content-Encoding": encoding} if encoding else {})}
    answer = post(collector.http_port, packed, headers, path=path)
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["content-type"] == "application/x-protobuf"
    assert stored(collector, request) == sorted(span_ids(request))


def test_bug_1_base64_ids_of_the_right_length_are_taken_in_json(
    collector: CollectorProcess,
) -> None:
    request = a_request(2)
    document = json.loads(otlp_json(request))
    for span in document["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for name in ("traceId", "spanId", "parentSpanId"):
            if name in span:
                span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
    answer = post(collector.http_port, json.dumps(document).encode(), JSON)
    assert (answer.status, answer.body) == (200, b"{}")
    assert stored(collector, request) == sorted(span_ids(request))


@pytest.mark.parametrize(
    "content_type", ["application/json; charset=utf-8", "Application/JSON", "application/json;a=b"]
)
def test_bug_2_parameters_and_case_of_the_content_type_do_not_matter(
    collector: CollectorProcess, content_type: str
) -> None:
    request = a_request(1)
    answer = post(collector.http_port, otlp_json(request), {"Content-Type": content_type})
    assert answer.status == 200
    assert stored(collector, request) == span_ids(request)


@pytest.mark.parametrize(
    "body", [b'{"hello": 1}', b'{"resourceLogs": []}', b"[]", b"3", b'{"resourceSpans": {}}']
)
def test_bug_2_json_that_is_not_otlp_gets_no_yes(collector: CollectorProcess, body: bytes) -> None:
    answer = post(collector.http_port, body, JSON)
    assert answer.status == 400
    assert json.loads(answer.body)["code"] == 3
    assert answer.headers["content-type"] == "application/json"


def test_bug_4_a_body_of_five_mebibytes_is_whole_when_the_limit_allows_it(tmp_path: Path) -> None:
    with CollectorProcess(tmp_path / "data") as roomy:
        request = a_request(5, pad=1 << 20)
        body = request.SerializeToString()
        assert len(body) > 5 << 20
        assert post(roomy.http_port, body).status == 200
        roomy.wait_stored(5)
        sizes = roomy.rows("SELECT length(attrs['pad']) AS n FROM spans")
        assert [row["n"] for row in sizes] == [1 << 20] * 5


@pytest.mark.parametrize("bad", ["", "xyz", "00" * 16, "ab" * 15, None, 7, ["a"]])
def test_bug_5_and_13_bad_ids_in_json_reject_their_span_only(
    collector: CollectorProcess, bad: Any
) -> None:
    request = a_request(3)
    document = json.loads(otlp_json(request))
    document["resourceSpans"][0]["scopeSpans"][0]["spans"][1]["traceId"] = bad
    answer = post(collector.http_port, json.dumps(document).encode(), JSON)
    assert answer.status == 200
    partial = json.loads(answer.body)["partialSuccess"]
    assert partial["rejectedSpans"] == "1"
    assert "trace_id" in partial["errorMessage"]
    good = span_ids(request)
    assert stored(collector, request) == sorted([good[0], good[2]])


def test_bug_6_a_body_that_is_too_large_is_413_and_not_retryable(
    collector: CollectorProcess,
) -> None:
    answer = post(collector.http_port, a_request(3, pad=1 << 20).SerializeToString())
    assert answer.status == 413
    assert "retry-after" not in answer.headers
    assert status_of(answer.body).code == 8


def test_bug_7_errors_come_in_the_encoding_of_the_request(collector: CollectorProcess) -> None:
    answer = post(collector.http_port, b"\xff\xff\xff", PROTOBUF)
    assert answer.status == 400
    assert status_of(answer.body).message.startswith("the body is not a protobuf")
    answer = post(collector.http_port, b"{", JSON)
    assert (answer.status, json.loads(answer.body)["message"]) == (400, "the body is not JSON")


@pytest.mark.parametrize("path", ["/v1/metrics", "/v1/metrics/", "/api/public/otel/v1/metrics"])
def test_bug_7_and_8_metrics_are_taken_quietly(collector: CollectorProcess, path: str) -> None:
    assert post(collector.http_port, b"\x0a\x00", PROTOBUF, path=path).status == 200
    answer = post(collector.http_port, b'{"resourceMetrics":[]}', JSON, path=path)
    assert (answer.status, answer.body) == (200, b"{}")


def test_bug_7_and_15_null_characters_and_nan_are_stored(collector: CollectorProcess) -> None:
    request = a_request(1)
    document = json.loads(otlp_json(request))
    span = document["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    span["name"] = "a\x00b"
    span["attributes"] = [{"key": "score", "value": {"doubleValue": float("nan")}}]
    answer = post(collector.http_port, json.dumps(document).encode(), JSON)
    assert (answer.status, answer.body) == (200, b"{}")
    assert stored(collector, request) == span_ids(request)
    where = f"hex(span_id) = '{span_ids(request)[0]}'"
    row = collector.rows(f"SELECT name, attrs['score'] AS score FROM spans WHERE {where}")[0]
    assert (row["name"], row["score"]) == ("a\x00b", "nan")


def test_bug_8_and_17_gzipped_json_is_taken(collector: CollectorProcess) -> None:
    request = a_request(2)
    packed = gzip.compress(otlp_json(request))
    answer = post(collector.http_port, packed, {**JSON, "Content-Encoding": "gzip"})
    assert (answer.status, answer.body) == (200, b"{}")
    assert stored(collector, request) == sorted(span_ids(request))


def test_bug_8_logs_sent_to_the_traces_path_make_no_spans(collector: CollectorProcess) -> None:
    logs = ExportLogsServiceRequest()
    record = logs.resource_logs.add().scope_logs.add().log_records.add(time_unix_nano=5)
    record.body.string_value = "not a span"
    before = collector.value("SELECT count() FROM spans WHERE span_id = toFixedString('', 8)")
    answer = post(collector.http_port, logs.SerializeToString())
    assert answer.status in {200, 400}
    if answer.status == 200:
        partial = ExportTraceServiceResponse.FromString(answer.body).partial_success
        assert partial.rejected_spans == 1
        assert "trace_id" in partial.error_message
    assert before == 0
    assert stored(collector, a_request(1)) == []
    assert collector.value("SELECT count() FROM spans WHERE span_id = toFixedString('', 8)") == 0


def test_bug_8_attributes_that_are_no_list_reject_their_span_only(
    collector: CollectorProcess,
) -> None:
    request = a_request(3)
    document = json.loads(otlp_json(request))
    document["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["attributes"] = {"a": 1}
    answer = post(collector.http_port, json.dumps(document).encode(), JSON)
    partial = json.loads(answer.body)["partialSuccess"]
    assert partial == {"rejectedSpans": "1", "errorMessage": "1: attributes is not a list"}
    assert stored(collector, request) == sorted(span_ids(request)[1:])


def test_bug_9_a_json_body_under_a_protobuf_type_is_refused(collector: CollectorProcess) -> None:
    answer = post(collector.http_port, otlp_json(a_request(1)), PROTOBUF)
    assert answer.status == 400
    assert status_of(answer.body).code == 3


def test_bug_9_json_text_inside_an_attribute_is_stored_as_it_is(
    collector: CollectorProcess,
) -> None:
    request = a_request(1)
    pair = request.resource_spans[0].scope_spans[0].spans[0].attributes.add()
    pair.key = "input.value"
    pair.value.string_value = '{"question": "a \\"b\\""}'
    assert post(collector.http_port, otlp_json(request), JSON).status == 200
    assert stored(collector, request) == span_ids(request)
    where = f"hex(span_id) = '{span_ids(request)[0]}'"
    value = collector.value(f"SELECT attrs['input.value'] FROM spans WHERE {where}")
    assert value == '{"question": "a \\"b\\""}'


def test_bug_10_a_span_without_kind_is_stored(collector: CollectorProcess) -> None:
    request = a_request(1)
    request.resource_spans[0].scope_spans[0].spans[0].ClearField("kind")
    assert post(collector.http_port, request.SerializeToString()).status == 200
    assert stored(collector, request) == span_ids(request)


def test_bug_11_a_bomb_is_stopped_at_the_limit(collector: CollectorProcess) -> None:
    for encoding, bomb in (
        ("gzip", gzip.compress(bytes(300 << 20))),
        ("deflate", zlib.compress(bytes(300 << 20))),
        ("zstd", zstandard.compress(bytes(300 << 20))),
    ):
        answer = post(collector.http_port, bomb, {**PROTOBUF, "Content-Encoding": encoding})
        assert answer.status == 413, encoding
    with Path(f"/proc/{collector.process.pid}/status").open() as status:
        peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    assert peak < 1_000_000, "kB at most, ever"


def test_bug_12_and_16_a_parent_that_is_the_trace_id_is_kept_and_read_as_a_root(
    collector: CollectorProcess,
) -> None:
    request = a_request(2)
    root = request.resource_spans[0].scope_spans[0].spans[0]
    root.parent_span_id = root.trace_id
    assert post(collector.http_port, request.SerializeToString()).status == 200
    assert stored(collector, request) == sorted(span_ids(request))
    where = f"hex(span_id) = '{root.span_id.hex().upper()}'"
    row = collector.rows(f"SELECT marks, length(trace_id) AS size FROM spans WHERE {where}")[0]
    assert (row["marks"] & 8, row["size"]) == (8, 16)
    trace = root.trace_id.hex().upper()
    rooted = f"SELECT max(has_root) FROM trace_index WHERE hex(trace_id) = '{trace}'"
    collector.wait_for(lambda: bool(collector.value(rooted) == 1))


def test_bug_13_spans_older_than_an_hour_or_a_year_are_stored(collector: CollectorProcess) -> None:
    for age_s in (2 * 3600, 400 * 86400):
        request = a_request(1)
        span = request.resource_spans[0].scope_spans[0].spans[0]
        span.start_time_unix_nano -= age_s * 10**9
        assert post(collector.http_port, request.SerializeToString()).status == 200
        assert stored(collector, request) == span_ids(request)
        where = f"hex(span_id) = '{span_ids(request)[0]}'"
        assert collector.value(f"SELECT start_ns FROM spans WHERE {where}") == int(
            span.start_time_unix_nano
        )


def test_bug_14_invalid_utf8_in_one_string_rejects_one_span(collector: CollectorProcess) -> None:
    request = a_request(728)
    request.resource_spans[0].scope_spans[0].spans[400].name = "@@ill@@"
    body = request.SerializeToString().replace(b"@@ill@@", b"\xc3\x28ill\xff@")
    answer = post(collector.http_port, body)
    assert answer.status == 200
    partial = ExportTraceServiceResponse.FromString(answer.body).partial_success
    assert partial.rejected_spans == 1
    assert "UTF-8" in partial.error_message
    good = span_ids(request)
    del good[400]
    assert stored(collector, request) == sorted(good)


def test_bug_15_the_same_span_twice_in_one_request_is_taken(collector: CollectorProcess) -> None:
    request = a_request(1)
    spans = request.resource_spans[0].scope_spans[0].spans
    spans.add().CopyFrom(spans[0])
    assert post(collector.http_port, request.SerializeToString()).status == 200
    assert stored(collector, request) == span_ids(request)


def test_bug_17_malformed_requests_are_never_500(collector: CollectorProcess) -> None:
    for body in (b"\x00", b"\x0a\xff", b"\x0a\x02\x0a", os.urandom(300), b"\xff" * 64, b"[[[["):
        for headers in (PROTOBUF, JSON, {**PROTOBUF, "Content-Encoding": "gzip"}):
            answer = post(collector.http_port, body, headers)
            assert answer.status == 400, (body[:8], headers)


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/v1/traces", {}, 405),
        ("PUT", "/v1/traces", PROTOBUF, 405),
        ("POST", "/v1/trace", PROTOBUF, 404),
        ("POST", "/", PROTOBUF, 404),
        ("POST", "/v1/traces", {"Content-Type": "text/plain"}, 415),
        ("POST", "/v1/traces", {}, 415),
        ("POST", "/v1/traces", {**PROTOBUF, "Content-Encoding": "br"}, 415),
        ("POST", "/v1/traces", {**PROTOBUF, "Content-Encoding": "gzip, gzip"}, 415),
    ],
)
def test_wrong_requests_get_their_status_and_never_a_redirect(
    collector: CollectorProcess, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    answer = post(collector.http_port, b"", headers, path=path, method=method)
    assert answer.status == status
    assert answer.body


def test_empty_requests_are_a_success(collector: CollectorProcess) -> None:
    empty = ExportTraceServiceRequest()
    envelope = ExportTraceServiceRequest()
    envelope.resource_spans.add().scope_spans.add()
    for request in (empty, envelope):
        assert post(collector.http_port, request.SerializeToString()).status == 200
        assert post(collector.http_port, otlp_json(request), JSON).body == b"{}"


def test_a_frame_of_ours_in_a_body_is_not_believed(collector: CollectorProcess) -> None:
    request = a_request(2)
    forged = bytes.fromhex("c23e") + b"\x0d" + b"\x0a\x0bother-realm"
    answer = post(collector.http_port, forged + request.SerializeToString())
    assert answer.status == 200
    assert stored(collector, request) == sorted(span_ids(request))
    assert collector.value("SELECT count() FROM spans WHERE project != 'default'") == 0


def test_lone_surrogates_and_null_items_and_unknown_fields_lose_nothing(
    collector: CollectorProcess,
) -> None:
    request = a_request(2)
    text = otlp_json(request).decode()
    document = json.loads(text)
    group = document["resourceSpans"][0]["scopeSpans"][0]
    group["spans"].insert(0, None)
    group["spans"][1]["attributes"] = [None, {"key": "k", "value": None}, {"key": "n"}]
    group["spans"][1]["fieldOfTomorrow"] = {"a": [1]}
    group["spans"][2]["name"] = "high \ud800 alone"
    group["spans"][2]["startTimeUnixNano"] = int(group["spans"][2]["startTimeUnixNano"])
    document["resourceSpans"].append(None)
    answer = post(collector.http_port, json.dumps(document).encode(), JSON)
    assert (answer.status, answer.body) == (200, b"{}")
    assert stored(collector, request) == sorted(span_ids(request))
    where = f"hex(span_id) = '{span_ids(request)[1]}'"
    assert collector.value(f"SELECT name FROM spans WHERE {where}") == "high \ufffd alone"


def test_chunked_bodies_pipelined_requests_and_expect_are_served(
    collector: CollectorProcess,
) -> None:
    first, second, third = a_request(1), a_request(1), a_request(1)
    head = b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
    body = first.SerializeToString()
    chunked = head + b"Transfer-Encoding: chunked\r\n\r\n"
    for at in range(0, len(body), 50):
        part = body[at : at + 50]
        chunked += f"{len(part):x}\r\n".encode() + part + b"\r\n"
    chunked += b"0\r\n\r\n"
    with socket.create_connection(("127.0.0.1", collector.http_port), timeout=30) as connection:
        connection.sendall(chunked)
        assert connection.recv(1000).startswith(b"HTTP/1.1 200 OK")
        pair = b""
        for request in (second, third):
            raw = request.SerializeToString()
            pair += head + f"Content-Length: {len(raw)}\r\n\r\n".encode() + raw
        connection.sendall(pair)
        got = b""
        while got.count(b"HTTP/1.1 200 OK") < 2:
            got += connection.recv(1000)
        connection.sendall(head + b"Content-Length: 0\r\nExpect: 100-continue\r\n\r\n")
        got = b""
        while b"200 OK" not in got:
            got += connection.recv(1000)
        assert got.startswith((b"HTTP/1.1 100 Continue", b"HTTP/1.1 200 OK"))
    for request in (first, second, third):
        assert stored(collector, request) == span_ids(request)


def test_garbage_slow_and_half_closed_clients_disturb_nobody(collector: CollectorProcess) -> None:
    idle = [
        socket.create_connection(("127.0.0.1", collector.http_port), timeout=30) for _ in range(500)
    ]
    try:
        idle[0].sendall(os.urandom(5000) + b"\r\n\r\n")
        assert idle[0].recv(100).startswith(b"HTTP/1.1 400")
        idle[1].sendall(b"POST /v1/traces HTTP/1.1\r\nContent-Le")
        body = a_request(1).SerializeToString()
        head = (
            "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        ).encode()
        idle[2].sendall(head + body[:10])
        idle[3].sendall(head + body)
        idle[3].shutdown(socket.SHUT_WR)
        assert idle[3].recv(100).startswith(b"HTTP/1.1 200")
        request = a_request(3)
        assert stored(collector, request) == []
        assert post(collector.http_port, request.SerializeToString()).status == 200
        assert stored(collector, request) == sorted(span_ids(request))
    finally:
        for connection in idle:
            connection.close()


def test_one_connection_serves_many_requests(collector: CollectorProcess) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", collector.http_port, timeout=30)
    requests = [a_request(1) for _ in range(50)]
    for request in requests:
        connection.request("POST", "/v1/traces", request.SerializeToString(), PROTOBUF)
        response = connection.getresponse()
        assert (response.status, response.read()) == (200, b"")
    connection.close()
    for request in requests[:1] + requests[-1:]:
        assert stored(collector, request) == span_ids(request)


def test_a_span_with_a_hundred_thousand_attributes_is_stored(tmp_path: Path) -> None:
    request = a_request(1)
    span = request.resource_spans[0].scope_spans[0].spans[0]
    for number in range(100_000):
        pair = span.attributes.add()
        pair.key = f"key-{number}"
        pair.value.int_value = number
    with CollectorProcess(tmp_path / "data") as roomy:
        assert post(roomy.http_port, request.SerializeToString()).status == 200
        roomy.wait_stored(1)
        assert roomy.value("SELECT attrs['key-99999'] FROM spans") == "99999"
        assert roomy.value("SELECT length(kinds) FROM spans") == 100_000


def test_times_of_the_receiver_do_not_decide_what_is_stored(collector: CollectorProcess) -> None:
    """Ends before it starts, far future, zero times: kept and marked."""
    request = a_request(3)
    spans = request.resource_spans[0].scope_spans[0].spans
    spans[0].end_time_unix_nano = spans[0].start_time_unix_nano - 5
    spans[1].start_time_unix_nano = int((time.time() + 10 * 366 * 86400) * 1e9)
    spans[1].end_time_unix_nano = spans[1].start_time_unix_nano
    spans[2].start_time_unix_nano = spans[2].end_time_unix_nano = 0
    assert post(collector.http_port, request.SerializeToString()).status == 200
    ids = span_ids(request)
    assert stored(collector, request) == sorted(ids)
    rows = collector.rows(
        "SELECT hex(span_id) AS id, marks, dateDiff('day', toDate(received_at), day) AS days "
        f"FROM spans WHERE hex(span_id) IN ('{ids[0]}', '{ids[1]}', '{ids[2]}')"
    )
    found = {row["id"]: (row["marks"], row["days"]) for row in rows}
    assert found == {ids[0]: (1, 0), ids[1]: (2, 1), ids[2]: (2, -30)}
