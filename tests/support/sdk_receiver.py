"""A loopback server that plays collector and API: well, slow, closing half way, or refusing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

Mood = Literal["well", "slow", "closing", "overloaded", "forbidding"]


class Receiver:
    """What arrived, by path, and the address to send to."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.bodies: dict[str, list[bytes]] = {}
        self.headers: dict[str, list[dict[str, str]]] = {}
        self.arrived = threading.Condition()

    def note(self, path: str, body: bytes, headers: dict[str, str]) -> None:
        """Keep one request."""
        with self.arrived:
            self.bodies.setdefault(path, []).append(body)
            self.headers.setdefault(path, []).append(headers)
            self.arrived.notify_all()

    def wait_for(self, path: str, count: int = 1, timeout_s: float = 20.0) -> list[bytes]:
        """The bodies posted to `path` once there are `count`.

        Raises:
            AssertionError: they did not come in time.
        """
        with self.arrived:
            came = self.arrived.wait_for(lambda: len(self.bodies.get(path, ())) >= count, timeout_s)
            assert came, f"{path}: {len(self.bodies.get(path, ()))} of {count} requests came"
            return list(self.bodies[path])


@contextmanager
def receiver(mood: Mood = "well") -> Iterator[Receiver]:
    """A running server in the given mood; "slow" ones answer only when the test is over."""
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            if mood == "closing":
                self.rfile.read(10)
                self.connection.close()
                return
            body = self._body()
            found.note(self.path, body, {k.lower(): v for k, v in self.headers.items()})
            if mood == "slow":
                over.wait(60)
            self.send_response({"overloaded": 503, "forbidding": 401}.get(mood, 200))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body

        def log_message(self, *_: object) -> None:
            """Quiet: the test's own output matters."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    found = Receiver(server.server_port)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        server.shutdown()
        server.server_close()
        thread.join()
