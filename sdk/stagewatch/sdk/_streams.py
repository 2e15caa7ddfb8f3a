"""Streams handed through unchanged, piece by piece, while the answer is read along."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType
from typing import Any

from stagewatch.sdk._guard import guarded
from stagewatch.sdk._responses import Reply, read_reply

OnEnd = Callable[[Reply, BaseException | None], None]


class Reading:
    """Collects the pieces of one stream; `finish` tells the step once, however the stream ends."""

    __slots__ = ("_cap", "_done", "_on_end", "_parts", "_reply", "_size")

    def __init__(self, on_end: OnEnd, cap: int) -> None:
        self._on_end = on_end
        self._parts: list[str] = []
        self._size = 0
        self._cap = cap
        self._reply = Reply()
        self._done = False

    @guarded("read a piece of a stream")
    def piece(self, item: object) -> None:
        """Read one piece; text beyond the cap is counted but not kept."""
        part = read_reply(item)
        self._reply.merge(part)
        if part.text:
            if self._size <= self._cap:
                self._parts.append(part.text)
            self._size += len(part.text)

    @guarded("end a stream")
    def finish(self, error: BaseException | None) -> None:
        """Tell the step what was read. `error` is GeneratorExit when the reader stopped early."""
        if self._done:
            return
        self._done = True
        self._reply.text = "".join(self._parts)
        self._on_end(self._reply, error)


class StreamProxy:
    """Stands for a client library's stream: same pieces, same attributes, same `isinstance`.

    Iterating it reads along; everything else goes to the stream itself.
    """

    def __init__(self, stream: Any, reading: Reading) -> None:  # noqa: ANN401
        self._stagewatch_stream = stream
        self._stagewatch_reading = reading

    @property  # type: ignore[misc]  # read-only is what is wanted here
    def __class__(self) -> type:
        """The stream's own class, so that `isinstance` checks in the app hold."""
        return type(self._stagewatch_stream)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        """Whatever the stream has."""
        return getattr(self._stagewatch_stream, name)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:  # noqa: ANN401
        try:
            item = next(self._stagewatch_stream)
        except StopIteration:
            self._stagewatch_reading.finish(None)
            raise
        except BaseException as error:
            self._stagewatch_reading.finish(error)
            raise
        self._stagewatch_reading.piece(item)
        return item

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:  # noqa: ANN401
        try:
            item = await self._stagewatch_stream.__anext__()
        except StopAsyncIteration:
            self._stagewatch_reading.finish(None)
            raise
        except BaseException as error:
            self._stagewatch_reading.finish(error)
            raise
        self._stagewatch_reading.piece(item)
        return item

    def __enter__(self) -> StreamProxy:
        self._stagewatch_stream.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Any:  # noqa: ANN401
        self._stagewatch_reading.finish(error or GeneratorExit())
        return self._stagewatch_stream.__exit__(kind, error, trace)

    async def __aenter__(self) -> StreamProxy:
        await self._stagewatch_stream.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Any:  # noqa: ANN401
        self._stagewatch_reading.finish(error or GeneratorExit())
        return await self._stagewatch_stream.__aexit__(kind, error, trace)

    def close(self) -> Any:  # noqa: ANN401
        """Close the stream; what was read so far is the answer."""
        self._stagewatch_reading.finish(GeneratorExit())
        return self._stagewatch_stream.close()

    async def aclose(self) -> Any:  # noqa: ANN401
        """Close the stream; what was read so far is the answer."""
        self._stagewatch_reading.finish(GeneratorExit())
        return await self._stagewatch_stream.aclose()

    def __del__(self) -> None:
        # A stream dropped half way still ends its span.
        reading = self.__dict__.get("_stagewatch_reading")
        if reading is not None:
            reading.finish(GeneratorExit())


def is_stream(result: object) -> bool:
    """True for something that is read piece by piece and used up by reading."""
    kind = type(result)
    if kind is str or kind is list:
        return False
    return hasattr(kind, "__next__") or hasattr(kind, "__anext__")
