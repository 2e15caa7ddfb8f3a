"""An app that answers in ways no app should: what it says is chosen by the path."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator

GOOD = {
    "answer": "Refunds are possible within 30 days.",
    "chunks": [{"id": "refunds#1", "document_id": "refunds", "content": "Within 30 days."}],
}


def _ok(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body


SAYS: dict[str, bytes] = {
    "/ok": _ok(json.dumps(GOOD).encode()),
    "/garbage": b"nothing of the kind\r\n\r\n",
    "/short": b'HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{"answer":',
    "/deep": _ok(b"[" * 200_000),
    "/half": _ok(b'{"answer": "\\ud800 days", "chunks": [{"id": "refunds#1"}]}'),
    "/digits": _ok(b'{"answer": "x", "chunks": [], "n": ' + b"9" * 5000 + b"}"),
    "/empty": b"",
    "/elsewhere": b"HTTP/1.1 302 x\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
}


class OddApp:
    """The running app."""

    def __init__(self, listener: socket.socket) -> None:
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self.asked: list[str] = []
        self._stop = threading.Event()
        self._listener = listener
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                made, _ = self._listener.accept()
                threading.Thread(target=self._answer, args=(made,), daemon=True).start()

    def _answer(self, made: socket.socket) -> None:
        with made, contextlib.suppress(OSError):
            path = _path_of(made)
            self.asked.append(path)
            if path == "/hang":
                self._stop.wait(120)
            elif path == "/drip":
                made.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
                self._drip(made)
            elif path == "/drip-head":
                made.sendall(b"HTTP/1.1 200 OK\r\nx-drip: ")
                self._drip(made)
            else:
                made.sendall(SAYS[path])

    def _drip(self, made: socket.socket) -> None:
        while not self._stop.wait(0.1):
            made.sendall(b" ")

    def close(self) -> None:
        self._stop.set()
        self._listener.close()


def _path_of(made: socket.socket) -> str:
    """Read one whole request; its path."""
    with made.makefile("rb") as read:
        path = read.readline().split(b" ")[1].decode()
        length = 0
        while (line := read.readline().strip()) != b"":
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        read.read(length)
    return path


@contextlib.contextmanager
def odd_app() -> Iterator[OddApp]:
    with socket.create_server(("127.0.0.1", 0), backlog=50) as listener:
        app = OddApp(listener)
        try:
            yield app
        finally:
            app.close()
