"""A receiver of webhooks in a process of its own: every request is a line on its stdout.

    python -m tests.support.channels_receiver    # prints the port on the first line

The path says how it behaves: /ok, /flaky (500 for the first two tries of a message, then 200),
/refuse (400), /busy (429 with Retry-After), /redirect?to=URL, /moved/… (to
/ok), /slow (never answers), /drip (a byte
of a header now and then), /hold (answers once the file named by ?until= is there).
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from tests.support.server import until


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    tries: ClassVar[Counter[str]] = Counter()
    lock = threading.Lock()

    def do_GET(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
        headers = {name.lower(): value for name, value in self.headers.items()}
        line = json.dumps({"path": self.path, "headers": headers, "body": body})
        with self.lock:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
            self.tries[headers.get("webhook-id", "")] += 1
        parts = urlsplit(self.path)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.behave(parts.path, parse_qs(parts.query), headers.get("webhook-id", ""))

    def behave(self, path: str, query: dict[str, list[str]], message: str) -> None:
        if path == "/flaky" and self.tries[message] <= 2:
            self.say(500, b"try later")
        elif path == "/refuse":
            self.say(400, b"I do not\x00 want this")
        elif path == "/busy":
            self.say(429, b"busy", {"retry-after": "77"})
        elif path == "/redirect":
            self.say(307, b"", {"location": query["to"][0]})
        elif path.startswith("/moved/"):
            self.say(307, b"", {"location": "/ok"})
        elif path == "/slow":
            time.sleep(60)
        elif path == "/drip":
            self.drip()
        elif path == "/hold":
            while not os.path.exists(query["until"][0]):
                time.sleep(0.02)
            self.say(200, b"at last")
        else:
            self.say(200, b"thank you")

    def drip(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nx-drip: ")
        for _ in range(600):
            self.wfile.write(b"a")
            self.wfile.flush()
            time.sleep(0.1)

    def say(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@dataclass
class Receiver:
    """The running receiver and what it got so far."""

    url: str
    got: list[dict[str, Any]] = field(default_factory=list)

    def wait(self, n: int) -> list[dict[str, Any]]:
        """Wait for `n` requests."""
        until(f"{n} messages", lambda: len(self.got) >= n)
        return self.got

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])


@contextlib.contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver, stopped at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.channels_receiver"],
        cwd=Path(__file__).resolve().parents[2], stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    found = Receiver(f"http://127.0.0.1:{process.stdout.readline().strip()}")

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            found.got.append(json.loads(line))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield found
    finally:
        process.terminate()
        process.wait(timeout=20)
        reader.join(timeout=20)
        process.stdout.close()


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever(poll_interval=0.05)


if __name__ == "__main__":
    main()
