"""Request bodies for the ingest bench: the three kinds whose cost per span is reported.

plain: 10 short attributes, about 325 bytes a span. retr: a retrieval span with 10 chunks of about
800 characters as flattened keys, 46 attributes, about 10.6 kB. ragmix: traces of 5 spans (three
plain, one retrieval, one model call), about 3.3 kB a span.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

KINDS = ("plain", "ragmix", "retr")
_CHUNKS = 2000
_NAMES = ("GET /items", "SELECT items", "cache.get", "queue.publish", "render")
_SYLLABLES = [
    "ka",
    "ti",
    "on",
    "er",
    "re",
    "st",
    "al",
    "in",
    "en",
    "at",
    "or",
    "is",
    "ar",
    "an",
    "te",
    "ing",
    "ed",
    "es",
    "de",
    "co",
    "pro",
    "con",
    "ment",
    "tion",
    "ly",
]
_RESOURCE = {
    "service.name": "rag-api",
    "service.version": "1.4.2",
    "deployment.environment.name": "prod",
    "telemetry.sdk.language": "python",
    "host.name": "node-17",
    "k8s.pod.name": "rag-api-7c9f-abcde",
}


class Payloads:
    """Makes bodies; the same `seed` makes the same texts, ids are always new."""

    def __init__(self, seed: int = 11) -> None:
        self._chance = random.Random(seed)
        words = {
            "".join(
                self._chance.choice(_SYLLABLES) for _ in range(self._chance.choice((1, 2, 3, 4)))
            )
            for _ in range(24_000)
        }
        self._words = sorted(words)
        self._weights = [1 / (rank + 1) ** 1.05 for rank in range(len(self._words))]
        self._chunks = [
            self._text(int(800 * (0.7 + 0.6 * self._chance.random()))) for _ in range(_CHUNKS)
        ]
        self._questions = [self._text(60) for _ in range(500)]

    def _text(self, size: int) -> str:
        return " ".join(self._chance.choices(self._words, self._weights, k=size // 5 + 8))[:size]

    def bodies(self, kind: str, spans: int, requests: int) -> list[bytes]:
        """`requests` bodies of `spans` spans each."""
        serial = 0
        made = []
        start = time.time_ns() - 3600 * 10**9
        for _ in range(requests):
            request = ExportTraceServiceRequest()
            entry = request.resource_spans.add()
            for key, value in _RESOURCE.items():
                _set(entry.resource.attributes, key, value)
            group = entry.scope_spans.add()
            group.scope.name = "bench"
            group.scope.version = "1"
            trace, root = os.urandom(16), os.urandom(8)
            for number in range(spans):
                if number % 5 == 0:
                    trace, root = os.urandom(16), os.urandom(8)
                span = group.spans.add(
                    trace_id=trace,
                    span_id=os.urandom(8) if number % 5 else root,
                    parent_span_id=root if number % 5 else b"",
                    kind=1,
                    start_time_unix_nano=start + serial * 1_000_000,
                )
                took = self._chance.randrange(10**6, 3 * 10**9)
                span.end_time_unix_nano = span.start_time_unix_nano + took
                span.status.code = 1
                self._maker(kind, number)(span, serial)
                serial += 1
            made.append(request.SerializeToString())
        return made

    def _maker(self, kind: str, number: int) -> Callable[[Any, int], None]:
        if kind == "plain" or (kind == "ragmix" and number % 5 not in (2, 4)):
            return self._plain
        return self._model if kind == "ragmix" and number % 5 == 4 else self._retrieval

    def _plain(self, span: Any, i: int) -> None:
        span.name = _NAMES[i % 5]
        for key, value in (
            ("http.request.method", "GET"),
            ("http.response.status_code", 200),
            ("url.path", f"/items/{i % 997}"),
            ("server.address", f"10.0.{i % 8}.{i % 250}"),
            ("server.port", 8080),
            ("user.id", f"u{i * 40503 % 20000}"),
            ("db.system", "postgresql"),
            ("thread.id", i % 64),
            ("app.cache_hit", i % 3 == 0),
            ("app.cost", i % 100 / 10),
        ):
            _set(span.attributes, key, value)

    def _retrieval(self, span: Any, i: int) -> None:
        span.name = "retriever.search"
        for key, value in (
            ("openinference.span.kind", "RETRIEVER"),
            ("input.value", self._questions[i % 500]),
            ("rag.top_k", 10),
            ("rag.index", f"docs-v{i % 4}"),
            ("session.id", f"s{i % 5000}"),
            ("user.id", f"u{i % 2000}"),
        ):
            _set(span.attributes, key, value)
        for rank in range(10):
            which = self._chance.randrange(_CHUNKS)
            at = f"retrieval.documents.{rank}.document."
            _set(span.attributes, at + "id", f"doc-{which // 12:04d}#{which % 12}")
            _set(span.attributes, at + "content", self._chunks[which])
            score = round(0.95 - rank * 0.04 + self._chance.random() * 0.01, 4)
            _set(span.attributes, at + "score", score)
            source = f'{{"source":"kb/{which // 12:04d}.md","page":{which % 40}}}'
            _set(span.attributes, at + "metadata", source)

    def _model(self, span: Any, i: int) -> None:
        span.name = "llm.chat"
        prompt = " ".join(self._chunks[self._chance.randrange(_CHUNKS)] for _ in range(5))
        for key, value in (
            ("openinference.span.kind", "LLM"),
            ("llm.model_name", ("small", "large", "huge")[i % 3]),
            ("llm.token_count.prompt", 2000 + i % 900),
            ("llm.token_count.completion", i % 600),
            ("llm.token_count.total", 2600),
            ("session.id", f"s{i % 5000}"),
            ("input.value", prompt),
            ("output.value", self._chunks[i % _CHUNKS]),
        ):
            _set(span.attributes, key, value)


def _set(attributes: Any, key: str, value: bool | int | float | str) -> None:
    pair = attributes.add()
    pair.key = key
    if isinstance(value, bool):
        pair.value.bool_value = value
    elif isinstance(value, int):
        pair.value.int_value = value
    elif isinstance(value, float):
        pair.value.double_value = value
    else:
        pair.value.string_value = value
