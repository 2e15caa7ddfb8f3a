"""What stands around an app: a model server that is scripted, and a receiver that keeps requests."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from kb import ASKED, SERVED_MODEL, Ask, vector


class ModelServer:
    """Speaks openai's chat and embeddings APIs; what was asked last of each kind is kept."""

    def __init__(self) -> None:
        self.ask: Ask = ASKED[0]
        self.calls: dict[str, dict[str, int]] = {}
        self.url = ""
        self.shape: Callable[[str, str], str] = lambda kind, text: text
        self.is_rewrite: Callable[[str], bool] = lambda prompt: "stands alone" in prompt

    def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        prompt = json.dumps(body["messages"], ensure_ascii=False)
        kind = "rewrite" if self.is_rewrite(prompt) else "answer"
        said = self.ask.rewritten or self.ask.question if kind == "rewrite" else self.ask.answer
        text = self.shape(kind, said)
        usage = {"input": len(prompt.split()), "output": len(text.split())}
        self.calls[kind] = usage
        return {
            "id": f"chatcmpl-{self.ask.turn}-{kind}",
            "object": "chat.completion",
            "created": 1_790_000_000,
            "model": SERVED_MODEL,
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "stop",
                    "message": {"role": "assistant", "content": text},
                }
            ],
            "usage": {
                "prompt_tokens": usage["input"],
                "completion_tokens": usage["output"],
                "total_tokens": usage["input"] + usage["output"],
            },
        }

    def embed(self, body: dict[str, Any]) -> dict[str, Any]:
        given = body["input"] if isinstance(body["input"], list) else [body["input"]]
        return {
            "object": "list",
            "model": "text-embedding-3-small",
            "data": [
                {"object": "embedding", "index": at, "embedding": vector(text)}
                for at, text in enumerate(given)
            ],
            "usage": {"prompt_tokens": 9, "total_tokens": 9},
        }


def with_tool_call(server: ModelServer, tool: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A model that calls `tool` with the query first and answers when it has the result."""
    plain = server.chat
    choosing: dict[str, int] = {}

    def chat(body: dict[str, Any]) -> dict[str, Any]:
        reply = plain(body)
        usage = server.calls["answer"]
        if any(message["role"] == "tool" for message in body["messages"]):
            server.calls["rewrite"] = dict(choosing)
            return reply
        choosing.update(usage)
        reply["id"] += "-tool"
        arguments = json.dumps({"query": server.ask.query})
        function = {"name": tool, "arguments": arguments}
        call = {"id": "call-1", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        reply["choices"][0] |= {"message": message, "finish_reason": "tool_calls"}
        return reply

    return chat


class Receiver:
    """Keeps export requests as they come."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[dict[str, Any]] = []
        self.lock = threading.Lock()

    def take(self, path: str, headers: dict[str, str], wire: bytes) -> None:
        body = gzip.decompress(wire) if headers.get("content-encoding") == "gzip" else wire
        with self.lock:
            self.requests.append(
                {"path": path, "headers": headers, "wire": len(wire), "body": body}
            )


@contextmanager
def serving(handle: Callable[[str, dict[str, str], bytes], bytes]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.body()
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = handle(self.path, headers, body)
            self.send_response(200)
            kind = "application/json" if reply else headers.get("content-type", "text/plain")
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            found = b""
            while size := int(self.rfile.readline(), 16):
                found += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return found

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class Rig:
    """The servers around an app."""

    def __init__(self) -> None:
        self.model = ModelServer()
        self.receiver = Receiver()
        self.windows: list[tuple[int, int]] = []

    @contextmanager
    def running(self) -> Iterator[Rig]:
        def model(path: str, headers: dict[str, str], body: bytes) -> bytes:
            asked = json.loads(body)
            of = self.model.embed if path.endswith("/embeddings") else self.model.chat
            return json.dumps(of(asked)).encode()

        def receive(path: str, headers: dict[str, str], body: bytes) -> bytes:
            self.receiver.take(path, headers, body)
            return b""

        with serving(model) as model_url, serving(receive) as self.receiver.url:
            self.model.url = f"{model_url}/v1"
            yield self
