"""The SDK's own way of sending, to real servers: busy, redirecting, rejecting, behind TLS."""

from __future__ import annotations

import contextlib
import gzip
import ssl
import subprocess
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from stagewatch.collector.assemble.otlp_file import read_otlp_spans
from stagewatch.sdk._guard import guard
from stagewatch.sdk._http import Poster
from stagewatch.sdk._otlp import HttpExporter, traces_address

pytestmark = pytest.mark.integration


GARBAGE, DRIPPING = -1, -2
"""Statuses that are none: what to do instead of answering."""


@dataclass
class Scripted:
    """Answers in order; the last one for ever. Each is (status, headers, body)."""

    answers: list[tuple[int, dict[str, str], bytes]]
    url: str = ""
    asked: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)


class Handler(BaseHTTPRequestHandler):
    """Answers from the script of its server."""

    def do_POST(self) -> None:
        assert isinstance(self.server, Server)
        script = self.server.script
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        script.asked.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        told = script.answers
        status, headers, answer = told.pop(0) if len(told) > 1 else told[0]
        if status < 0:
            self.misbehave(status)
            return
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(answer))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer)

    def misbehave(self, how: int) -> None:
        """Garbage, or an answer that never ends, one byte at a time."""
        self.close_connection = True
        if how == GARBAGE:
            self.wfile.write(b"\x00\x01 garbage\r\n\r\n")
            return
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        with contextlib.suppress(OSError):
            while not self.server.over.wait(0.05):  # type: ignore[attr-defined]  # see Server
                self.wfile.write(b"x")

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, *_: object) -> None:
        """Quiet: the test's own output matters."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    script: Scripted

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.over = threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A refused handshake is what some tests want."""


@contextmanager
def serving(
    *answers: tuple[int, dict[str, str], bytes], tls: ssl.SSLContext | None = None
) -> Iterator[Scripted]:
    script = Scripted(list(answers) or [(200, {}, b"")])

    server = Server(("127.0.0.1", 0), Handler)
    server.script = script
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    script.url = f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield script
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(autouse=True)
def fresh_counts() -> Iterator[None]:
    guard.counts.clear()
    yield
    guard.counts.clear()


def spans(name: str = "s") -> list[ReadableSpan]:
    kept = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    provider.get_tracer("t").start_span(name).end()
    return list(kept.get_finished_spans())


class Time:
    """Time that passes only while somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def clock(self) -> float:
        return self.now

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        self.now += seconds
        return False


def send(
    url: str, headers: dict[str, str] | None = None, time: Time | None = None, **environ: str
) -> SpanExportResult:
    time = time or Time()
    address = traces_address(url, environ)
    exporter = HttpExporter(address, headers, environ, clock=time.clock, wait=time.wait)
    return exporter.export(spans())


def test_a_batch_arrives_as_it_was() -> None:
    with serving() as collector:
        assert send(collector.url, {"authorization": "Bearer k"}) is SpanExportResult.SUCCESS
    ((path, headers, body),) = collector.asked
    assert path == "/v1/traces"
    assert headers["content-type"] == "application/x-protobuf"
    assert headers["authorization"] == "Bearer k"
    assert [row.name for row in read_otlp_spans(body)] == ["s"]


@pytest.mark.parametrize(
    ("variable", "unpack"), [("gzip", gzip.decompress), ("Deflate", zlib.decompress)]
)
def test_compression(variable: str, unpack: Any) -> None:
    with serving() as collector:
        send(collector.url, OTEL_EXPORTER_OTLP_COMPRESSION=variable)
    ((_, headers, body),) = collector.asked
    assert headers["content-encoding"] == variable.lower()
    assert read_otlp_spans(unpack(body))


def test_a_busy_collector_is_asked_again_when_it_says() -> None:
    busy = (503, {"Retry-After": "2"}, b"")
    passed = Time()
    with serving(busy, (429, {}, b""), (200, {}, b"")) as collector:
        assert send(collector.url, time=passed) is SpanExportResult.SUCCESS
    assert len(collector.asked) == 3
    assert len({body for _, _, body in collector.asked}) == 1
    first, second = passed.waits
    assert first == 2
    assert 0.8 <= second <= 1.2


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 500])
def test_a_refusal_for_good_is_not_repeated(status: int) -> None:
    with serving((status, {}, b"no")) as collector:
        assert send(collector.url) is SpanExportResult.FAILURE
    assert len(collector.asked) == 1


@pytest.mark.parametrize(
    ("environ", "most"),
    [
        ({}, 10),
        ({"OTEL_EXPORTER_OTLP_TIMEOUT": "3"}, 3),
        ({"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "4", "OTEL_EXPORTER_OTLP_TIMEOUT": "3"}, 4),
        ({"OTEL_EXPORTER_OTLP_TIMEOUT": "soon"}, 10),
    ],
)
def test_the_time_out_ends_all_tries(environ: dict[str, str], most: int) -> None:
    passed = Time()
    with serving((503, {}, b"")) as collector:
        assert send(collector.url, None, passed, **environ) is SpanExportResult.FAILURE
    assert len(collector.asked) == len(passed.waits) + 1 > 2
    assert sum(passed.waits) < most
    assert passed.waits == sorted(passed.waits)


def test_a_wait_longer_than_the_time_out_gives_up_at_once() -> None:
    with serving((503, {"Retry-After": "3600"}, b"")) as collector:
        assert send(collector.url) is SpanExportResult.FAILURE
    assert len(collector.asked) == 1


def test_a_date_to_wait_until_is_waited_for() -> None:
    date = (503, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, b"")
    with serving(date) as collector:
        poster = Poster(collector.url, {}, {}, wall_clock=lambda: 1445412480 - 4.0)
        outcome = poster.post(b"", 5)
        late = Poster(collector.url, {}, {}, wall_clock=lambda: 1445412480 + 4.0).post(b"", 5)
    assert (outcome.again, outcome.after_s, late.after_s) == (True, 4.0, 0.0)
    assert outcome.reason == "HTTP 503"


def test_garbage_is_asked_again() -> None:
    with serving((GARBAGE, {}, b""), (200, {}, b"")) as collector:
        assert send(collector.url) is SpanExportResult.SUCCESS
    assert len(collector.asked) == 2


def test_an_answer_that_drips_ends_with_the_time_out() -> None:
    with serving((DRIPPING, {}, b"")) as collector:
        outcome = Poster(collector.url, {}, {}).post(b"x", 0.5)
        assert (outcome.reason, outcome.again) == ("TimeoutError", True)
        assert len(collector.asked) == 1


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("127.0.0.1:4318/v1/traces", "neither http: nor https:"),
        ("file:///etc/hostname", "neither http: nor https:"),
        ("http://127.0.0.1:port/", "not an address"),
        ("", "not an address"),
    ],
)
def test_an_address_that_is_none_is_said_and_not_tried_again(address: str, reason: str) -> None:
    outcome = Poster(address, {}, {}).post(b"x", 5)
    assert reason in outcome.reason
    assert (outcome.body, outcome.again) == (None, False)


def test_spans_of_others_that_cannot_be_encoded_do_not_cost_the_batch() -> None:
    with serving() as collector:
        exporter = HttpExporter(traces_address(collector.url, {}), None, {})
        batch = [*spans("GET /\ud800"), *spans("ours"), *spans("\udfff")]
        assert exporter.export(batch) is SpanExportResult.SUCCESS
    ((_, _, body),) = collector.asked
    assert [row.name for row in read_otlp_spans(body)] == ["ours"]
    assert guard.counts["not_encoded"] == 2


def test_a_redirect_is_a_failure_and_not_an_empty_success() -> None:
    with serving() as other:
        where = {"Location": f"{other.url}/v1/traces"}
        for status in (301, 302, 307):
            with serving((status, where, b"")) as collector:
                assert send(collector.url) is SpanExportResult.FAILURE
    assert other.asked == []


def test_nobody_there_is_a_failure() -> None:
    with serving() as collector:
        url = collector.url
    assert send(url) is SpanExportResult.FAILURE


def test_spans_that_the_collector_rejects_are_counted() -> None:
    told = ExportTraceServiceResponse(
        partial_success=ExportTracePartialSuccess(rejected_spans=3, error_message="why")
    )
    with serving((200, {}, told.SerializeToString())) as collector:
        assert send(collector.url) is SpanExportResult.SUCCESS
    assert guard.counts["rejected"] == 3


def test_shutting_down_ends_a_wait() -> None:
    with serving((503, {"Retry-After": "9"}, b"")) as collector:
        exporter = HttpExporter(traces_address(collector.url, {}), None, {}, clock=lambda: 0.0)
        exporter.shutdown()
        assert exporter.export(spans()) is SpanExportResult.FAILURE
    assert len(collector.asked) == 1


@pytest.mark.parametrize(
    ("given", "environ", "address"),
    [
        ("http://a:1", {}, "http://a:1/v1/traces"),
        ("http://a:1/", {}, "http://a:1/v1/traces"),
        ("http://a/x/v1/traces", {}, "http://a/x/v1/traces"),
        ("http://a:1/?x=1", {}, "http://a:1/v1/traces?x=1"),
        ("http://a:1/v1/traces?x=1&y=2", {}, "http://a:1/v1/traces?x=1&y=2"),
        (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://b/p/"}, "http://b/p/v1/traces"),
        (None, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c/mine"}, "http://c/mine"),
        (None, {}, "http://localhost:4318/v1/traces"),
    ],
)
def test_addresses(given: str | None, environ: dict[str, str], address: str) -> None:
    assert traces_address(given, environ) == address


def test_headers_of_the_environment_unless_others_are_given() -> None:
    environ = {"OTEL_EXPORTER_OTLP_HEADERS": "x-team=blue%20one,x-other=2"}
    with serving() as collector:
        send(collector.url, None, None, **environ)
        send(collector.url, {"authorization": "Bearer k"}, None, **environ)
        send(collector.url, {}, None, **environ)
    (_, first, _), (_, second, _), (_, third, _) = collector.asked
    assert (first["x-team"], first["x-other"]) == ("blue one", "2")
    assert "x-team" not in second
    assert "x-team" not in third


def certificates(folder: Path) -> None:
    """A CA, and certificates it signed for the server and for a client."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=folder)

    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl(
        "req", "-x509", *new, "-days", "2", "-subj", "/CN=ca", "-keyout", "ca.key", "-out", "ca.pem"
    )
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    for name in ("server", "client"):
        openssl(
            "req", *new, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr"
        )
        openssl(
            "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
            "-CAcreateserial", "-days", "2", "-extfile", "names", "-out", f"{name}.pem",
        )  # fmt: skip


def test_tls_with_an_authority_and_a_certificate_of_our_own(tmp_path: Path) -> None:
    certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    context.load_verify_locations(tmp_path / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    authority = {"OTEL_EXPORTER_OTLP_CERTIFICATE": str(tmp_path / "ca.pem")}
    client = {
        "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE": str(tmp_path / "client.pem"),
        "OTEL_EXPORTER_OTLP_CLIENT_KEY": str(tmp_path / "client.key"),
    }
    with serving(tls=context) as collector:
        assert send(collector.url, None, None, **authority) is SpanExportResult.FAILURE
        assert send(collector.url, None, None, **client) is SpanExportResult.FAILURE
        assert collector.asked == []
        assert send(collector.url, None, None, **authority, **client) is SpanExportResult.SUCCESS
    assert len(collector.asked) == 1


def test_an_encrypted_key_is_refused_and_nobody_is_asked_for_a_password(tmp_path: Path) -> None:
    certificates(tmp_path)
    subprocess.run(
        ["openssl", "ec", "-aes128", "-passout", "pass:x", "-in", "client.key", "-out", "enc.key"],
        check=True, capture_output=True, cwd=tmp_path,
    )  # fmt: skip
    files = {
        "CLIENT_CERTIFICATE": str(tmp_path / "client.pem"),
        "CLIENT_KEY": str(tmp_path / "enc.key"),
    }
    with pytest.raises(ssl.SSLError, match="PEM"):
        Poster("https://127.0.0.1:1", {}, files)
