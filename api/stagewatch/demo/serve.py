"""The support bot behind HTTP, as a plan reaches it: `python -m stagewatch.demo.serve`.

POST /ask {"question", "history"} answers with the ranked chunks; POST /deploy {"state"} swaps
the index while it runs, as a re-index does: `healthy`, or `stale` (old policy pages left in and
ranked first).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from stagewatch.demo.bot import Bot, Conversation, Deployment, Faults
from stagewatch.demo.corpus import current_passages, superseded_passages
from stagewatch.sdk import configure, flush

STATES = ("healthy", "stale")
_MAX_BODY = 1 << 20


def deployment(state: str, index_version: str) -> Deployment:
    """A deployment of the bot over one index."""
    current = current_passages()
    if state == "healthy":
        return Deployment("1.5.1", index_version, "answer-v7", current)
    old = superseded_passages()
    return Deployment(
        "1.5.1", index_version, "answer-v7", [*current, *old],
        frozenset(passage.chunk_id for passage in old), Faults(boost_old=True),
    )  # fmt: skip


class ServedBot(Bot):
    """A bot that remembers, thread by thread, what it fetched for the answer under way."""

    def __init__(self, made: Deployment) -> None:
        super().__init__(made)
        self._seen = threading.local()

    def _search(self, query: str) -> list[dict[str, Any]]:
        self._seen.found = super()._search(query)
        return list(self._seen.found)

    def reply(self, body: Mapping[str, Any], *, probe: bool = False) -> dict[str, Any]:
        """The answer to one request."""
        said = [(str(m["role"]), str(m["content"])) for m in body.get("history") or []]
        conversation = Conversation(str(body.get("conversation_id") or ""), said)
        answer, trace_id = self.ask(str(body["question"]), conversation, probe=probe)
        return {
            "answer": answer,
            "chunks": self._seen.found,
            "trace_id": trace_id,
            "release": self.deployment.release,
            "index_version": self.deployment.index_version,
        }


class App:
    """The bot that is deployed now."""

    def __init__(self, state: str, index_version: str) -> None:
        self.deploy(state, index_version)

    def deploy(self, state: str, index_version: str) -> None:
        """Swap the index; answers under way keep the one they began with."""
        self.bot = ServedBot(deployment(state, index_version))

    def handle(
        self, path: str, body: Mapping[str, Any], *, probe: bool = False
    ) -> tuple[int, dict[str, Any]]:
        """(status, answer) of a request."""
        if path == "/ask" and isinstance(body.get("question"), str):
            answer = self.bot.reply(body, probe=probe)
            flush(5)
            return 200, answer
        if path == "/deploy" and body.get("state") in STATES:
            self.deploy(str(body["state"]), str(body.get("index_version") or "kb-next"))
            return 200, {"index_version": self.bot.deployment.index_version}
        return 400, {"error": "POST /ask {question} or /deploy {state, index_version}"}


def _handler(app: App) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            size = min(int(self.headers.get("content-length") or 0), _MAX_BODY)
            try:
                body = json.loads(self.rfile.read(size))
            except ValueError:
                body = {}
            status, answer = app.handle(
                self.path,
                body if isinstance(body, dict) else {},
                probe=self.headers.get("x-stagewatch-probe") is not None,
            )
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Quiet: what customers ask belongs in no log."""

    return Handler


@contextlib.contextmanager
def serving(app: App) -> Iterator[str]:
    """The app's address, on a free port of this process until the end."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(app))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def main() -> None:
    """Serve until interrupted; the address is printed first."""
    parser = argparse.ArgumentParser(description="the demo's support bot behind HTTP")
    parser.add_argument("--port", type=int, default=9000)
    parser.add_argument("--state", choices=STATES, default="healthy")
    parser.add_argument("--index-version", default="kb-2026-11-01")
    parser.add_argument("--otlp", default="http://127.0.0.1:4318", help="where its spans go")
    parser.add_argument("--url", default="http://127.0.0.1:8600", help="where feedback goes")
    chosen = parser.parse_args()
    configure(chosen.otlp, service="refund-bot", url=chosen.url, environment="demo")
    app = App(chosen.state, chosen.index_version)
    server = ThreadingHTTPServer(("127.0.0.1", chosen.port), _handler(app))
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
