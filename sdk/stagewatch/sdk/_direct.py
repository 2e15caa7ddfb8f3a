"""Spans without OpenTelemetry's bookkeeping, for the provider that is ours alone.

An SDK span locks, copies and checks each attribute for whoever may look at it while it is open.
When nobody but our own queue will ever see it, that is two thirds of what a stage costs on the
app's thread. These spans keep a plain dict and become a `ReadableSpan` when they end; to
everything else in the process they are ordinary API spans (parents, `get_current_span`, events).
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from stagewatch.sdk._attributes import OwnAttributes
from stagewatch.sdk._guard import guarded

_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_UNSET = Status(StatusCode.UNSET)
_SIMPLE = frozenset({str, int, float, bool, list, tuple, bytes})
_NOTHING_ELSE: tuple[()] = ()


class OwnProvider(TracerProvider):
    """The provider we make when the app has none. `alone` is True while our queue is its only
    processor and no environment variable asks for a sampler or limits of OpenTelemetry's SDK.
    """

    def __init__(
        self, processor: SpanProcessor, resource: Resource, environ: Mapping[str, str]
    ) -> None:
        super().__init__(resource=resource, shutdown_on_exit=False)
        self.alone = False
        super().add_span_processor(processor)
        self.alone = not any(
            name.startswith("OTEL_") and (name.endswith("_LIMIT") or "SAMPLER" in name)
            for name in environ
        )

    def add_span_processor(self, span_processor: SpanProcessor) -> None:
        """Add a processor of the app's: from now on spans are ordinary SDK spans."""
        self.alone = False
        super().add_span_processor(span_processor)


class DirectTracer:
    """Opens direct spans while `provider.alone`, SDK spans otherwise."""

    def __init__(self, provider: OwnProvider, processor: SpanProcessor, scope: str) -> None:
        self.provider = provider
        self.processor = processor
        self.scope = InstrumentationScope(scope)
        self._sdk = provider.get_tracer(scope)
        # Not the module's generator: an app that seeds it would repeat our ids, and each id taken
        # would change the numbers the app gets.
        self._random = random.Random()  # noqa: S311 - ids need to differ, not to be secret
        self._next = self._random.getrandbits

    def after_fork(self) -> None:
        """New ids in a child: it would repeat the parent's."""
        self._random.seed()

    def start_span(
        self, name: str, context: Context | None = None, kind: SpanKind = SpanKind.INTERNAL
    ) -> trace.Span:
        """A span below the one in `context`, the current one when None; a parent that is not
        sampled is followed.
        """
        if not self.provider.alone:
            return self._sdk.start_span(name, context, kind)
        parent: SpanContext | None = trace.get_current_span(context).get_span_context()
        if parent is not None and parent.is_valid:
            if not parent.trace_flags & TraceFlags.SAMPLED:
                return trace.NonRecordingSpan(parent)
            made = SpanContext(parent.trace_id, self._id(64), False, _SAMPLED, parent.trace_state)
        else:
            parent = None
            made = SpanContext(self._id(128), self._id(64), False, _SAMPLED)
        return DirectSpan(self, name, made, parent, kind)

    def _id(self, bits: int) -> int:
        return self._next(bits) or 1


class DirectSpan(trace.Span):
    """An open span that only our own queue will see."""

    def __init__(
        self,
        tracer: DirectTracer,
        name: str,
        context: SpanContext,
        parent: SpanContext | None,
        kind: SpanKind,
    ) -> None:
        self._tracer: DirectTracer | None = tracer
        self._name = name
        self._context = context
        self._parent = parent
        self._kind = kind
        self._attributes = OwnAttributes()
        self._events: list[Event] | tuple[()] = _NOTHING_ELSE
        self._status = _UNSET
        self._start = time.time_ns()

    def get_span_context(self) -> SpanContext:
        """Ids and flags of the span."""
        return self._context

    def is_recording(self) -> bool:
        """True until the span has ended."""
        return self._tracer is not None

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Add attributes of the types OpenTelemetry allows; others are left out."""
        self._attributes.update(
            {name: value for name, value in attributes.items() if type(value) in _SIMPLE}
        )

    def set_attribute(self, key: str, value: Any) -> None:  # noqa: ANN401
        """Add one attribute."""
        self.set_attributes({key: value})

    @guarded("add an event")
    def add_event(
        self,
        name: str,
        attributes: Any = None,  # noqa: ANN401
        timestamp: int | None = None,
    ) -> None:
        """Add an event."""
        self._events = [*self._events, Event(name, attributes, timestamp or time.time_ns())]

    def update_name(self, name: str) -> None:
        """Rename the span."""
        self._name = name

    def set_status(self, status: Any, description: str | None = None) -> None:  # noqa: ANN401
        """Set the status, from a `Status` or a code."""
        if isinstance(status, Status):
            self._status = status
        elif isinstance(status, StatusCode):
            self._status = Status(status, description)

    @guarded("record an exception")
    def record_exception(
        self,
        exception: BaseException,
        attributes: Any = None,  # noqa: ANN401
        timestamp: int | None = None,
        escaped: bool = False,  # noqa: FBT001 - OpenTelemetry's signature
    ) -> None:
        """Add the exception's type as an event; its text may be private and is not taken."""
        told = {"exception.type": type(exception).__qualname__, "exception.escaped": str(escaped)}
        self.add_event("exception", {**told, **(attributes or {})}, timestamp)

    @guarded("end a span")
    def end(self, end_time: int | None = None) -> None:
        """Hand the span to the queue, once."""
        tracer, self._tracer = self._tracer, None
        if tracer is None:
            return
        tracer.processor.on_end(
            ReadableSpan(
                name=self._name,
                context=self._context,
                parent=self._parent,
                resource=tracer.provider.resource,
                attributes=self._attributes,
                events=self._events,
                kind=self._kind,
                status=self._status,
                start_time=self._start,
                end_time=end_time or time.time_ns(),
                instrumentation_scope=tracer.scope,
            )
        )
