"""A loopback server that speaks openai's two APIs, streamed and not, and can break off half way."""

from __future__ import annotations

import contextlib
import gzip
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PIECES = ("within ", "thirty ", "days")
ANSWER = "".join(PIECES)
MODEL = "gpt-x-2026-11"
BREAKS_OFF = "gpt-breaks-off"
REFUSES = "gpt-refuses"
ZIPS = "gpt-zips"


def chat(body: dict[str, Any]) -> dict[str, Any]:
    message = {"role": "assistant", "content": ANSWER}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": MODEL,
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    }


def chat_pieces(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL}
    for text in PIECES:
        yield {
            **base,
            "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}],
        }
    yield {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    if (body.get("stream_options") or {}).get("include_usage"):
        yield {**base, "choices": [], "usage": chat(body)["usage"]}


def response(body: dict[str, Any]) -> dict[str, Any]:
    part = {"type": "output_text", "text": ANSWER, "annotations": []}
    message = {
        "id": "msg-1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }
    return {
        "id": "resp-1",
        "object": "response",
        "created_at": 1,
        "model": MODEL,
        "status": "completed",
        "output": [message],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 7,
            "output_tokens": 3,
            "total_tokens": 10,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }


def response_pieces(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    started = {**response(body), "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "sequence_number": 0, "response": started}
    for number, text in enumerate(PIECES, start=1):
        yield {
            "type": "response.output_text.delta",
            "sequence_number": number,
            "item_id": "msg-1",
            "output_index": 0,
            "content_index": 0,
            "delta": text,
            "logprobs": [],
        }
    yield {"type": "response.completed", "sequence_number": 9, "response": response(body)}


class Handler(BaseHTTPRequestHandler):
    """POST …/chat/completions and …/responses."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        of_chat = self.path.endswith("/chat/completions")
        if body["model"] == REFUSES:
            self.whole(400, {"error": {"message": "no", "type": "invalid_request_error"}})
        elif not body.get("stream"):
            zipped = body["model"] == ZIPS
            self.whole(200, chat(body) if of_chat else response(body), zipped=zipped)
        else:
            pieces = chat_pieces(body) if of_chat else response_pieces(body)
            self.streamed(pieces, breaks_off=body["model"] == BREAKS_OFF)

    def whole(self, status: int, body: dict[str, Any], *, zipped: bool = False) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        if zipped:
            data = gzip.compress(data)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def streamed(self, pieces: Iterator[dict[str, Any]], *, breaks_off: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number, piece in enumerate(pieces):
            if breaks_off and number == 2:
                self.close_connection = True
                return
            event = f"event: {piece['type']}\n" if "type" in piece else ""
            self.chunk(f"{event}data: {json.dumps(piece)}\n\n".encode())
        self.chunk(b"data: [DONE]\n\n")
        self.chunk(b"")

    def chunk(self, data: bytes) -> None:
        # Readers may leave half way.
        with contextlib.suppress(ConnectionError):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def log_message(self, *_: object) -> None:
        """Quiet: the test's own output matters."""


class Server(ThreadingHTTPServer):
    """Says nothing of readers that left."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def openai_server() -> Iterator[str]:
    """Address of a running server, for `base_url`."""
    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
