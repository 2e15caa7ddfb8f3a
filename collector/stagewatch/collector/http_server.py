"""The OTLP/HTTP receiver: paths, types and limits, each answered in the protocol's own form."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import ssl
from collections.abc import Mapping

from stagewatch.collector.access import Access
from stagewatch.collector.allowance import Allowances
from stagewatch.collector.counters import Counters
from stagewatch.collector.http_answers import Form, content_form, refusal, success
from stagewatch.collector.http_connection import Budget, Connection
from stagewatch.collector.http_parse import Head
from stagewatch.collector.inflate import inflate, known_encoding
from stagewatch.collector.intake import Intake
from stagewatch.collector.refusal import (
    INTERNAL,
    INVALID_ARGUMENT,
    NOT_FOUND,
    UNAVAILABLE,
    RefusedError,
    unsupported,
)
from stagewatch.collector.signals import LOGS, METRICS, TRACES, Signal
from stagewatch.core.errors import PortInUseError

log = logging.getLogger("stagewatch.collector.http")

IDLE_SECONDS = 75.0
PROGRESS_SECONDS = 20.0
_SWEEP_SECONDS = 2.0

# With and without a slash at the end: a redirect would count as success with exporters and lose
# the batch.
PATHS: Mapping[str, Signal] = {
    path + slash: signal
    for path, signal in {
        "/v1/traces": TRACES,
        "/v1/logs": LOGS,
        "/v1/metrics": METRICS,
        "/api/public/otel/v1/traces": TRACES,
        "/api/public/otel/v1/logs": LOGS,
        "/api/public/otel/v1/metrics": METRICS,
    }.items()
    for slash in ("", "/")
}


class HttpReceiver:
    """Listens for OTLP/HTTP."""

    def __init__(
        self,
        intake: Intake,
        access: Access,
        counters: Counters,
        allowances: Allowances,
        *,
        max_bytes: int,
        max_connections: int,
    ) -> None:
        self._intake = intake
        self._access = access
        self._counters = counters
        self._allowances = allowances
        self._max_bytes = max_bytes
        self._max_connections = max_connections
        self._budget = Budget(max(4 * max_bytes, 256 << 20))
        self._connections: set[Connection] = set()
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self._stopping = False
        counters.connections.set_function(lambda: len(self._connections))

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None) -> int:
        """Listen and return the real port.

        Raises:
            PortInUseError: the port is taken or may not be used.
        """
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                lambda: Connection(
                    self._serve, self._budget, self._connections, most=2 * self._max_connections
                ),
                host,
                port,
                ssl=tls,
                backlog=1024,
            )
        except OSError as error:
            why = "in use" if error.errno == errno.EADDRINUSE else (error.strerror or "refused")
            raise PortInUseError(
                f"OTLP HTTP cannot listen on {host}:{port} ({why}); stop what is there or set "
                "STAGEWATCH_OTLP_HTTP_PORT"
            ) from None
        self._sweeper = loop.create_task(self._sweep())
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self, grace_s: float) -> None:
        """Take no more connections, finish the requests under way, close the rest."""
        self._stopping = True
        if self._server is not None:
            self._server.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
        busy = [c.busy for c in self._connections if c.busy is not None]
        if busy:
            await asyncio.wait(busy, timeout=grace_s)
        for connection in list(self._connections):
            connection.transport.close()

    async def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            now = loop.time()
            for connection in list(self._connections):
                if connection.overdue(now, idle_s=IDLE_SECONDS, progress_s=PROGRESS_SECONDS):
                    connection.transport.abort()

    async def _serve(
        self, connection: Connection, head: Head, refused: RefusedError | None
    ) -> None:
        form = content_form(head.headers.get("content-type", ""))
        try:
            if refused is not None:
                raise refused
            signal, encoding = self._admit(head, form)
            sender = await self._access.sender(head.headers)
            self._allowances.admit(sender.who)
            raw = await connection.read_body(head, self._max_bytes)
            body = inflate(encoding, raw, self._max_bytes) if encoding else raw
            self._allowances.charge(sender.who, len(body))
            checked = await self._intake.take(signal, sender.project, body, as_json=form == "json")
        except RefusedError as error:
            self._counters.refused.labels("http", error.kind).inc()
            with contextlib.suppress(RefusedError):
                await self._swallow(connection, head)
            head.keep_alive = head.keep_alive and error.kind != "connections"
            close = connection.unread or self._stopping or not head.keep_alive
            connection.write(refusal(error, form or "json", close=close))
            return
        except Exception as error:  # noqa: BLE001 - the request's edge: one bad request is one answer
            log.error("a request failed", extra={"error": type(error).__name__})
            failed = RefusedError(500, INTERNAL, "internal", "the collector failed on this request")
            self._counters.refused.labels("http", failed.kind).inc()
            connection.write(refusal(failed, form or "json", close=True))
            connection.unread = True
            return
        close = connection.unread or self._stopping or not head.keep_alive
        connection.write(success(signal, checked, form or "json", close=close))

    def _admit(self, head: Head, form: Form | None) -> tuple[Signal, str]:
        """What can be said before the body is read: the signal and its content encoding."""
        signal = PATHS.get(head.path)
        if signal is None:
            raise RefusedError(
                404, NOT_FOUND, "unknown_path", "OTLP is taken at /v1/traces, /v1/logs, /v1/metrics"
            )
        if head.method != "POST":
            raise RefusedError(405, INVALID_ARGUMENT, "bad_method", "use POST")
        if form is None:
            raise unsupported("Content-Type: use application/x-protobuf or application/json")
        encoding = known_encoding(head.headers.get("content-encoding", ""))
        if len(self._connections) > self._max_connections:
            raise RefusedError(503, UNAVAILABLE, "connections", "too many connections", 2)
        if signal is not METRICS:
            self._intake.refuse_early()
        return signal, encoding

    async def _swallow(self, connection: Connection, head: Head) -> None:
        """Read a small body that is not wanted, so that the client gets to read the answer."""
        if connection.unread and head.length and head.length <= 1 << 20 and connection.can_read:
            await connection.read_body(head, 1 << 20)
