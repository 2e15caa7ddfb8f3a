"""OTLP over HTTP with the standard library alone.

OpenTelemetry's exporter brings an HTTP client, its certificates and Google's message types along:
nearly half of what an app would install for us. One request a second needs none of that. The
`OTEL_EXPORTER_OTLP_*` variables mean the same here.
"""

from __future__ import annotations

import gzip
import random
import threading
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.util.re import parse_env_headers

from stagewatch.sdk._guard import guard, guarded
from stagewatch.sdk._http import Poster

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

DEFAULT_ENDPOINT = "http://localhost:4318"
TRACES_PATH = "/v1/traces"
DEFAULT_TIMEOUT_S = 10.0
"""For one batch, all tries together."""

_FIRST_WAIT_S = 0.5
_COMPRESSIONS: Mapping[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
}


def _variable(environ: Mapping[str, str], name: str) -> str:
    """`OTEL_EXPORTER_OTLP_TRACES_<name>`, else `OTEL_EXPORTER_OTLP_<name>`, else empty."""
    for prefix in ("OTEL_EXPORTER_OTLP_TRACES_", "OTEL_EXPORTER_OTLP_"):
        value = environ.get(prefix + name, "").strip()
        if value:
            return value
    return ""


def tls_files(environ: Mapping[str, str]) -> dict[str, str]:
    """Which certificates to use, as `Poster` takes them."""
    names = ("CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY")
    return {name: _variable(environ, name) for name in names}


def traces_address(endpoint: str | None, environ: Mapping[str, str]) -> str:
    """Where spans go: below `endpoint`, else as OpenTelemetry's variables say."""
    if endpoint is None:
        exact = environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "").strip()
        if exact:
            return exact
        endpoint = environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip() or DEFAULT_ENDPOINT
    address, mark, query = endpoint.partition("?")
    address = address.rstrip("/")
    return (address if address.endswith(TRACES_PATH) else address + TRACES_PATH) + mark + query


class HttpExporter(SpanExporter):
    """Posts batches of spans; tries again for a while when the collector is busy or away."""

    def __init__(
        self,
        address: str,
        headers: Mapping[str, str] | None,
        environ: Mapping[str, str],
        *,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        """An exporter to `address`.

        Args:
            address: Where to post, path and all.
            headers: Instead of those that `environ` names, which may hold a key for the address
                that `environ` names; those when None.
            environ: The environment's variables.
            clock: Seconds, from any start.
            wait: Waits so many seconds before the next try; True to give up instead.

        Raises:
            OSError: a certificate or key that `environ` names cannot be read.
        """
        self._timeout_s = _seconds(_variable(environ, "TIMEOUT"))
        self._compress = _COMPRESSIONS.get(compression := _variable(environ, "COMPRESSION").lower())
        if headers is None:
            headers = parse_env_headers(_variable(environ, "HEADERS"), liberal=True)
        self._headers = {
            "Content-Type": "application/x-protobuf",
            "User-Agent": "stagewatch-sdk",
            **headers,
        }
        if self._compress is not None:
            self._headers["Content-Encoding"] = compression
        self._poster = Poster(address, self._headers, tls_files(environ))
        self.trouble = ""
        self._stopped = threading.Event()
        self._clock = clock
        self._wait = wait or self._stopped.wait
        # Not the module's generator: it is the app's, which may have seeded it.
        self._random = random.Random()  # noqa: S311 - no secret

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send one batch, within the time-out. `trouble` says why the last try failed, if so."""
        data = _encoded(spans)
        if self._compress is not None:
            data = self._compress(data)
        deadline = self._clock() + self._timeout_s
        wait_s = _FIRST_WAIT_S
        while True:
            outcome = self._poster.post(data, max(0.1, deadline - self._clock()))
            self.trouble = outcome.reason
            if outcome.body is not None:
                _count_rejected(outcome.body)
                return SpanExportResult.SUCCESS
            # Not all processes at the same moment after an outage.
            pause_s = outcome.after_s or wait_s * self._random.uniform(0.8, 1.2)
            wait_s *= 2
            too_late = self._clock() + pause_s >= deadline
            if not outcome.again or too_late or self._wait(pause_s):
                return SpanExportResult.FAILURE

    def shutdown(self) -> None:
        """Give up waiting for a next try."""
        self._stopped.set()


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        return DEFAULT_TIMEOUT_S
    return seconds if seconds > 0 else DEFAULT_TIMEOUT_S


def _encoded(spans: Sequence[ReadableSpan]) -> bytes:
    """The spans as one request. One that cannot be encoded, such as another library's with a name
    that is no UTF-8, is left out and counted: it must not cost the others.
    """
    try:
        return encode_spans(spans).SerializeToString()
    except Exception:  # noqa: BLE001 - whatever the encoder meets in spans of others
        fit = [span for span in spans if _encodes(span)]
        lost = len(spans) - len(fit)
        guard.count("not_encoded", "left out %d spans that cannot be encoded", lost, by=lost)
        return encode_spans(fit).SerializeToString()


def _encodes(span: ReadableSpan) -> bool:
    try:
        encode_spans([span]).SerializeToString()
    except Exception:  # noqa: BLE001 - see _encoded
        return False
    return True


@guarded("read the collector's answer")
def _count_rejected(body: bytes) -> None:
    if not body:
        return
    rejected = ExportTraceServiceResponse.FromString(body).partial_success.rejected_spans
    if rejected > 0:
        guard.count("rejected", "the collector rejected %d spans", rejected, by=rejected)
