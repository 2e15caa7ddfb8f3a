"""The OTLP/gRPC receiver: request bytes arrive undecoded and go the same way as those of HTTP."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio

from stagewatch.collector.access import Access
from stagewatch.collector.allowance import Allowances
from stagewatch.collector.counters import Counters
from stagewatch.collector.http_answers import success_body
from stagewatch.collector.intake import Intake
from stagewatch.collector.refusal import INTERNAL, RefusedError, overloaded
from stagewatch.collector.signals import LOGS, METRICS, TRACES, Signal
from stagewatch.core.errors import PortInUseError

log = logging.getLogger("stagewatch.collector.grpc")

_SERVICES = {
    "/opentelemetry.proto.collector.trace.v1.TraceService/Export": TRACES,
    "/opentelemetry.proto.collector.logs.v1.LogsService/Export": LOGS,
    "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export": METRICS,
}
_CODES = {code.value[0]: code for code in grpc.StatusCode}

_STREAMS = 100

Call = Callable[[bytes, Any], Awaitable[bytes]]


class _Router(grpc.GenericRpcHandler):  # type: ignore[type-arg] # generic in the stubs only
    """Finds the handler of a method; no (de)serializers, so handlers see raw bytes."""

    def __init__(self, calls: dict[str, Call]) -> None:
        self._handlers = {
            method: grpc.unary_unary_rpc_method_handler(call) for method, call in calls.items()
        }

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        return self._handlers.get(handler_call_details.method)


class GrpcReceiver:
    """Listens for OTLP/gRPC."""

    def __init__(
        self,
        intake: Intake,
        access: Access,
        counters: Counters,
        allowances: Allowances,
        *,
        max_bytes: int,
        max_calls: int,
    ) -> None:
        self._intake = intake
        self._access = access
        self._counters = counters
        self._allowances = allowances
        self._max_bytes = max_bytes
        self._max_calls = max_calls
        self._most_held = max(4 * max_bytes, 256 << 20)
        self._calls = self._held = 0
        self._server: grpc.aio.Server | None = None

    async def start(self, host: str, port: int, credentials: grpc.ServerCredentials | None) -> int:
        """Listen and return the real port.

        Raises:
            PortInUseError: the port is taken or may not be used.
        """
        server = grpc.aio.server(
            options=(
                ("grpc.max_receive_message_length", self._max_bytes),
                # Two collectors on one port would share its connections without a word.
                ("grpc.so_reuseport", 0),
                ("grpc.keepalive_permit_without_calls", 1),
                # More calls than that wait at the client, which loses nothing.
                ("grpc.max_concurrent_streams", _STREAMS),
            )
        )
        calls = {method: self._export(signal) for method, signal in _SERVICES.items()}
        server.add_generic_rpc_handlers((_Router(calls),))
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            if credentials is None:
                bound = server.add_insecure_port(where)
            else:
                bound = server.add_secure_port(where, credentials)
        except RuntimeError:
            bound = 0
        if not bound:
            raise PortInUseError(
                f"OTLP gRPC cannot listen on {where}; stop what is there or set "
                "STAGEWATCH_OTLP_GRPC_PORT"
            )
        await server.start()
        self._server = server
        return int(bound)

    async def stop(self, grace_s: float) -> None:
        """Take no more calls, finish those under way."""
        if self._server is not None:
            await self._server.stop(grace_s)

    def _export(self, signal: Signal) -> Call:
        async def export(body: bytes, context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
            self._calls += 1
            self._held += len(body)
            try:
                self._bound()
                headers = {key: str(value) for key, value in context.invocation_metadata() or ()}
                sender = await self._access.sender(headers)
                self._allowances.admit(sender.who)
                self._allowances.charge(sender.who, len(body))
                checked = await self._intake.take(signal, sender.project, body, as_json=False)
            except RefusedError as refused:
                return await self._refuse(context, refused)
            except Exception as error:  # noqa: BLE001 - the request's edge: one bad request is one answer
                log.error("a request failed", extra={"error": type(error).__name__})
                failed = RefusedError(
                    500, INTERNAL, "internal", "the collector failed on this request"
                )
                return await self._refuse(context, failed)
            finally:
                self._calls -= 1
                self._held -= len(body)
            return success_body(signal, checked, "protobuf")

        return export

    def _bound(self) -> None:
        """Refuse, retryably, what is over the bound on calls or bytes in hand. The library's own
        bound on calls answers without RetryInfo, which tells exporters to drop the batch.
        """
        if self._calls > self._max_calls:
            raise overloaded("too many calls at once", 1)
        if self._held > self._most_held:
            raise overloaded("too many large requests at once", 1)

    async def _refuse(
        self, context: grpc.aio.ServicerContext[Any, Any], refused: RefusedError
    ) -> bytes:
        self._counters.refused.labels("grpc", refused.kind).inc()
        # google.rpc.Status travels in this trailer; RetryInfo inside says when to come again.
        details = refused.status().SerializeToString()
        await context.abort(
            _CODES[refused.code],
            refused.message,
            trailing_metadata=(("grpc-status-details-bin", details),),
        )
        return b""
