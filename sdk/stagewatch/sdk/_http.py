"""Posting over HTTP with the standard library: no redirects, one deadline, TLS as OTLP says.

A redirected POST would come as an empty GET, be answered 200, and be lost; and its key would be
handed on to whoever the answer names.
"""

from __future__ import annotations

import email.utils
import http.client
import io
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stagewatch.sdk._guard import guard

if TYPE_CHECKING:
    from ssl import DefaultVerifyPaths, SSLContext

RETRYABLE = frozenset({429, 502, 503, 504})
"""Answers that OTLP lets a client ask again after."""

_MAX_ANSWER = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one POST.

    Attributes:
        body: The answer's body when it was taken, else None.
        reason: Why it was not, fit for a log: a status or the kind of an error, never its text.
        again: Whether asking again may help.
        after_s: Seconds that the server wants us to wait first; None when it does not say.
    """

    body: bytes | None = None
    reason: str = ""
    again: bool = False
    after_s: float | None = None


class _Timely(io.RawIOBase):
    """An answer's bytes until the deadline: a socket's own time-out starts anew with each byte."""

    def __init__(self, sock: socket.socket, until: float) -> None:
        self._sock = sock
        self._raw: Any = sock.makefile("rb", buffering=0)
        self._until = until

    def readable(self) -> bool:
        """It is for reading."""
        return True

    def readinto(self, buffer: Any) -> int | None:  # noqa: ANN401 - any buffer
        """Read what has come; raises TimeoutError when the deadline passes."""
        left_s = self._until - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._sock.settimeout(left_s)
        read: int | None = self._raw.readinto(buffer)
        return read

    def close(self) -> None:
        """Let the socket go."""
        self._raw.close()
        super().close()


class _Answer(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, until: float, **kwargs: Any) -> None:  # noqa: ANN401
        super().__init__(sock, *args, **kwargs)
        self.fp.close()
        self.fp = io.BufferedReader(_Timely(sock, until))


class _Connection(http.client.HTTPConnection):
    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **kwargs)
        until = time.monotonic() + (self.timeout or 0.0)
        self.response_class: Any = partial(_Answer, until=until)


class _TlsConnection(http.client.HTTPSConnection, _Connection):
    """The same over TLS."""


class _Http(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Open with a deadline."""
        return self.do_open(_Connection, req)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, context: SSLContext) -> None:
        super().__init__(context=context)
        self._tls = context

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Open with a deadline."""
        return self.do_open(_TlsConnection, req, context=self._tls)


class Poster:
    """Posts to one address. Proxies come from the environment, as for every user of urllib."""

    def __init__(
        self,
        address: str,
        headers: Mapping[str, str],
        tls: Mapping[str, str],
        *,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """A poster of bodies to `address`.

        Args:
            address: http or https.
            headers: Sent with each.
            tls: Files: `CERTIFICATE` (an authority), `CLIENT_CERTIFICATE` and `CLIENT_KEY`.
            wall_clock: Seconds since 1970, to read dates in answers by.

        Raises:
            OSError: one of the files cannot be read.
        """
        self._address = address
        self._headers = dict(headers)
        self._wall_clock = wall_clock
        # Not build_opener: it would also read files and follow redirects.
        self._opener = urllib.request.OpenerDirector()
        handlers: list[urllib.request.BaseHandler] = [
            urllib.request.ProxyHandler(),
            _Http(),
            urllib.request.HTTPDefaultErrorHandler(),
            urllib.request.HTTPErrorProcessor(),
            urllib.request.UnknownHandler(),
        ]
        if address.lower().startswith("https:"):
            handlers.append(_Https(_tls_context(tls)))
        for handler in handlers:
            self._opener.add_handler(handler)

    def post(self, data: bytes, timeout_s: float) -> Outcome:
        """Post once, within `timeout_s` seconds."""
        try:
            request = urllib.request.Request(  # noqa: S310 - the address is the app's setting
                self._address, data=data, headers=self._headers, method="POST"
            )
            with self._opener.open(request, timeout=timeout_s) as answer:
                return Outcome(body=answer.read(_MAX_ANSWER))
        except urllib.error.HTTPError as error:
            with error:
                told = error.headers.get("Retry-After", "")
            return Outcome(
                reason=f"HTTP {error.code}",
                again=error.code in RETRYABLE,
                after_s=self._wait_told(told),
            )
        except (ValueError, http.client.InvalidURL):
            return Outcome(reason="not an address or header to send with")
        except (OSError, http.client.HTTPException) as error:
            return _unreached(error)

    def _wait_told(self, told: str) -> float | None:
        if told.isascii() and told.isdigit():
            return float(told)
        try:
            date = email.utils.parsedate_to_datetime(told)
        except ValueError:
            return None
        return max(0.0, date.timestamp() - self._wall_clock())


def _unreached(error: Exception) -> Outcome:
    inner = getattr(error, "reason", None)
    kind = type(inner if isinstance(inner, BaseException) else error).__name__
    if isinstance(inner, str) and "unknown url type" in inner:
        return Outcome(reason="the address is neither http: nor https:")
    # A certificate that does not fit now will not fit in a second.
    return Outcome(reason=kind, again=kind != "SSLCertVerificationError")


def _tls_context(files: Mapping[str, str]) -> SSLContext:
    import ssl  # noqa: PLC0415 - only needed for https

    authority = files.get("CERTIFICATE") or None
    folder = authority is not None and Path(authority).is_dir()
    context = ssl.create_default_context(
        cafile=None if folder else authority, capath=authority if folder else None
    )
    if authority is None and not _has_certificates(ssl.get_default_verify_paths()):
        _load_certifi(context)
    certificate = files.get("CLIENT_CERTIFICATE")
    if certificate:
        # A password, or OpenSSL would ask the terminal for that of an encrypted key.
        context.load_cert_chain(certificate, files.get("CLIENT_KEY") or None, password="")
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
