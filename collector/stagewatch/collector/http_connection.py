"""One HTTP/1.1 connection of the OTLP receiver.

A protocol of our own on httptools instead of a web framework: bodies of megabytes are received
straight into one buffer, and a 512-span request costs microseconds rather than a stack of layers.
Requests of a connection are served one after the other; while one is served, nothing is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httptools

from stagewatch.collector.http_parse import ChunkReader, Head, parse_head
from stagewatch.collector.refusal import RefusedError, bad_request, overloaded, too_large

MAX_HEAD = 64 << 10
KEEP_BYTES = 64 << 20
LINGER_BYTES = 256 << 20
LINGER_SECONDS = 5.0
_SCRATCH = 256 << 10
_WHOLE_BUFFER = 8 << 20


class Budget:
    """Bytes of bodies that all connections hold together, bounded."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        # Heads and chunks are read into it and taken out at once, so one serves all connections.
        self.scratch = bytearray(_SCRATCH)
        self._kept = 0

    def take(self, size: int) -> None:
        """Raise a 503 refusal when `size` more bytes would be too many."""
        if self.used + size > self.limit:
            raise overloaded("too many large requests at once", 1)
        self.used += size

    def give(self, size: int) -> None:
        """Return bytes taken."""
        self.used -= size

    def keep(self, buffer: bytearray | None) -> bytearray | None:
        """The buffer, to be used again, when not too much is kept already; else None."""
        if buffer is None or self._kept + len(buffer) > KEEP_BYTES:
            return None
        self._kept += len(buffer)
        return buffer

    def reuse(self, buffer: bytearray | None) -> None:
        """Tell that a kept buffer is in use again, or gone."""
        self._kept -= len(buffer) if buffer is not None else 0


Serve = Callable[["Connection", Head, RefusedError | None], Awaitable[None]]
"""Answers one request; with a RefusedError the head could not be read and that is the answer."""


class Connection(asyncio.BufferedProtocol):
    """Reads requests and hands each head to `serve`, which asks for the body and answers."""

    def __init__(
        self, serve: Serve, budget: Budget, connections: set[Connection], *, most: int
    ) -> None:
        self._serve = serve
        self._budget = budget
        self._connections = connections
        self._most = most
        self._loop = asyncio.get_running_loop()
        self.transport: Any = None
        self.active_at = self._loop.time()
        self.busy: asyncio.Task[None] | None = None
        self._scratch = budget.scratch
        self._head = bytearray()
        self._raw_head = b""
        self._body: bytearray | None = None
        self._kept: bytearray | None = None
        # The body in the hands of `serve`: free to be used again once that returns.
        self._received: bytearray | None = None
        self._filled = 0
        self._wanted = 0
        self._chunks: ChunkReader | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._taken = 0
        self._eof = False
        self._lingering = 0
        self.unread = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop. Beyond `most` connections there is not even an answer."""
        self.transport = transport
        self._connections.add(self)
        if len(self._connections) > self._most:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the loop's signature
        """Called by the loop."""
        self._connections.discard(self)
        self._budget.reuse(self._kept)
        self._kept = None
        self._budget.give(self._taken)
        self._taken = 0
        if self._waiter is not None and not self._waiter.done():
            self._waiter.cancel()

    def eof_received(self) -> bool:
        """Called by the loop; a half-closed client still gets its answer."""
        self._eof = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.cancel()
            return False
        return self.busy is not None

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the loop's signature
        """Called by the loop: where the next bytes go."""
        if self._body is None or self._waiter is None:
            return memoryview(self._scratch)
        if self._filled == len(self._body):
            # Grown as it fills: a Content-Length alone must not cost its size in memory.
            grow = min(self._wanted - self._filled, max(_WHOLE_BUFFER, self._filled))
            try:
                self._take(grow)
            except RefusedError as refused:
                self._finish_body(refused)
                return memoryview(self._scratch)
            self._body = self._body + bytearray(grow)
        return memoryview(self._body)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Called by the loop: so many bytes came."""
        self.active_at = self._loop.time()
        if self._lingering:
            self._lingering = max(0, self._lingering - nbytes)
            if not self._lingering:
                self.transport.abort()
            return
        if self._waiter is not None and self._waiter.done():
            return
        if self._waiter is not None and self._body is not None:
            self._filled += nbytes
            if self._filled == self._wanted:
                self._finish_body()
        elif self._waiter is not None and self._chunks is not None:
            self._feed_chunks(bytes(self._scratch[:nbytes]))
        else:
            self._head += self._scratch[:nbytes]
            self._next_request()

    def _next_request(self) -> None:
        if self.busy is not None:
            # Bytes that came before reading was paused wait in `_head`.
            return
        end = self._head.find(b"\r\n\r\n")
        if end < 0:
            if len(self._head) > MAX_HEAD:
                self._start(Head(), RefusedError(431, 3, "head_too_large", "the head is too large"))
            return
        self._raw_head = bytes(self._head[: end + 4])
        del self._head[: end + 4]
        try:
            head = parse_head(self._raw_head)
        except RefusedError as refused:
            self._start(Head(), refused)
            return
        self._start(head, None)

    def _start(self, head: Head, refused: RefusedError | None) -> None:
        self.transport.pause_reading()
        self.unread = refused is not None or head.length != 0
        self.busy = self._loop.create_task(self._run(head, refused))

    async def _run(self, head: Head, refused: RefusedError | None) -> None:
        try:
            await self._serve(self, head, refused)
        except asyncio.CancelledError:
            # The client went away in the middle of its body.
            self.transport.close()
            return
        finally:
            self._budget.give(self._taken)
            self._taken = 0
            if not self.transport.is_closing():
                self._kept = self._budget.keep(self._received)
            self._body = self._received = self._waiter = self._chunks = None
            self.busy = None
        if self.transport.is_closing():
            return
        if self.unread and not self._eof:
            self._linger()
            return
        if self._eof or not head.keep_alive:
            self.transport.close()
            return
        self.transport.resume_reading()
        self._next_request()

    @property
    def can_read(self) -> bool:
        """True when the body of the request being served has not been asked for."""
        return self._waiter is None

    def overdue(self, now: float, *, idle_s: float, progress_s: float) -> bool:
        """True when a request's bytes stopped coming, or nothing was asked for too long."""
        quiet = now - self.active_at
        if self.busy is not None:
            return self._waiter is not None and quiet > progress_s
        return quiet > (progress_s if self._head else idle_s)

    def _linger(self) -> None:
        """Close, but read on for a while: a client that is still sending would see its connection
        reset and never read the answer.
        """
        self._lingering = LINGER_BYTES
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.transport.resume_reading()
        self._loop.call_later(LINGER_SECONDS, self.transport.abort)

    def write(self, data: bytes) -> None:
        """Send an answer."""
        if not self.transport.is_closing():
            self.transport.write(data)

    async def read_body(self, head: Head, limit: int) -> bytearray:
        """The body of the request being served.

        Raises:
            RefusedError: 413 when it is over `limit` bytes, 503 when too much is held already.
        """
        if head.length is not None and head.length > limit:
            raise too_large(f"the body is larger than {limit} bytes")
        if head.headers.get("expect", "").lower() == "100-continue":
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if head.length == 0:
            return bytearray()
        self._waiter = self._loop.create_future()
        if head.length is None:
            self._chunks = ChunkReader(self._raw_head, limit)
            following, self._head = bytes(self._head), bytearray()
            self._feed_chunks(following)
        else:
            self._wanted = head.length
            early = self._head[: self._wanted]
            del self._head[: self._wanted]
            self._body = self._buffer(min(self._wanted, max(_WHOLE_BUFFER, len(early))))
            self._body[: len(early)] = early
            self._filled = len(early)
            if self._filled == self._wanted:
                self._finish_body()
        if not self._waiter.done():
            self.transport.resume_reading()
        await self._waiter
        return self._gathered()

    def _buffer(self, size: int) -> bytearray:
        """A buffer of `size` bytes: the one of the last request where there is one. Requests of a
        sender are alike, and fresh megabytes cost page faults and zeroing.
        """
        self._take(size)
        buffer, self._kept = self._kept, None
        self._budget.reuse(buffer)
        if buffer is None:
            return bytearray(size)
        if len(buffer) < size:
            buffer.extend(bytes(size - len(buffer)))
        del buffer[size:]
        return buffer

    def _take(self, size: int) -> None:
        self._budget.take(size)
        self._taken += size

    def _feed_chunks(self, data: bytes) -> None:
        reader = self._chunks
        if reader is None or not data:
            return
        try:
            self._take(len(data))
            reader.feed(data)
        except RefusedError as refused:
            self._finish_body(refused)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._finish_body(bad_request("the chunked body is malformed"))
        if reader.too_much:
            self._finish_body(too_large(f"the body is larger than {reader.limit} bytes"))
        elif reader.done:
            self._finish_body()

    def _finish_body(self, refused: RefusedError | None = None) -> None:
        self.transport.pause_reading()
        if self._waiter is None or self._waiter.done():
            return
        if refused is None:
            self._waiter.set_result(None)
        else:
            self._waiter.set_exception(refused)

    def _gathered(self) -> bytearray:
        if self._chunks is not None:
            # What follows a chunked body in the same read cannot be told apart any more.
            self.unread = self._chunks.more_follows
            body = self._chunks.body
        else:
            self.unread = False
            body = self._body if self._body is not None else bytearray()
            self._received = body
        self._body = self._waiter = self._chunks = None
        return body
