"""Who may send and how much, over TLS and without, on both protocols."""

from __future__ import annotations

import base64
import http.client
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from tests.support.collector_process import (
    PROTOBUF,
    CollectorProcess,
    a_request,
    grpc_call,
    post,
)

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorProcess]:
    folder = tmp_path_factory.mktemp("keyed") / "data"
    with CollectorProcess(folder, COLLECTOR_KEYS="1") as process:
        yield process


def presented(key: str) -> list[dict[str, str]]:
    """One key in the three forms in which senders show it."""
    basic = base64.b64encode(f"pk-anything:{key}".encode()).decode()
    return [
        {"authorization": f"Bearer {key}"},
        {"authorization": f"Basic {basic}"},
        {"x-api-key": key},
    ]


def over_grpc(
    port: int, metadata: dict[str, str] | None = None, body: bytes | None = None
) -> bytes | grpc.RpcError:
    """The answer of one export, or the error."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        try:
            raw: bytes = grpc_call(channel)(
                body or a_request().SerializeToString(),
                metadata=tuple((metadata or {}).items()),
                timeout=30,
            )
        except grpc.RpcError as error:
            return error
        return raw


def code_of(answer: Any) -> grpc.StatusCode:
    assert isinstance(answer, grpc.RpcError), answer
    code: grpc.StatusCode = answer.code()
    return code


def test_a_key_is_taken_in_every_form_on_both_protocols_and_names_the_project(
    keyed: CollectorProcess,
) -> None:
    sent = []
    for headers in presented(keyed.addresses["sending key"]):
        for protocol in ("http", "grpc"):
            request = a_request(2)
            body = request.SerializeToString()
            if protocol == "http":
                assert post(keyed.http_port, body, PROTOBUF | headers).status == 200
            else:
                assert over_grpc(keyed.grpc_port, headers, body) == b""
            sent.append(request.resource_spans[0].scope_spans[0].spans[0].trace_id.hex().upper())
    keyed.wait_drained()
    rows = keyed.rows("SELECT DISTINCT project, hex(trace_id) AS trace FROM spans")
    assert {row["project"] for row in rows} == {"shop"}
    assert set(sent) <= {row["trace"] for row in rows}


def test_no_key_a_wrong_key_and_a_key_without_the_role_get_no_yes(keyed: CollectorProcess) -> None:
    body = a_request().SerializeToString()
    reading = keyed.addresses["reading key"]
    sending = keyed.addresses["sending key"]
    wrong = sending[:-1] + ("A" if sending[-1] != "A" else "B")
    cases: list[tuple[dict[str, str], int, grpc.StatusCode]] = [
        ({}, 401, grpc.StatusCode.UNAUTHENTICATED),
        ({"authorization": f"Bearer {wrong}"}, 401, grpc.StatusCode.UNAUTHENTICATED),
        ({"authorization": "Basic !!"}, 401, grpc.StatusCode.UNAUTHENTICATED),
        ({"authorization": f"Bearer {reading}"}, 403, grpc.StatusCode.PERMISSION_DENIED),
        (
            {"authorization": f"Bearer {sending}", "x-stagewatch-project": "another"},
            403,
            grpc.StatusCode.PERMISSION_DENIED,
        ),
    ]
    for headers, status, code in cases:
        answer = post(keyed.http_port, body, PROTOBUF | headers)
        assert (answer.status, "retry-after" in answer.headers) == (status, False), headers
        assert sending not in answer.body.decode("latin-1")
        assert code_of(over_grpc(keyed.grpc_port, headers)) is code, headers
    log = keyed.log.read_text()
    assert sending not in log
    assert wrong not in log


def test_a_key_over_its_requests_is_429_with_a_delay_on_both_protocols(tmp_path: Path) -> None:
    settings = {"COLLECTOR_KEYS": "1", "STAGEWATCH_KEY_REQUESTS_PER_SECOND": "0.5"}
    with CollectorProcess(tmp_path / "data", **settings) as collector:
        key = {"x-api-key": collector.addresses["sending key"]}
        body = a_request().SerializeToString()
        answers = [post(collector.http_port, body, PROTOBUF | key) for _ in range(4)]
        refused = [answer for answer in answers if answer.status == 429]
        assert answers[0].status == 200
        assert refused
        assert 1 <= int(refused[0].headers["retry-after"]) <= 3
        assert Status.FromString(refused[0].body).code == 8
        error = over_grpc(collector.grpc_port, key)
        assert code_of(error) is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert retry_seconds(error) in {1, 2, 3}


def retry_seconds(error: Any) -> int:
    """The RetryInfo of a refusal, in seconds."""
    trailers = {entry.key: entry.value for entry in error.trailing_metadata()}
    status = Status.FromString(trailers["grpc-status-details-bin"])
    info = RetryInfo()
    assert status.details[0].Unpack(info)
    return int(info.retry_delay.seconds)


def test_a_key_over_its_bytes_waits_and_nobody_else_does(tmp_path: Path) -> None:
    settings = {"COLLECTOR_KEYS": "1", "STAGEWATCH_KEY_MB_PER_SECOND": "0.1"}
    with CollectorProcess(tmp_path / "data", **settings) as collector:
        key = {"x-api-key": collector.addresses["sending key"]}
        large = a_request(1, pad=2_000_000).SerializeToString()
        assert post(collector.http_port, large, PROTOBUF | key).status == 200
        again = post(collector.http_port, a_request().SerializeToString(), PROTOBUF | key)
        assert (again.status, again.headers["retry-after"]) == (429, "3")
        # Whoever is not known has no allowance to use up: 401 comes before any counting.
        assert post(collector.http_port, large).status == 401
        collector.wait_stored(1)


def make_certificates(folder: Path) -> None:
    """A CA, a server's certificate for 127.0.0.1 and a client's, by openssl."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=folder)

    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    for ca in ("ca", "stranger"):
        openssl(
            "req", "-x509", *new, "-subj", f"/CN={ca}", "-keyout", f"{ca}.key", "-out", f"{ca}.pem"
        )
    (folder / "server.ext").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    (folder / "client.ext").write_text("extendedKeyUsage=clientAuth\n")
    for name, ca, kind in (
        ("server", "ca", "server"),
        ("client", "ca", "client"),
        ("other", "stranger", "client"),
    ):
        openssl(
            "req",
            *new[:-2],
            "-subj",
            f"/CN={name}",
            "-keyout",
            f"{name}.key",
            "-out",
            f"{name}.csr",
        )
        openssl(
            "x509", "-req", "-in", f"{name}.csr", "-CA", f"{ca}.pem", "-CAkey", f"{ca}.key",
            "-CAcreateserial", "-days", "2", "-extfile", f"{kind}.ext", "-out", f"{name}.pem",
        )  # fmt: skip


def https_status(port: int, folder: Path, client: str | None) -> int:
    """The status of one export over TLS; raises when there is no handshake."""
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    if client:
        context.load_cert_chain(folder / f"{client}.pem", folder / f"{client}.key")
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=30, context=context)
    try:
        connection.request(
            "POST", "/v1/traces", a_request(200, pad=4000).SerializeToString(), PROTOBUF
        )
        return connection.getresponse().status
    finally:
        connection.close()


def tls_grpc(port: int, folder: Path, client: str | None) -> bytes:
    """The answer of one export over TLS; raises RpcError when there is no handshake."""
    credentials = grpc.ssl_channel_credentials(
        (folder / "ca.pem").read_bytes(),
        (folder / f"{client}.key").read_bytes() if client else None,
        (folder / f"{client}.pem").read_bytes() if client else None,
    )
    with grpc.secure_channel(f"127.0.0.1:{port}", credentials) as channel:
        raw: bytes = grpc_call(channel)(a_request(7).SerializeToString(), timeout=10)
        return raw


@pytest.mark.parametrize("mutual", [False, True])
def test_tls_on_both_listeners_and_with_a_client_ca_only_for_those_it_signed(
    mutual: bool, tmp_path: Path
) -> None:
    make_certificates(tmp_path)
    settings = {
        "STAGEWATCH_TLS_CERT": str(tmp_path / "server.pem"),
        "STAGEWATCH_TLS_KEY": str(tmp_path / "server.key"),
    }
    if mutual:
        settings["STAGEWATCH_TLS_CLIENT_CA"] = str(tmp_path / "ca.pem")
    with CollectorProcess(tmp_path / "data", **settings) as collector:
        assert collector.addresses["otlp http"].startswith("https://")
        client = "client" if mutual else None
        assert https_status(collector.http_port, tmp_path, client) == 200
        assert tls_grpc(collector.grpc_port, tmp_path, client) == b""
        with pytest.raises((OSError, http.client.HTTPException)):
            post(collector.http_port, a_request().SerializeToString())
        if mutual:
            for stranger in (None, "other"):
                with pytest.raises((OSError, http.client.HTTPException)):
                    https_status(collector.http_port, tmp_path, stranger)
                with pytest.raises(grpc.RpcError):
                    tls_grpc(collector.grpc_port, tmp_path, stranger)
        collector.wait_stored(207)
        collector.wait_drained()
        assert collector.value("SELECT count() FROM spans") == 207


def test_connections_over_the_limit_are_a_retryable_no_and_room_comes_back(tmp_path: Path) -> None:
    with CollectorProcess(tmp_path / "data", STAGEWATCH_MAX_CONNECTIONS="3") as collector:
        body = a_request().SerializeToString()
        idle = [socket.create_connection(("127.0.0.1", collector.http_port)) for _ in range(3)]
        try:
            collector.wait_for(lambda: post(collector.http_port, body).status == 503)
            refused = post(collector.http_port, body)
            assert refused.status == 503
            assert 1 <= int(refused.headers["retry-after"]) <= 3
            assert refused.headers["connection"] == "close"
        finally:
            for connection in idle:
                connection.close()
        collector.wait_for(lambda: post(collector.http_port, body).status == 200)


def test_five_hundred_idle_connections_cost_little_and_disturb_nobody(tmp_path: Path) -> None:
    with CollectorProcess(tmp_path / "data") as collector:
        process = psutil.Process(collector.process.pid)
        assert post(collector.http_port, a_request().SerializeToString()).status == 200
        before = process.memory_info().rss
        half = b"POST /v1/traces HTTP/1.1\r\nContent-Type: application/x-protobuf\r\n"
        connections = []
        try:
            for number in range(500):
                connection = socket.create_connection(("127.0.0.1", collector.http_port))
                connections.append(connection)
                if number % 2:
                    connection.sendall(half)
            collector.wait_for(lambda: len(process.net_connections()) >= 500)
            for _ in range(20):
                assert post(collector.http_port, a_request().SerializeToString()).status == 200
            assert process.memory_info().rss - before < 60 << 20
        finally:
            for connection in connections:
                connection.close()
