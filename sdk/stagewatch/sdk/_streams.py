"""Streams handed through unchanged, piece by piece, while they are read along."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from stagewatch.sdk._documents import read_piece
from stagewatch.sdk._guard import guarded
from stagewatch.sdk._mirror import Mirror, mirrored
from stagewatch.sdk._responses import Reply, read_reply


class Collecting(Protocol):
    """What a stage wants of the pieces of its stream. `complete` when no more can come."""

    complete: bool

    def add(self, item: object) -> None:
        """Take one piece."""


class Answer:
    """The text and the counts of a streamed answer; text beyond `cap` characters is counted."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._parts: list[str] = []
        self._reply = Reply()
        self.complete = False

    def add(self, item: object) -> None:
        """Take one piece of the answer."""
        self._add_reply(read_reply(item))

    def _add_reply(self, part: Reply | None) -> None:
        if part is None:
            return
        self._reply.merge(part)
        if part.text:
            if self._reply.length <= self._cap:
                self._parts.append(part.text)
            self._reply.length += len(part.text)

    def reply(self) -> Reply:
        """What was said in all."""
        # Pieces of another kind (bytes, events) are not an empty answer.
        self._reply.text = "".join(self._parts) if self._parts else None
        return self._reply


class Passages:
    """The documents that a retriever or reranker yields one by one."""

    complete = False

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def add(self, item: object) -> None:
        """Take one document, or a list of them."""
        self.rows += read_piece(item)


OnEnd = Callable[[Collecting, BaseException | None], None]


class Reading:
    """Reads one stream along; `finish` tells the stage once, however the stream ends."""

    __slots__ = ("_collecting", "_done", "_on_end")

    def __init__(self, on_end: OnEnd, collecting: Collecting) -> None:
        self._on_end = on_end
        self._collecting = collecting
        self._done = False

    @guarded("read a piece of a stream")
    def piece(self, item: object) -> None:
        """Read one piece."""
        self._collecting.add(item)

    @guarded("end a stream")
    def finish(self, error: BaseException | None) -> None:
        """Tell the stage what was read. `error` is GeneratorExit when the reader stopped early."""
        if self._done:
            return
        self._done = True
        if self._collecting.complete and isinstance(error, GeneratorExit):
            error = None
        self._on_end(self._collecting, error)

    def next(self, advance: Callable[[], Any]) -> Any:  # noqa: ANN401
        """The next piece from `advance`, read along."""
        try:
            item = advance()
        except BaseException as error:
            self.ended(error)
            raise
        self.piece(item)
        return item

    async def anext(self, advance: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401
        """`next` for an async stream."""
        try:
            item = await advance()
        except BaseException as error:
            self.ended(error)
            raise
        self.piece(item)
        return item

    def ended(self, error: BaseException) -> None:
        """Finish with what the stream raised, which may be its ordinary end."""
        self.finish(None if isinstance(error, (StopIteration, StopAsyncIteration)) else error)


class StreamProxy(Mirror):
    """Stands for the app's stream: same pieces, same attributes, same operators, same `isinstance`.

    Iterating it reads along; everything else goes to the stream itself.
    """

    __slots__ = ("_stagewatch_reading",)

    _stagewatch_reading: Reading

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        """Whatever the stream has; ways to go on or to end it are read along."""
        if name.startswith("_stagewatch"):
            raise AttributeError(name)
        value = getattr(self._stagewatch_inner, name)
        read = _READ_ALONG.get(name)
        return value if read is None or not callable(value) else read(self, value)

    def __copy__(self) -> Any:  # noqa: ANN401
        return copy.copy(self._stagewatch_inner)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:  # noqa: ANN401
        return copy.deepcopy(self._stagewatch_inner, memo)

    def __reduce_ex__(self, protocol: Any) -> Any:  # noqa: ANN401
        return self._stagewatch_inner.__reduce_ex__(protocol)

    def __del__(self) -> None:
        # A stream dropped half way still ends its span.
        self._stagewatch_reading.finish(GeneratorExit())


def _next(self: StreamProxy) -> Any:  # noqa: ANN401
    return self._stagewatch_reading.next(self._stagewatch_inner.__next__)


async def _anext(self: StreamProxy) -> Any:  # noqa: ANN401
    return await self._stagewatch_reading.anext(self._stagewatch_inner.__anext__)


def _itself(self: StreamProxy) -> StreamProxy:
    return self


def _exit(self: StreamProxy, *outcome: Any) -> Any:  # noqa: ANN401
    self._stagewatch_reading.finish(outcome[1] or GeneratorExit())
    return self._stagewatch_inner.__exit__(*outcome)


async def _aexit(self: StreamProxy, *outcome: Any) -> Any:  # noqa: ANN401
    self._stagewatch_reading.finish(outcome[1] or GeneratorExit())
    return await self._stagewatch_inner.__aexit__(*outcome)


_SPECIAL: dict[str, Callable[..., Any]] = {
    "__next__": _next,
    "__anext__": _anext,
    "__iter__": _itself,
    "__aiter__": _itself,
    "__exit__": _exit,
    "__aexit__": _aexit,
}


def _closing(proxy: StreamProxy, method: Callable[..., Any]) -> Callable[..., Any]:
    def close(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        proxy._stagewatch_reading.finish(GeneratorExit())  # noqa: SLF001 - same module
        return method(*args, **kwargs)

    return close


def _going_on(proxy: StreamProxy, method: Callable[..., Any]) -> Callable[..., Any]:
    def resume(*args: Any) -> Any:  # noqa: ANN401
        return proxy._stagewatch_reading.next(lambda: method(*args))  # noqa: SLF001 - same module

    return resume


def _going_on_later(proxy: StreamProxy, method: Callable[..., Any]) -> Callable[..., Any]:
    async def resume(*args: Any) -> Any:  # noqa: ANN401
        return await proxy._stagewatch_reading.anext(lambda: method(*args))  # noqa: SLF001

    return resume


_READ_ALONG = {
    "close": _closing,
    "aclose": _closing,
    "send": _going_on,
    "throw": _going_on,
    "asend": _going_on_later,
    "athrow": _going_on_later,
}


def stream_proxy(stream: object, reading: Reading) -> Any:  # noqa: ANN401
    """A stream that is `stream` to everybody and tells `reading` of every piece."""
    proxy = object.__new__(mirrored(StreamProxy, type(stream), _SPECIAL))
    object.__setattr__(proxy, "_stagewatch_inner", stream)
    object.__setattr__(proxy, "_stagewatch_reading", reading)
    return proxy


def is_stream(result: object) -> bool:
    """True for something that is read piece by piece and used up by reading."""
    kind = type(result)
    if kind is str or kind is list:
        return False
    return hasattr(kind, "__next__") or hasattr(kind, "__anext__")
