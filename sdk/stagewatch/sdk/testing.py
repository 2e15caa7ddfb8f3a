"""For your own tests: see what your app tells stagewatch, without a server.

from stagewatch.sdk.testing import capture

def test_the_bot_retrieves_before_it_answers():
    with capture() as captured:
        ask("How long is the warranty?")
    turn = captured.turn()
    assert turn.question == "How long is the warranty?"
    assert [d["id"] for d in turn.documents] == ["warranty#1"]
    assert turn.stages == ["retrieve", "generate"]
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

from stagewatch.sdk import semconv as key
from stagewatch.sdk._content import Content
from stagewatch.sdk._guard import guard
from stagewatch.sdk._runtime import SCOPE, runtime


class _Collecting(SpanProcessor):
    def __init__(self, spans: list[ReadableSpan]) -> None:
        self._spans = spans

    def on_start(self, span: object, parent_context: Context | None = None) -> None:
        """Nothing happens when a span opens."""

    def on_end(self, span: ReadableSpan) -> None:
        self._spans.append(span)


def _attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def _span_id(span: ReadableSpan) -> int:
    return span.context.span_id if span.context is not None else 0


@dataclass(frozen=True, slots=True)
class CapturedTurn:
    """One turn as the app told it. Lists are in order; absent things are None or empty."""

    root: ReadableSpan
    spans: tuple[ReadableSpan, ...]

    def _of(self, stage: str) -> list[dict[str, Any]]:
        found = [_attributes(span) for span in self.spans]
        return [attributes for attributes in found if attributes.get(key.STEP) == stage]

    def _documents(self, stage: str, name: str) -> list[dict[str, Any]]:
        return [
            row
            for attributes in self._of(stage)
            for row in json.loads(attributes.get(name) or "[]")
        ]

    @property
    def attributes(self) -> dict[str, Any]:
        """Everything on the turn's own span."""
        return _attributes(self.root)

    @property
    def stages(self) -> list[str]:
        """The stages in the order they started: rewrite, retrieve, rerank, generate."""
        ordered = sorted(self.spans, key=lambda span: span.start_time or 0)
        names = [_attributes(span).get(key.STEP) for span in ordered]
        return [str(name) for name in names if name not in {None, "turn"}]

    @property
    def question(self) -> str | None:
        """What the user asked."""
        return self.attributes.get(key.INPUT)

    @property
    def answer(self) -> str | None:
        """What the app answered."""
        return self.attributes.get(key.OUTPUT)

    @property
    def rewritten_query(self) -> str | None:
        """The query it became; None when it stayed the question."""
        return self.attributes.get(key.REWRITTEN_QUERY)

    @property
    def documents(self) -> list[dict[str, Any]]:
        """Every retrieved document: rank, id, content, score, …"""
        return self._documents("retrieve", key.DOCUMENTS)

    @property
    def reranked(self) -> list[dict[str, Any]]:
        """The documents as the reranker put them."""
        return self._documents("rerank", key.RERANK_DOCUMENTS)

    @property
    def context_ids(self) -> list[str]:
        """Ids of what was put in the prompt."""
        return [
            str(name)
            for attributes in self._of("generate")
            for name in attributes.get(key.CONTEXT_IDS, ())
        ]

    @property
    def error(self) -> str | None:
        """Type of the exception that ended the turn."""
        return self.attributes.get(key.ERROR_TYPE)


@dataclass(slots=True)
class Captured:
    """What was told while `capture` was active."""

    spans: list[ReadableSpan] = field(default_factory=list)

    @property
    def turns(self) -> list[CapturedTurn]:
        """Finished turns in the order they ended."""
        return [
            CapturedTurn(span, self._below(span))
            for span in self.spans
            if _attributes(span).get(key.STEP) == "turn"
        ]

    def turn(self) -> CapturedTurn:
        """The only turn.

        Raises:
            AssertionError: there was none, or there were several.
        """
        turns = self.turns
        if len(turns) != 1:
            raise AssertionError(f"{len(turns)} turns were captured, not one")
        return turns[0]

    def _below(self, root: ReadableSpan) -> tuple[ReadableSpan, ...]:
        inside = {_span_id(root)}
        found = []
        for span in sorted(self.spans, key=lambda span: span.start_time or 0):
            if span.parent is not None and span.parent.span_id in inside:
                inside.add(_span_id(span))
                found.append(span)
        return tuple(found)


def _enabled_provider() -> TracerProvider:
    """A provider that records although OTEL_SDK_DISABLED is set, as it often is where tests run."""
    disabled = os.environ.pop("OTEL_SDK_DISABLED", None)
    try:
        return TracerProvider(shutdown_on_exit=False)
    finally:
        if disabled is not None:
            os.environ["OTEL_SDK_DISABLED"] = disabled


@contextmanager
def capture(*, strict: bool = True, content: Content | None = None) -> Iterator[Captured]:
    """Collect what the app tells instead of sending it.

    Args:
        strict: Let mistakes of the SDK itself raise, so that a test sees them.
        content: Content settings to test with; everything is captured when None.
    """
    captured = Captured()
    # A provider of its own: your global one and its exporters are not touched.
    provider = _enabled_provider()
    provider.add_span_processor(_Collecting(captured.spans))
    before = (runtime.own_tracer, runtime.content, guard.reraise)
    runtime.use(provider.get_tracer(SCOPE))
    runtime.content = content or Content()
    guard.reraise = strict
    try:
        yield captured
    finally:
        tracer, runtime.content, guard.reraise = before
        runtime.use(tracer)
