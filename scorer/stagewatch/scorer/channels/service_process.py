"""The process in which apprise runs: `python -m stagewatch.scorer.channels.service_process`.

Reads one message as JSON from stdin, sends it, and says on stdout how that went. Sockets of this
process connect to allowed addresses only, whichever library opens them.
"""

from __future__ import annotations

import io
import logging
import socket
import sys
from collections.abc import Sequence
from typing import Any

import orjson

from stagewatch.scorer.channels.addresses import Network, is_allowed, parse_networks


class Refusals:
    """The addresses that were asked for and not allowed."""

    def __init__(self) -> None:
        self.seen: list[str] = []


def guard_sockets(allowed: Sequence[Network]) -> Refusals:
    """Have every socket of this process check the address it connects to.

    The check sits in the class that all Python sockets share, TLS ones too, on the numeric
    address. So it holds for redirects, for names that resolve anew, and for libraries that
    resolve on their own or were imported before.
    """
    refused = Refusals()
    plain, plain_ex = socket.socket.connect, socket.socket.connect_ex

    def check(made: socket.socket, address: Any) -> None:  # noqa: ANN401
        if made.family not in {socket.AF_INET, socket.AF_INET6}:
            refused.seen.append("a local socket")
            raise PermissionError("local sockets are not for messages")
        host = _numeric(address, made.family)
        if not is_allowed(host, allowed):
            refused.seen.append(host)
            raise PermissionError(f"{host} is not a public address")

    def connect(self: socket.socket, address: Any, /) -> None:  # noqa: ANN401
        check(self, address)
        plain(self, address)

    def connect_ex(self: socket.socket, address: Any, /) -> int:  # noqa: ANN401
        check(self, address)
        return plain_ex(self, address)

    def sendto(*_: object) -> int:
        raise PermissionError("messages go over connections only")

    socket.socket.connect = connect  # type: ignore[method-assign, assignment] # on purpose:
    socket.socket.connect_ex = connect_ex  # type: ignore[method-assign, assignment] # nothing
    socket.socket.sendto = sendto  # type: ignore[method-assign] # may pass by it
    return refused


def _numeric(address: Any, family: int) -> str:  # noqa: ANN401
    """The address as a number; a name given to `connect` is resolved here, once."""
    host, port = str(address[0]), int(address[1])
    found = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)
    numeric = str(found[0][4][0])
    if numeric != host:
        raise PermissionError("only numeric addresses are connected to")
    return numeric


def _send(asked: dict[str, Any]) -> tuple[bool, str]:
    """Whether apprise sent the message, and what it said of it."""
    # Slow to import: only this process needs it.
    import apprise  # noqa: PLC0415

    said = io.StringIO()
    handler = logging.StreamHandler(said)
    handler.setLevel(logging.WARNING)
    logging.getLogger("apprise").addHandler(handler)
    asset = apprise.AppriseAsset(
        app_id="stagewatch",
        http_redirects=False,
        plugin_paths=[],
        storage_mode=apprise.PersistentStoreMode.MEMORY,
    )
    sender = apprise.Apprise(asset=asset)
    if not sender.add(asked["url"]):
        return False, "apprise cannot read this address"
    for service in sender:
        service.redirects = False
        service.socket_connect_timeout = asked["timeout_s"]
        service.socket_read_timeout = asked["timeout_s"]
    ok = bool(sender.notify(body=asked["text"], title=asked["title"], body_format="text"))
    lines = said.getvalue().strip().splitlines()
    return ok, "sent" if ok else (lines[-1] if lines else "apprise could not send it")


def main() -> int:
    """One message; always exit code 0, the answer is on stdout."""
    asked = orjson.loads(sys.stdin.buffer.read())
    refused = guard_sockets(parse_networks(",".join(asked["networks"])))
    try:
        ok, said = _send(asked)
    except Exception as error:  # noqa: BLE001 - whatever a plugin raises, the answer is a line
        ok, said = False, f"apprise raised {type(error).__name__}"
    if refused.seen:
        ok = False
        said = f"{refused.seen[0]} is not a public address: messages go there only when "
        said += "STAGEWATCH_ALERT_NETWORKS names its network"
    sys.stdout.buffer.write(orjson.dumps({"ok": ok, "said": said}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
