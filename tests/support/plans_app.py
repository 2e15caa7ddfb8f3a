"""A small RAG app over HTTP, in a thread; it counts what it is asked and misbehaves on demand."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

REFUNDS = "Customers may request a refund within 30 days of delivery."
GIFTS = "Gift cards are valid for 3 years from the date of issue."
CHUNKS = [
    {"id": "refunds#1", "document_id": "refunds", "version": "v7", "content": REFUNDS},
    {"id": "gifts#1", "document_id": "gifts", "version": "v2", "content": GIFTS},
]

Answer = tuple[int, bytes, dict[str, str]]


def good(body: dict[str, Any]) -> Answer:
    """Answers with the passage that shares most words with the question."""
    words = set(str(body.get("question", "")).lower().split())
    ranked = sorted(CHUNKS, key=lambda c: -len(words & set(c["content"].lower().split())))
    said = {"answer": ranked[0]["content"], "chunks": ranked, "index": "kb-1"}
    return 200, json.dumps(said).encode(), {}


@dataclass
class App:
    """The running app: set `reply` to change what it does."""

    url: str = ""
    reply: Callable[[dict[str, Any]], Answer] = good
    asked: Counter[str] = field(default_factory=Counter)
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    under_way: int = 0
    most_under_way: int = 0
    wait_s: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)


@contextlib.contextmanager
def running_app() -> Iterator[App]:
    app = App()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.answer({"path": self.path})

        def do_POST(self) -> None:
            self.answer(json.loads(self.rfile.read(int(self.headers["content-length"]))))

        def answer(self, body: dict[str, Any]) -> None:
            with app.lock:
                app.asked[str(body.get("question"))] += 1
                app.headers.append({k.lower(): v for k, v in self.headers.items()})
                app.bodies.append(body)
                app.under_way += 1
                app.most_under_way = max(app.most_under_way, app.under_way)
            time.sleep(app.wait_s)
            status, data, headers = app.reply(body)
            with app.lock:
                app.under_way -= 1
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self.send_response(status)
                self.send_header("content-length", str(len(data)))
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    app.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield app
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
