"""A small SMTP server in a thread (RFC 5321, without extensions); it keeps every line."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Smtp:
    port: int
    lines: list[str] = field(default_factory=list)


def _talk(connection: socket.socket, found: Smtp) -> None:
    with connection, connection.makefile("rwb") as pipe:

        def say(text: str) -> None:
            pipe.write(text.encode() + b"\r\n")
            pipe.flush()

        say("220 here")
        data = False
        for raw in pipe:
            line = raw.decode("utf-8", "replace").rstrip("\r\n")
            found.lines.append(line)
            if data:
                data = line != "."
                if not data:
                    say("250 kept")
            elif line.upper() == "DATA":
                data = True
                say("354 go on")
            elif line.upper() == "QUIT":
                say("221 bye")
                return
            else:
                say("250 fine")


@contextlib.contextmanager
def smtp_server() -> Iterator[Smtp]:
    """A listening server for one connection."""
    listener = socket.create_server(("127.0.0.1", 0))
    found = Smtp(listener.getsockname()[1])

    def serve() -> None:
        with contextlib.suppress(OSError):
            connection, _ = listener.accept()
            _talk(connection, found)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield found
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(timeout=20)
