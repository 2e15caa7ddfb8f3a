"""The base of all stages: a span that opens, takes what the app hands it, and ends exactly once.

Nothing here may raise into the app: every method that does work of ours is `guarded`, and the
app's own code (the body of a `with`) never runs under the guard.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, Self, TypeVar, cast

from opentelemetry import context as otel_context
from opentelemetry.context import Context
from opentelemetry.trace import (
    INVALID_SPAN,
    Span,
    SpanKind,
    Status,
    StatusCode,
    set_span_in_context,
)

from stagewatch.sdk import semconv as key
from stagewatch.sdk._attributes import NONE, Attributes, put, utf8, well_formed
from stagewatch.sdk._content import Notes, admit
from stagewatch.sdk._guard import guarded
from stagewatch.sdk._plain import plain_text
from stagewatch.sdk._responses import Reply
from stagewatch.sdk._runtime import runtime
from stagewatch.sdk._streams import Answer, Collecting, Reading, is_stream, stream_proxy

if TYPE_CHECKING:
    from stagewatch.sdk._turn import Turn

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")

current_turn: ContextVar[Turn | None] = ContextVar("stagewatch_turn", default=None)

_MAX_ERROR = 1_000


def named(word: str, value: object) -> str:
    """A span's name: the word, and what it is about if that is given."""
    text = "" if value is None else plain_text(value)
    return f"{word} {text}" if text else word


class Step:
    """One stage of a turn, as a `with` block, an `async with` block or a decorator."""

    _kind: ClassVar[SpanKind] = SpanKind.INTERNAL
    _fixed: ClassVar[dict[str, Any]] = {}
    """What each such stage says: like `_shared`, it is well-formed as it stands."""
    _told: ClassVar[Mapping[str, str]] = {}
    """The attributes that options go into as they are."""

    # Until a stage says otherwise: most never say it, and each word would cost the app's thread.
    _span: Span = INVALID_SPAN
    _live = False
    _token: Token[Any] | None = None
    _turn: Turn | None = None
    _shared: Attributes = NONE
    _reading: Reading | None = None
    _left = False
    _held = False

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        self._name = name
        self._options = options
        self._attributes: dict[str, Any] = {}
        self._notes = Notes()

    @property
    def trace_id(self) -> str:
        """32 hex digits: what `feedback` and the UI know this turn's trace by."""
        return f"{self._span.get_span_context().trace_id:032x}"

    @property
    def span_id(self) -> str:
        """16 hex digits of this stage's span."""
        return f"{self._span.get_span_context().span_id:016x}"

    def record(self, result: T) -> T:
        """Note `result` as this stage's result and give it back unchanged.

        A stream comes back as one that yields the same pieces; the stage then ends with it.
        """
        if self._live:
            if is_stream(result):
                wrapped = self._follow(result)
                if wrapped is not None:
                    return cast("T", wrapped)
            else:
                self._take(result)
        return result

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave(error)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave(error)

    def __call__(self, func: Callable[P, R]) -> Callable[P, R]:
        """Decorate `func`: each call is one such stage."""
        from stagewatch.sdk._wrap import wrap_function  # noqa: PLC0415 - it needs Step itself

        return wrap_function(self, func)

    # -- for decorators ----------------------------------------------------------------------

    def _fresh(self, arguments: dict[str, Any]) -> Step:
        """A new stage with this one's options for one call of a decorated function."""
        raise NotImplementedError

    # -- opening and ending ------------------------------------------------------------------

    @guarded("open a stage")
    def _open(self) -> None:
        turn = self._turn = current_turn.get()
        self._shared = NONE if turn is None else turn.shared
        # Handed on, or OpenTelemetry would ask for it four times.
        context = otel_context.get_current()
        name = self._name if self._name.isascii() else utf8(self._name)
        self._span = runtime.tracer().start_span(name, context, self._kind)
        self._live = self._span.is_recording()
        self._attach(context)
        if self._live:
            try:
                self._begin()
            except (KeyboardInterrupt, SystemExit) as error:
                # The block is never entered, and so never left.
                self._leave(error)
                raise

    def _begin(self) -> None:
        """First words of a subclass, once its span is open."""

    def _attach(self, context: Context | None = None) -> None:
        self._token = otel_context.attach(set_span_in_context(self._span, context))

    def _detach(self) -> None:
        token, self._token = self._token, None
        if token is None:
            return
        # Not otel_context.detach: that logs an error when an async generator is finished in
        # another context than it was started in, which is ordinary.
        try:  # noqa: SIM105 - suppress() costs a microsecond on the app's thread
            token.var.reset(token)
        except ValueError:
            pass

    @guarded("leave a stage")
    def _leave(self, error: BaseException | None) -> None:
        self._detach()
        if self._held and error is None:
            return
        self._left = True
        if self._reading is not None and error is None:
            return
        self._finish(error)

    def _finish(self, error: BaseException | None) -> None:
        span = self._span
        if not self._live:
            span.end()
            return
        self._live = False
        attributes, notes = self._attributes, self._notes
        try:
            if error is not None:
                self._fail(error)
            self._complete()
            told = self._told
            for name, value in self._options.items():
                if value is not None and name in told:
                    attributes[told[name]] = value
            if notes.cut:
                attributes[key.CUT] = notes.cut
            if notes.redacted:
                attributes[key.REDACTED] = notes.redacted
            put(span, well_formed(attributes), self._shared, self._fixed)
        finally:
            span.end()

    def _complete(self) -> None:
        """Last words of a subclass before its attributes are written."""

    @guarded("note an error")
    def _fail(self, error: BaseException) -> None:
        if isinstance(error, GeneratorExit):
            self._attributes[key.STREAM_CLOSED_EARLY] = True
            return
        kind = type(error).__qualname__
        self._attributes[key.ERROR_TYPE] = kind
        text = admit(runtime.content, "error", "status.message", error, self._notes, _MAX_ERROR)
        told = utf8(f"{kind}: {text}" if text else kind)
        self._span.set_status(Status(StatusCode.ERROR, told))

    # -- results -----------------------------------------------------------------------------

    @guarded("record a result")
    def _take(self, result: object) -> None:
        raise NotImplementedError

    @guarded("follow a stream")
    def _follow(self, stream: object) -> object:
        self._reading = Reading(self._streamed, self._collecting())
        return cast("object", stream_proxy(stream, self._reading))

    def _collecting(self) -> Collecting:
        """What this stage reads of a stream."""
        return Answer(self._answer_cap())

    @staticmethod
    def _answer_cap() -> int:
        content = runtime.content
        # A hash of a beginning would not be the hash of the text.
        return content.max_text if content.answer == "on" else sys.maxsize

    def _streamed(self, collected: Collecting, error: BaseException | None) -> None:
        self._reading = None
        if not self._live:
            return
        self._take_collected(collected, error)
        if self._left:
            self._finish(error)
        elif error is not None and not isinstance(error, GeneratorExit):
            self._fail(error)

    def _take_collected(self, collected: Collecting, error: BaseException | None) -> None:  # noqa: ARG002 - for subclasses
        if isinstance(collected, Answer):
            self._take_reply(collected.reply())

    def _take_reply(self, reply: Reply) -> None:
        if reply.text is not None:
            self._take(reply.text)

    # -- attributes --------------------------------------------------------------------------

    def _put(self, name: str, value: Any) -> None:  # noqa: ANN401
        if value is not None:
            self._attributes[name] = value

    def _put_text(self, field: str, name: str, text: object, length: int = 0) -> None:
        if text is not None:
            shown = admit(runtime.content, field, name, text, self._notes, length=length)
            self._put(name, shown)
