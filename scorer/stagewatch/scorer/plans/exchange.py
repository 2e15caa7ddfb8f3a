"""One HTTP request to the app, with a deadline over all of it. Whatever goes wrong on the way is
a `RowError` that holds nothing of the app's answer.
"""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

from stagewatch.core.errors import InvalidInputError, StagewatchError
from stagewatch.scorer.channels.addresses import Resolver, is_host, system_resolver
from stagewatch.scorer.cutoff import Cutoff
from stagewatch.scorer.lookups import LOOKUPS, LookupLateError, dial

MAX_ANSWER_BYTES = 16 * 1024 * 1024
# Half of a surrogate pair as JSON writes it; only such answers are looked through for them.
_MAYBE_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_PIECE_BYTES = 64 * 1024


class RowError(StagewatchError):
    """This row could not be asked, or its answer not read."""


def check_address(url: str) -> None:
    """Raise InvalidInputError when no request can ever go to `url`."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidInputError("connector url: not an address") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0:
        raise InvalidInputError("connector url: use http://host/path or https://host/path")
    if not is_host(parts.hostname):
        raise InvalidInputError("connector url: no such host can be: check its dots and length")
    if not url.isascii() or any(ord(ch) <= ord(" ") or ord(ch) == 127 for ch in url):
        raise InvalidInputError(
            "connector url: ASCII without spaces; write other characters as %xx"
        )


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:  # noqa: ANN401
        """No: a redirect would carry the plan's credentials to another address."""


@dataclass(frozen=True, slots=True)
class _Line:
    """How a request gets its connection: what cuts it, and who resolves names."""

    cutoff: Cutoff
    resolver: Resolver

    def open(self, address: tuple[str, int], *_: object) -> socket.socket:
        """As `socket.create_connection`, with the lookup and every address in the deadline."""
        host, port = address
        found = LOOKUPS.find(host, port, self.resolver, self.cutoff.left())
        made = dial(found, port, self.cutoff.left)
        self.cutoff.watch(made)
        return made


class _TimedRequest(urllib.request.Request):
    """A request that knows its line."""

    line: _Line


class _Timed(http.client.HTTPConnection):
    _create_connection: Callable[..., socket.socket]


class _TimedTLS(http.client.HTTPSConnection):
    _create_connection: Callable[..., socket.socket]

    def connect(self) -> None:
        # As the parent's: the line has seen the connection before TLS takes it, since a handshake
        # can drip.
        http.client.HTTPConnection.connect(self)
        name = getattr(self, "_tunnel_host", None) or self.host
        self.sock = ssl.create_default_context().wrap_socket(self.sock, server_hostname=name)


class _TimedHandler(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_connection_of(_Timed, req), req)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_connection_of(_TimedTLS, req), req)


def _connection_of(kind: type[_Timed | _TimedTLS], req: urllib.request.Request) -> Any:  # noqa: ANN401
    def made(host: str, **options: Any) -> _Timed | _TimedTLS:  # noqa: ANN401
        connection = kind(host, **options)
        # The one place in http.client where a connection is opened.
        line = cast("_TimedRequest", req).line
        connection._create_connection = line.open  # noqa: SLF001 - no public one
        return connection

    return made


_OPENER = urllib.request.build_opener(_Stay(), _TimedHandler())


def ask_http(
    url: str,
    *,
    method: str,
    headers: dict[str, str],
    body: bytes | None,
    timeout_s: float,
    resolver: Resolver = system_resolver,
) -> Any:  # noqa: ANN401 - JSON has any type
    """The app's JSON answer.

    Args:
        url: with the row's values in it.
        method: GET or POST.
        headers: all of them.
        body: sent as it is.
        timeout_s: over the whole request, from the lookup of its host to the last byte.
        resolver: who resolves names.

    Raises:
        RowError: there is no answer, or it cannot be read.
    """
    with Cutoff(timeout_s) as cutoff:
        try:
            request = _TimedRequest(url, data=body, method=method, headers=headers)
            request.line = _Line(cutoff, resolver)
            raw = _read(request, timeout_s)
        except Exception as error:  # noqa: BLE001 - a row that fails is a row's failure
            # Cut off, a request ends in whatever error its connection was in.
            cause = TimeoutError() if cutoff.passed and not _is_lookup(error) else error
            raise RowError(_why(cause, timeout_s)) from None
        if cutoff.passed:
            # An answer without a length that was cut off reads like a whole one.
            raise RowError(f"the app did not answer in {timeout_s:g} s")
    return parse_answer(raw)


def _read(request: urllib.request.Request, timeout_s: float) -> bytes:
    pieces, size = [], 0
    with _OPENER.open(request, timeout=timeout_s) as response:
        while piece := response.read(_PIECE_BYTES):
            pieces.append(piece)
            size += len(piece)
            if size > MAX_ANSWER_BYTES:
                raise RowError(f"the app's answer is larger than {MAX_ANSWER_BYTES >> 20} MiB")
        if response.length:
            raise RowError("the app broke the connection: its answer is cut short")
    return b"".join(pieces)


def _is_lookup(error: Exception) -> bool:
    return isinstance(getattr(error, "reason", error), LookupLateError)


def _why(error: Exception, timeout_s: float) -> str:
    if isinstance(error, RowError):
        return str(error)
    if isinstance(error, urllib.error.HTTPError):
        error.close()
        return f"the app answered {error.code}"
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(reason, LookupLateError):
        return f"the name of the app's host was not resolved in {timeout_s:g} s"
    if isinstance(reason, TimeoutError):
        return f"the app did not answer in {timeout_s:g} s"
    if isinstance(error, urllib.error.URLError):
        return f"the app cannot be reached: {_words(reason)}"
    if isinstance(error, http.client.InvalidURL):
        return "the row's values make no address of the connector's url"
    if isinstance(error, OSError):
        return f"the app broke the connection: {_words(error)}"
    if isinstance(error, http.client.HTTPException):
        return f"the app's answer is not HTTP: {type(error).__name__}"
    return f"the row cannot be asked: {type(error).__name__}"


def _words(reason: object) -> str:
    text = reason.strerror if isinstance(reason, OSError) else None
    return str(text or type(reason).__name__)


def parse_answer(raw: bytes) -> Any:  # noqa: ANN401 - JSON has any type
    """JSON that can be stored again.

    Raises:
        RowError: it is not.
    """
    try:
        found = json.loads(raw)
        if _MAYBE_HALF.search(raw):
            json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise RowError("the app's answer holds half a character (a lone surrogate)") from None
    except ValueError:
        raise RowError("the app's answer is not JSON") from None
    except RecursionError:
        raise RowError("the app's answer is nested too deeply") from None
    return found
