"""A collector in a process of its own, and requests to it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

SERVER = Path(__file__).with_name("collector_server.py")
PROTOBUF = {"Content-Type": "application/x-protobuf"}
JSON = {"Content-Type": "application/json"}


class CollectorProcess:
    """Starts at once; `with` makes sure that nothing stays behind."""

    def __init__(self, data_dir: Path, **settings: str) -> None:
        self.data_dir = data_dir
        environment = {
            **os.environ,
            "STAGEWATCH_DATA_DIR": str(data_dir),
            "STAGEWATCH_OTLP_HTTP_PORT": "0",
            "STAGEWATCH_OTLP_GRPC_PORT": "0",
            "STAGEWATCH_SEGMENT_SECONDS": "0.2",
            "STAGEWATCH_SPOOL_MIN_FREE_MB": "1",
            **settings,
        }
        self.log = data_dir.with_name(data_dir.name + ".log")
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(SERVER)],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self.addresses: dict[str, str] = self.said()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def said(self) -> dict[str, Any]:
        """The next line of its output."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the collector ended: {self.log.read_text()[-4000:]}"
        found: dict[str, Any] = json.loads(line)
        return found

    @property
    def http_port(self) -> int:
        return int(self.addresses["otlp http"].rsplit(":", 1)[1])

    @property
    def grpc_port(self) -> int:
        return int(self.addresses["otlp grpc"].rsplit(":", 1)[1])

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """Rows of a query, by the process that holds the engine."""
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(sql.split()) + "\n")
        self.process.stdin.flush()
        answer = self.said()
        assert "rows" in answer, answer
        rows: list[dict[str, Any]] = answer["rows"]
        return rows

    def value(self, sql: str) -> Any:
        return next(iter(self.rows(sql)[0].values()))

    def wait_for(self, wanted: Callable[[], bool], *, deadline_s: float = 30.0) -> None:
        """Return when `wanted()`; fails with the server's log at the deadline."""
        end = time.monotonic() + deadline_s
        while not wanted():
            assert time.monotonic() < end, f"not within {deadline_s} s: {self.log.read_text()}"
            time.sleep(0.05)

    def wait_stored(self, spans: int) -> None:
        """Wait until so many spans are stored; the failure says how many there are."""
        end = time.monotonic() + 60
        while (found := self.value("SELECT count() FROM spans")) < spans:
            assert time.monotonic() < end, f"{found} of {spans}: {self.log.read_text()[-2000:]}"
            time.sleep(0.05)

    def wait_drained(self) -> None:
        """Wait until every accepted body is stored, in all tables, and gone from the spool."""
        spool = self.data_dir / "spool"
        # Sealed ones last: what is renamed between two looks is seen by the second.
        self.wait_for(
            lambda: not [*spool.glob("*.open"), *spool.glob("*.tmp"), *spool.glob("*.seg")],
            deadline_s=60.0,
        )

    def kill(self) -> None:
        """SIGKILL; harmless when it has ended."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def terminate(self) -> str | None:
        """SIGTERM; what it said at the end. Its exit code must be 0."""
        self.process.send_signal(signal.SIGTERM)
        said: str | None = self.said()["stopped"]
        assert self.process.wait(timeout=60) == 0, self.log.read_text()
        self.kill()
        return said


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def post(
    port: int,
    body: bytes,
    headers: Mapping[str, str] = PROTOBUF,
    *,
    path: str = "/v1/traces",
    method: str = "POST",
) -> Answer:
    """One request on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, body, dict(headers))
        response = connection.getresponse()
        names = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, names, response.read())
    finally:
        connection.close()


TRACE_EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


def grpc_call(channel: grpc.Channel, method: str = TRACE_EXPORT) -> grpc.UnaryUnaryMultiCallable:  # type: ignore[type-arg] # generic in the stubs only
    """A method of the collector, bytes in and bytes out."""
    return channel.unary_unary(method, lambda raw: raw, lambda raw: raw)


def a_request(
    spans: int = 5, *, service: str = "shop", seed: int | None = None, pad: int = 0
) -> ExportTraceServiceRequest:
    """One trace of `spans` spans: a root and its children. With `seed` the ids are fixed."""
    request = ExportTraceServiceRequest()
    entry = request.resource_spans.add()
    attribute = entry.resource.attributes.add()
    attribute.key = "service.name"
    attribute.value.string_value = service
    group = entry.scope_spans.add()
    group.scope.name = "tests"
    trace = os.urandom(16) if seed is None else seed.to_bytes(16, "big")
    start = time.time_ns() if seed is None else 1_790_000_000_000_000_000
    for number in range(spans):
        span = group.spans.add()
        span.trace_id = trace
        span.span_id = os.urandom(8) if seed is None else (seed * 1000 + number).to_bytes(8, "big")
        if number:
            span.parent_span_id = group.spans[0].span_id
        span.name = f"step {number}"
        span.kind = Span.SPAN_KIND_INTERNAL
        span.start_time_unix_nano = start + number
        span.end_time_unix_nano = start + number + 1000
        if pad:
            note = span.attributes.add()
            note.key = "pad"
            note.value.string_value = os.urandom(pad // 2).hex()
    return request
