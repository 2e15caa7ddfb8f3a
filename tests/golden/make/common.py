"""What the capture scripts share: a knowledge base, two questions, a model server, a receiver.

Each script is a small RAG app on one library, instrumented by one emitter. `record` runs it, keeps
the exact bodies of its export requests, and writes `expected.json` from what the app itself noted:
the reader under test has no part in it. Every value that is claimed to be obtainable must occur in
what was sent, or nothing is written.

    python tests/golden/make/SCRIPT.py tests/golden/otlp

in an environment with `requirements/captures.in`.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict
from kb import ASKED, BY_ID, CONVERSATION, MODEL, SERVED_MODEL, Ask, Doc, Hit
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from servers import Rig


@dataclass
class Truth:
    """What the app really did in one turn; the app fills it."""

    turn: int
    conversation_id: str
    user_question: str
    rewritten_query: str | None
    retrieval_query: str
    retrieved: list[dict[str, Any]] = field(default_factory=list)
    reranked: list[dict[str, Any]] | None = None
    passed_to_model: list[str] | None = None
    answer: str | None = None
    request_model: str | None = None
    response_model: str | None = None
    tokens: dict[str, int] | None = None
    rewrite_tokens: dict[str, int] | None = None

    def found(self, hits: list[Hit]) -> None:
        self.retrieved = rows(hits)

    def ranked(self, hits: list[Hit]) -> None:
        self.reranked = rows(hits)

    def window(self, docs: list[Doc]) -> None:
        self.passed_to_model = [doc.id for doc in docs]


def rows(hits: list[Hit]) -> list[dict[str, Any]]:
    return [
        {
            "rank": rank,
            "id": hit.doc.id,
            "document_id": hit.doc.document_id,
            "version": hit.doc.version,
            "score": hit.score,
            "content": hit.doc.content,
        }
        for rank, hit in enumerate(hits)
    ]


@dataclass
class Capture:
    """What one script is about.

    `absent` names fields of a turn that this emitter does not send, `absent_in_documents` those of
    documents; each with the reason.
    """

    name: str
    packages: tuple[str, ...]
    notes: tuple[str, ...]
    absent: dict[str, str] = field(default_factory=dict)
    absent_in_documents: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    attribute_map: dict[str, str] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)


def record(
    capture: Capture,
    set_up: Callable[[Rig], Callable[[Ask, Truth], str]],
    flush: Callable[[], object],
) -> None:
    """Run the app that `set_up` makes, one turn after the other, and write the capture.

    Args:
        capture: What it is about.
        set_up: Instruments, and gives back the app: a function that answers one question and notes
            in a Truth what it did.
        flush: Has everything sent.
    """
    truths = []
    with Rig().running() as rig:
        app = set_up(rig)
        for ask in ASKED:
            rig.model.ask, rig.model.calls = ask, {}
            truth = Truth(ask.turn, CONVERSATION, ask.question, ask.rewritten, ask.query)
            started = time.time_ns()
            truth.answer = app(ask, truth)
            rig.windows.append((started, time.time_ns()))
            truth.request_model, truth.response_model = MODEL, SERVED_MODEL
            truth.tokens = rig.model.calls.get("answer")
            truth.rewrite_tokens = rig.model.calls.get("rewrite")
            truths.append(truth)
            time.sleep(0.02)
        flush()
    write(capture, rig, truths)


def write(capture: Capture, rig: Rig, truths: list[Truth]) -> None:
    folder = Path(sys.argv[1]) / capture.name
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    listed, sent, spans = [], [], []
    for number, request in enumerate(rig.receiver.requests, start=1):
        signal = "logs" if request["path"].endswith("/logs") else "traces"
        kind = ExportLogsServiceRequest if signal == "logs" else ExportTraceServiceRequest
        message = kind.FromString(request["body"])
        name = f"{number:03}.{signal}.pb"
        (folder / name).write_bytes(request["body"])
        found = list(items(message))
        listed.append(
            {
                "file": name,
                "path": request["path"],
                "signal": signal,
                "items": len(found),
                "bytes": len(request["body"]),
                "wire_bytes": request["wire"],
                "headers": {
                    key: request["headers"][key]
                    for key in ("user-agent", "content-type", "content-encoding")
                    if key in request["headers"]
                },
            }
        )
        sent.append(json.dumps(MessageToDict(message), ensure_ascii=False))
        spans += [item for _, item in found if signal == "traces"]
    everything = readable("\n".join(sent))
    turns = [turn_of(capture, rig, truth, spans, everything) for truth in truths]
    scopes: dict[str, int] = {}
    for request in rig.receiver.requests:
        if not request["path"].endswith("/logs"):
            for scope, _ in items(ExportTraceServiceRequest.FromString(request["body"])):
                scopes[scope] = scopes.get(scope, 0) + 1
    expected = {
        "capture": capture.name,
        "versions": {name: metadata.version(name) for name in capture.packages} | capture.versions,
        "scopes": scopes,
        "notes": [*capture.notes, *reasons(capture)],
        "tags": capture.tags,
        "attribute_map": capture.attribute_map,
        "turns": turns,
        "truth": [asdict(truth) for truth in truths],
    }
    text = json.dumps(expected, indent=1, ensure_ascii=False)
    (folder / "expected.json").write_text(text + "\n", encoding="utf-8")
    (folder / "requests.json").write_text(json.dumps(listed, indent=1) + "\n")
    print(f"{folder}: {len(listed)} requests, {len(spans)} spans")


def reasons(capture: Capture) -> list[str]:
    of_turns = [f"{name}: {why}" for name, why in capture.absent.items()]
    return of_turns + [f"documents' {k}: {why}" for k, why in capture.absent_in_documents.items()]


def items(message: Any) -> Iterator[tuple[str, Any]]:
    groups = getattr(message, "resource_spans", None) or getattr(message, "resource_logs", ())
    for entry in groups:
        for scoped in getattr(entry, "scope_spans", None) or getattr(entry, "scope_logs", ()):
            scope = f"{scoped.scope.name}@{scoped.scope.version}"
            for item in getattr(scoped, "spans", None) or getattr(scoped, "log_records", ()):
                yield scope, item


def readable(text: str) -> str:
    """JSON inside JSON inside JSON, without its backslashes and escapes."""
    text = re.sub(r"\\+u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), text)
    return re.sub(r"\\+n", " ", text).replace("\\", "")


def turn_of(
    capture: Capture, rig: Rig, truth: Truth, spans: list[Any], everything: str
) -> dict[str, Any]:
    start, end = rig.windows[truth.turn - 1]
    mine = [span for span in spans if start <= span.start_time_unix_nano <= end]
    turn: dict[str, Any] = {"turn": truth.turn}
    turn["trace_ids"] = sorted({span.trace_id.hex() for span in mine})
    turn["span_count"] = len(mine)
    turn |= {name: value for name, value in asdict(truth).items() if name != "turn"}
    for name in capture.absent:
        turn[name] = None
    for name in ("retrieved", "reranked"):
        for row in turn[name] or ():
            row.update(dict.fromkeys(capture.absent_in_documents))
    if turn["passed_to_model"] and not capture.absent_in_documents.keys().isdisjoint(
        ("id", "content")
    ):
        turn["passed_texts"] = [BY_ID[doc_id].content for doc_id in turn["passed_to_model"]]
        if "id" in capture.absent_in_documents:
            turn["passed_to_model"] = None
    turn["tags"] = dict.fromkeys(("release", "index_version", "prompt_version")) | capture.tags
    turn["turn_index"] = None
    turn |= capture.extra
    claim(turn, everything)
    return turn


def claim(turn: dict[str, Any], everything: str) -> None:
    """Refuse values that were not sent."""
    for value in values(turn):
        text = readable(json.dumps(value, ensure_ascii=False)).strip('"')
        if text not in everything:
            raise SystemExit(f"turn {turn['turn']}: {text!r} is nowhere in what was sent")


def values(turn: dict[str, Any]) -> Iterator[Any]:
    skipped = {
        "turn",
        "trace_ids",
        "span_count",
        "turn_index",
        "tokens",
        "rewrite_tokens",
        "score_kind",
        "missing",
    }
    for name, value in turn.items():
        if name in skipped or value is None or isinstance(value, bool):
            continue
        if name in {"retrieved", "reranked"}:
            yield from (
                row[key]
                for row in value
                for key in row
                if key not in {"rank", "score"} and row[key] is not None
            )
        elif isinstance(value, list):
            yield from value
        elif isinstance(value, dict):
            yield from (item for item in value.values() if item is not None)
        else:
            yield value
    for usage in (turn.get("tokens"), turn.get("rewrite_tokens")):
        yield from (usage or {}).values()
