"""One POST to an address that was checked, and to no other: no proxy, no redirect, a deadline
over everything.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import SplitResult, urlsplit

from stagewatch.core.clock import Clock, SystemClock
from stagewatch.core.errors import InvalidInputError
from stagewatch.scorer.channels.addresses import (
    AddressRefusedError,
    Network,
    Resolver,
    checked_addresses,
    in_networks,
    is_allowed,
    is_host,
    system_resolver,
)
from stagewatch.scorer.cutoff import Cutoff
from stagewatch.scorer.lookups import LOOKUPS, LookupLateError, Lookups, dial

# Python's own limit of 100 headers of 64 KiB each bounds the rest of an answer.
_READ_BYTES = 2048
_SAID_CHARS = 200


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one try.

    `status` is the HTTP status, 0 when there was none. `again` tells whether a later try may do
    better; `wait_s` is what the peer asked for, if it did.
    """

    ok: bool
    status: int
    said: str
    again: bool = False
    wait_s: float | None = None


@dataclass(frozen=True, slots=True)
class Wire:
    """How messages go out: networks beyond the public ones, who resolves names, the deadline over
    the whole request with its lookup, the time (for a `Retry-After` that is a date), and where
    lookups find a place.
    """

    allowed: Sequence[Network] = ()
    resolver: Resolver = system_resolver
    timeout_s: float = 10.0
    clock: Clock = field(default_factory=SystemClock)
    lookups: Lookups = LOOKUPS


def split_url(url: str) -> SplitResult:
    """The parts of a webhook's address.

    Raises:
        InvalidInputError: no http(s) address, or one with a password or a fragment in it.
    """
    try:
        found = urlsplit(url)
        port_ok = found.port is None or 0 < found.port <= 65535
    except ValueError:
        raise InvalidInputError("url: not an address") from None
    if found.scheme not in {"http", "https"} or not found.hostname or not port_ok:
        raise InvalidInputError("url: use https://host/path")
    if not is_host(found.hostname):
        raise InvalidInputError("url: no such host can be: check its dots, letters and length")
    if found.username or found.password or found.fragment:
        raise InvalidInputError("url: no user, password or # part")
    if not url.isascii() or any(ord(ch) <= ord(" ") for ch in url):
        raise InvalidInputError("url: ASCII without spaces; write other characters as %xx")
    return found


def post(url: str, headers: Mapping[str, str], body: bytes, wire: Wire) -> Outcome:
    """Send `body`; never raises for what the address, the network or the peer is like.

    Args:
        url: as `split_url` takes it. Plain http goes only to networks in `wire.allowed`.
        headers: beside Host and Content-Length.
        body: sent as it is.
        wire: where it may go, and for how long.
    """
    try:
        parts = split_url(url)
    except InvalidInputError as error:
        return Outcome(ok=False, status=0, said=str(error))
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        with Cutoff(wire.timeout_s) as cutoff:
            addresses = _addresses(parts, port, wire, cutoff)
            with _connected(parts, addresses, port, wire, cutoff) as connection:
                return _exchange(connection, parts, headers, body, wire.clock)
    except AddressRefusedError as error:
        return Outcome(ok=False, status=0, said=str(error))
    except ssl.SSLCertVerificationError as error:
        return Outcome(ok=False, status=0, said=f"bad certificate: {error.verify_message}")
    except LookupLateError as error:
        return Outcome(ok=False, status=0, said=str(error), again=True)
    except TimeoutError:
        return Outcome(ok=False, status=0, said=f"no answer in {wire.timeout_s:g} s", again=True)
    except socket.gaierror:
        return Outcome(ok=False, status=0, said=f"{host} has no address now", again=True)
    except (OSError, http.client.HTTPException) as error:
        words = getattr(error, "strerror", None) or type(error).__name__
        return Outcome(ok=False, status=0, said=f"connection failed: {words}", again=True)
    except ValueError as error:
        # What cannot be written into a request stays so: trying again will not help.
        return Outcome(ok=False, status=0, said=f"cannot be sent: {type(error).__name__}")


def _addresses(parts: SplitResult, port: int, wire: Wire, cutoff: Cutoff) -> list[str]:
    """Where the message may go; raises as `checked_addresses`, and LookupLateError."""

    def looked_up(host: str, port: int) -> list[str]:
        return wire.lookups.find(host, port, wire.resolver, cutoff.left())

    host = parts.hostname or ""
    found = checked_addresses(host, port, allowed=wire.allowed, resolver=looked_up)
    if parts.scheme == "http" and not all(in_networks(a, wire.allowed) for a in found):
        raise AddressRefusedError(
            "plain http goes only to networks that STAGEWATCH_ALERT_NETWORKS names: use https"
        )
    return found


class _Pinned(http.client.HTTPConnection):
    """A connection whose socket is made already."""

    def __init__(self, host: str, port: int, made: socket.socket) -> None:
        super().__init__(host, port)
        self.sock = made

    def connect(self) -> None:
        """No second connection: it would go to an address nobody checked."""
        raise ConnectionError("the peer closed the connection")


@contextlib.contextmanager
def _connected(
    parts: SplitResult, addresses: Sequence[str], port: int, wire: Wire, cutoff: Cutoff
) -> Iterator[_Pinned]:
    """A connection that is cut when the deadline passes, wherever it is then."""
    host = parts.hostname or ""
    with _open(addresses, port, wire, cutoff) as raw:
        cutoff.watch(raw)
        try:
            made: socket.socket = raw
            if parts.scheme == "https":
                made = ssl.create_default_context().wrap_socket(
                    raw, server_hostname=host, do_handshake_on_connect=True
                )
            with contextlib.closing(_Pinned(host, port, made)) as connection:
                yield connection
        except (OSError, http.client.HTTPException):
            if cutoff.passed:
                raise TimeoutError from None
            raise
        if cutoff.passed:
            # A head that was cut off reads like a whole one.
            raise TimeoutError


def _open(addresses: Sequence[str], port: int, wire: Wire, cutoff: Cutoff) -> socket.socket:
    """A connection to the first address that takes one; the peer is checked once more."""
    made = dial(addresses, port, cutoff.left)
    peer = str(made.getpeername()[0])
    if not is_allowed(peer, wire.allowed):
        made.close()
        raise AddressRefusedError(f"the connection went to {peer}, which is not allowed")
    made.settimeout(wire.timeout_s)
    return made


def _exchange(
    connection: _Pinned,
    parts: SplitResult,
    headers: Mapping[str, str],
    body: bytes,
    clock: Clock,
) -> Outcome:
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    connection.request("POST", target, body=body, headers=dict(headers))
    answer = connection.getresponse()
    status = answer.status
    location = answer.getheader("location")
    said = short(answer.read(_READ_BYTES).decode("utf-8", "replace"))
    if 300 <= status < 400:
        to = "" if location is None else " elsewhere"
        return Outcome(
            ok=False, status=status, said=f"answered {status}, sends us{to}: never followed"
        )
    if 200 <= status < 300:
        return Outcome(ok=True, status=status, said=said)
    again = status >= 500 or status in {408, 425, 429}
    return Outcome(
        ok=False, status=status, said=said, again=again,
        wait_s=_retry_after(answer.getheader("retry-after"), clock.now()),
    )  # fmt: skip


def _retry_after(text: str | None, now: datetime) -> float | None:
    """Seconds to wait: RFC 9110 has a number of them or a date."""
    if text is None or not text.isascii():
        return None
    if text.strip().isdigit():
        return float(text)
    try:
        until = parsedate_to_datetime(text)
    except ValueError:
        return None
    # A date without a zone (-0000) is UTC.
    until = until if until.tzinfo is not None else until.replace(tzinfo=UTC)
    return max(0.0, (until - now).total_seconds())


def short(text: str) -> str:
    """A peer's answer in one line of printable characters, cut."""
    line = " ".join("".join(ch if ch.isprintable() else " " for ch in text).split())
    return line if len(line) <= _SAID_CHARS else f"{line[: _SAID_CHARS - 1]}…"
