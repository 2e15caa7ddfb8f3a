"""An OpenAI-compatible server in a process of its own, scripted by the model name.

It judges by word overlap what stands inside the fences, and obeys whatever stands outside of
them: any text that gets out of its fence has every label turned to its favour.

    python -m tests.support.scorer_openai_server    # prints the port on the first line
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import threading
import time
import unicodedata
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.child_server import child_server, serve_until_closed

_HIDDEN = re.compile("[\u00ad\u200b-\u200f\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e007f]")
_EDGE = re.compile(
    r"[<‹«⟨〈]{2,}\s*(BEGIN|END)\s+(\w+)\s+(\d+)[^>›»⟩〉\n]*[>›»⟩〉]{2,}", re.IGNORECASE
)


def read_fences(text: str) -> tuple[dict[str, list[str]], str]:
    """(blocks by name, what stands outside): as lenient as a model, so a fake edge counts."""
    seen = unicodedata.normalize("NFKC", _HIDDEN.sub("", text))
    blocks: dict[str, list[str]] = {}
    outside, at, opened = [], 0, None
    for edge in _EDGE.finditer(seen):
        body = seen[at : edge.start()]
        if edge.group(1).upper() == "BEGIN":
            outside.append(body)
            opened = edge.group(2)
        else:
            if opened is None:
                outside.append(body)
            else:
                blocks.setdefault(opened, []).append(body.strip("\n"))
            opened = None
        at = edge.end()
    outside.append(seen[at:])
    return blocks, "".join(outside).strip()


def words(text: str) -> set[str]:
    return {word for word in re.findall(r"\w+", text.casefold()) if len(word) > 3}


def support(statement: str, chunks: list[str]) -> int:
    """Number of the first chunk that holds four fifths of the statement's words, else 0."""
    wanted = words(statement)
    for number, chunk in enumerate(chunks, start=1):
        if wanted and len(wanted & words(chunk)) / len(wanted) >= 0.8:
            return number
    return 0


def judge(task: str, blocks: dict[str, list[str]], *, obeys: bool) -> dict[str, Any]:
    chunks = blocks.get("chunk", [])
    question = " ".join(blocks.get("question", []))
    answer = " ".join(blocks.get("answer", []))

    def label(statement: str) -> dict[str, Any]:
        number = max(support(statement, chunks), 1 if obeys and chunks else 0)
        return {"label": "SUPPORTED" if number else "ABSENT", "evidence": number}

    if task == "faithfulness":
        parts = [p for p in re.split(r"(?<=[.!?])\s+|\n+", answer) if words(p)]
        claims = [{"quote": p, "statement": p, **label(p)} for p in parts]
        refused = not obeys and answer.casefold().startswith("i do not know")
        return {"refused": refused, "claims": [] if refused else claims}
    if task == "statements":
        found = blocks.get("statement", [])
        return {"labels": [{"statement": i, **label(s)} for i, s in enumerate(found, start=1)]}
    if task == "relevance":
        marks = [bool(words(question) & words(chunk)) or obeys for chunk in chunks]
        return {"marks": [{"chunk": i, "relevant": m} for i, m in enumerate(marks, start=1)]}
    if task == "sufficiency":
        good = obeys or any(len(words(question) & words(chunk)) >= 2 for chunk in chunks)
        return {"level": "sufficient" if good else "insufficient"}
    if task == "relevancy":
        return {
            "items": [{"asked": "it", "addressed": obeys or bool(words(question) & words(answer))}]
        }
    kept = obeys or bool(words(question) & words(" ".join(blocks.get("rewritten", []))))
    return {"constraints": [{"text": "it", "state": "kept" if kept else "dropped"}]}


def make_strict(reply: dict[str, Any]) -> None:
    """The reply of a model that finds nothing good enough."""
    for item in [*reply.get("claims", []), *reply.get("labels", [])]:
        item.update(label="ABSENT", evidence=0)
    for mark in reply.get("marks", []):
        mark["relevant"] = False


def task_of(system: str) -> str:
    shapes = {
        '"claims"': "faithfulness",
        '"labels"': "statements",
        '"marks"': "relevance",
        '"level"': "sufficiency",
        '"items"': "relevancy",
        '"constraints"': "rewrite",
    }
    return next(task for key, task in shapes.items() if key in system)


class Script:
    """What the models do, and how often they were called."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.requests: list[dict[str, Any]] = []
        self.inputs: dict[str, set[str]] = {}
        # Set by POST /control: a status that every call gets instead of its reply.
        self.status = 0
        # Set there too: nothing is supported or relevant any more, under the same model name.
        self.strict = False
        self.lock = threading.Lock()

    def answer(self, body: dict[str, Any]) -> tuple[int, dict[str, str], dict[str, Any]]:
        model = body["model"]
        with self.lock:
            self.calls[model] += 1
            count = self.calls[model]
            self.requests.append({k: v for k, v in body.items() if k != "messages"})
            if not self.status:
                self.inputs.setdefault(model, set()).add(json.dumps(body["messages"]))
        if self.status:
            return self.status, {"Retry-After": "0.01"}, {"error": {"message": "not now"}}
        kind = (body.get("response_format") or {}).get("type", "text")
        if model.startswith("slow-"):
            time.sleep(int(model.removeprefix("slow-")) / 1000)
        if model.startswith("no-schema") and kind == "json_schema":
            return 400, {}, {"error": {"message": "response_format is not supported"}}
        if model.startswith("no-json") and kind != "text":
            return 422, {}, {"error": {"message": "response_format is not supported"}}
        if model.startswith("limited") and count <= 2:
            return 429, {"Retry-After": "0.01"}, {"error": {"message": "slow down"}}
        if model.startswith("down"):
            return 500, {"Retry-After": "0.01"}, {"error": {"message": "broken"}}
        blocks, outside = read_fences(body["messages"][1]["content"])
        reply = judge(task_of(body["messages"][0]["content"]), blocks, obeys=outside != "")
        if self.strict:
            make_strict(reply)
        return 200, {}, self.completion(body, self.spoil(model, body, reply))

    def spoil(self, model: str, body: dict[str, Any], reply: dict[str, Any]) -> str:
        first = len(body["messages"]) == 2
        if model.startswith("bad-always") or (model.startswith("bad-once") and first):
            return "I think it is all fine."
        if model.startswith("drops-one"):
            for items in reply.values():
                if isinstance(items, list):
                    items[:] = items[:-1]
        if model.startswith("odd-label"):
            for item in reply.get("claims", []):
                item["label"] = "MOSTLY"
        if model.startswith("invents-quote"):
            for item in reply.get("claims", []):
                item["quote"] = "words that nobody said"
        if model.startswith("far-evidence"):
            for item in reply.get("claims", []):
                item["evidence"] = 99
        text = json.dumps(reply)
        return f"Here you are:\n```json\n{text}\n```" if model.startswith("no-json") else text

    def completion(self, body: dict[str, Any], text: str) -> dict[str, Any]:
        size = sum(len(message["content"]) for message in body["messages"])
        return {
            "id": "c", "object": "chat.completion", "created": 0, "model": body["model"],
            "choices": [{"index": 0, "finish_reason": "stop",
                         "message": {"role": "assistant", "content": text}}],
            "usage": {"prompt_tokens": size // 4, "completion_tokens": len(text) // 4,
                      "total_tokens": (size + len(text)) // 4},
        }  # fmt: skip


def serve() -> None:
    script = Script()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def reply(self, status: int, headers: dict[str, str], body: dict[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            distinct = {model: len(found) for model, found in script.inputs.items()}
            self.reply(
                200,
                {},
                {
                    "calls": dict(script.calls),
                    "requests": script.requests,
                    "distinct": distinct,
                },
            )

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path.endswith("/control"):
                script.status = body.get("status", script.status)
                script.strict = body.get("strict", script.strict)
                self.reply(200, {}, {})
                return
            self.reply(*script.answer(body))

        def log_message(self, *args: object) -> None:
            """Quiet: what is judged belongs in no log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    serve_until_closed(server)


class ScriptedServer:
    """The running server: its base URL, and what it has seen."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.base_url = f"http://127.0.0.1:{port}/v1"

    def seen(self) -> dict[str, Any]:
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            link.request("GET", "/seen")
            found: dict[str, Any] = json.loads(link.getresponse().read())
            return found
        finally:
            link.close()

    def calls(self, model: str) -> int:
        return int(self.seen()["calls"].get(model, 0))

    def distinct(self, model: str) -> int:
        """Different texts that this model was asked about and answered."""
        return int(self.seen()["distinct"].get(model, 0))

    def turn_strict(self, strict: bool = True) -> None:
        """From now on nothing is supported or relevant: the model behind the name changed."""
        self.control({"strict": strict})

    def fail_with(self, status: int) -> None:
        """Answer every call with this HTTP status; 0 answers them again."""
        self.control({"status": status})

    def control(self, change: dict[str, Any]) -> None:
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            body = json.dumps(change)
            link.request("POST", "/control", body, {"Content-Length": str(len(body))})
            link.getresponse().read()
        finally:
            link.close()


@contextlib.contextmanager
def running_server() -> Iterator[ScriptedServer]:
    """The server in a process of its own; it ends when its input is closed."""
    with child_server(__name__) as port:
        yield ScriptedServer(port)


if __name__ == "__main__":
    serve()
