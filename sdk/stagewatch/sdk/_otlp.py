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
from pathlib import Path
from typing import TYPE_CHECKING

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.util.re import parse_env_headers

from stagewatch.sdk._guard import guard, guarded

if TYPE_CHECKING:
    import urllib.request
    from ssl import DefaultVerifyPaths, SSLContext

    from opentelemetry.sdk.trace import ReadableSpan

DEFAULT_ENDPOINT = "http://localhost:4318"
TRACES_PATH = "/v1/traces"
DEFAULT_TIMEOUT_S = 10.0
"""For one batch, all tries together."""

_RETRYABLE = frozenset({429, 502, 503, 504})
_FIRST_WAIT_S = 0.5
_MAX_ANSWER = 1 << 20
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


def traces_address(endpoint: str | None, environ: Mapping[str, str]) -> str:
    """Where spans go: below `endpoint`, else as OpenTelemetry's variables say."""
    if endpoint is None:
        exact = environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "").strip()
        if exact:
            return exact
        endpoint = environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip() or DEFAULT_ENDPOINT
    address = endpoint.rstrip("/")
    return address if address.endswith(TRACES_PATH) else address + TRACES_PATH


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
            headers: Instead of those that `environ` names.
            environ: The environment's variables.
            clock: Seconds, from any start.
            wait: Waits so many seconds before the next try; True to give up instead.

        Raises:
            OSError: a certificate or key that `environ` names cannot be read.
        """
        self._address = address
        self._timeout_s = _seconds(_variable(environ, "TIMEOUT"))
        self._compress = _COMPRESSIONS.get(compression := _variable(environ, "COMPRESSION").lower())
        self._headers = {
            "Content-Type": "application/x-protobuf",
            "User-Agent": "stagewatch-sdk",
            **(headers or parse_env_headers(_variable(environ, "HEADERS"), liberal=True)),
        }
        if self._compress is not None:
            self._headers["Content-Encoding"] = compression
        self._opener = _opener(address, environ)
        self._stopped = threading.Event()
        self._clock = clock
        self._wait = wait or self._stopped.wait
        # Not the module's generator: it is the app's, which may have seeded it.
        self._random = random.Random()  # noqa: S311 - no secret

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send one batch, within the time-out."""
        data = encode_spans(spans).SerializeToString()
        if self._compress is not None:
            data = self._compress(data)
        deadline = self._clock() + self._timeout_s
        wait_s = _FIRST_WAIT_S
        while True:
            again = self._post(data, deadline)
            if again is None:
                return SpanExportResult.SUCCESS
            # Not all processes at the same moment after an outage.
            pause_s = again or wait_s * self._random.uniform(0.8, 1.2)
            wait_s *= 2
            too_late = self._clock() + pause_s >= deadline
            if again < 0 or too_late or self._wait(pause_s):
                return SpanExportResult.FAILURE

    def _post(self, data: bytes, deadline: float) -> float | None:
        """None when taken; else seconds until the next try: 0 is up to us, -1 is never."""
        import urllib.error  # noqa: PLC0415 - on our own thread, and a third of the import time
        import urllib.request  # noqa: PLC0415

        request = urllib.request.Request(  # noqa: S310 - the address is the app's setting
            self._address, data=data, headers=self._headers, method="POST"
        )
        try:
            left_s = max(0.1, deadline - self._clock())
            with self._opener.open(request, timeout=left_s) as answer:
                _count_rejected(answer.read(_MAX_ANSWER))
                return None
        except urllib.error.HTTPError as error:
            error.close()
            if error.code not in _RETRYABLE:
                return -1
            told = error.headers.get("Retry-After", "")
            return float(told) if told.isascii() and told.isdigit() else 0
        except OSError:
            return 0
        except ValueError:
            # An address or header that no request can be made of.
            return -1

    def shutdown(self) -> None:
        """Give up waiting for a next try."""
        self._stopped.set()


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        return DEFAULT_TIMEOUT_S
    return seconds if seconds > 0 else DEFAULT_TIMEOUT_S


@guarded("read the collector's answer")
def _count_rejected(body: bytes) -> None:
    if not body:
        return
    rejected = ExportTraceServiceResponse.FromString(body).partial_success.rejected_spans
    if rejected > 0:
        guard.count("rejected", "the collector rejected %d spans", rejected, by=rejected)


def _opener(address: str, environ: Mapping[str, str]) -> urllib.request.OpenerDirector:
    import urllib.request  # noqa: PLC0415 - see _post

    class Stay(urllib.request.HTTPRedirectHandler):
        """A redirected POST would come as an empty GET, be answered 200, and be lost."""

        def redirect_request(self, *_: object) -> None:
            return None

    handlers: list[urllib.request.BaseHandler] = [Stay()]
    if address.lower().startswith("https:"):
        handlers.append(urllib.request.HTTPSHandler(context=_tls(environ)))
    return urllib.request.build_opener(*handlers)


def _tls(environ: Mapping[str, str]) -> SSLContext:
    import ssl  # noqa: PLC0415 - only needed for https

    authority = _variable(environ, "CERTIFICATE") or None
    context = ssl.create_default_context(cafile=authority)
    if authority is None and not _has_certificates(ssl.get_default_verify_paths()):
        _load_certifi(context)
    certificate = _variable(environ, "CLIENT_CERTIFICATE")
    if certificate:
        context.load_cert_chain(certificate, _variable(environ, "CLIENT_KEY") or None)
    return context


def _has_certificates(paths: DefaultVerifyPaths) -> bool:
    return bool(paths.cafile) or bool(paths.capath and any(Path(paths.capath).iterdir()))


def _load_certifi(context: SSLContext) -> None:
    # A system without certificates, such as a slim image: an app that speaks https has certifi.
    try:
        import certifi  # noqa: PLC0415
    except ImportError:
        guard.count("certificates", "no certificates found to check the collector's with")
    else:
        context.load_verify_locations(certifi.where())
