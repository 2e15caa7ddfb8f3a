"""What `configure` set up: the tracer, the content settings, where feedback goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from opentelemetry import trace
from opentelemetry.context import Context

from stagewatch.sdk._content import Content

if TYPE_CHECKING:
    from stagewatch.sdk._feedback import FeedbackSender

SCOPE = "stagewatch.sdk"
DEFAULT_APP = "rag"
EXIT_DEADLINE_S = 3.0
"""Longest the end of the app's process may wait for what is still on its way."""


class Opener(Protocol):
    """What stages need of a tracer."""

    def start_span(
        self, name: str, context: Context | None = ..., kind: trace.SpanKind = ...
    ) -> trace.Span:
        """An open span below the one in `context`, the current one when None."""
        ...


class Runtime:
    """One per process. Before `configure` the tracer is whatever provider the app has set."""

    def __init__(self) -> None:
        self.content = Content()
        self.app_name = DEFAULT_APP
        self.sender: FeedbackSender | None = None
        self.own_tracer: Opener | None = None

    def tracer(self) -> Opener:
        """The tracer every stage opens its span with."""
        if self.own_tracer is None:
            # Not kept: the app may set its provider later.
            return trace.get_tracer(SCOPE)
        return self.own_tracer

    def use(self, tracer: Opener | None) -> None:
        """Open later spans with `tracer`; None goes back to the app's global provider."""
        self.own_tracer = tracer


runtime = Runtime()
