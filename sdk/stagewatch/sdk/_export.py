"""From ended spans to the collector: a bounded queue and one background thread.

`on_end` appends to a deque and returns: the app never waits for the network. What does not fit
is dropped, counted and reported at most once a minute.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor

from stagewatch.sdk._attributes import bytes_of
from stagewatch.sdk._guard import guard, guarded, quiet_here
from stagewatch.sdk._runtime import EXIT_DEADLINE_S

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace.export import SpanExporter

MAX_QUEUE_SPANS = 4_096
MAX_BATCH_SPANS = 256
SEND_EVERY_S = 1.0
MAX_QUEUE_BYTES = 64 << 20
"""What may wait in all: an app whose collector is away must not run out of memory."""

MAX_BATCH_BYTES = 8 << 20
"""Of one request, and so of one span: collectors take tens of megabytes at the most."""

EXIT_DEADLINE_FAILING_S = 0.5
"""Instead of `EXIT_DEADLINE_S` when the last try to send failed."""


def _is_root(span: ReadableSpan) -> bool:
    return span.parent is None or span.parent.is_remote


class QueueProcessor(SpanProcessor):
    """Hands ended spans to an exporter that is made on the worker thread, so that the app does not
    pay for its import. Safe after fork: a child starts with an empty queue and its own thread,
    before which `at_start` is called: True says that the process may be ended without a word, and
    then a trace is sent as soon as its root has ended.
    """

    def __init__(
        self,
        make_exporter: Callable[[], SpanExporter],
        *,
        max_queue: int = MAX_QUEUE_SPANS,
        max_queue_bytes: int = MAX_QUEUE_BYTES,
        max_batch_bytes: int = MAX_BATCH_BYTES,
        at_start: Callable[[], bool] = lambda: False,
        send_every_s: float = SEND_EVERY_S,
    ) -> None:
        self._make_exporter = make_exporter
        self._max_queue = max_queue
        self._max_queue_bytes = max_queue_bytes
        self._max_batch_bytes = max_batch_bytes
        self._at_start = at_start
        self._send_every_s = send_every_s
        self._stopped = False
        self._given_up = False
        self._reset()

    def _reset(self) -> None:
        self._exporter: SpanExporter | None = None
        self._queue: deque[tuple[ReadableSpan, int]] = deque()
        # About: app threads add without a lock, and each batch counts anew.
        self._bytes = 0
        self._sending = 0
        self._in_haste = False
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        # Guards the start of the worker thread only.
        self._start_lock = threading.Lock()

    def after_fork(self) -> None:
        """Start over in a child: the parent sends what it queued, twice would double it."""
        self._reset()

    def on_start(self, span: object, parent_context: Context | None = None) -> None:
        """Nothing happens when a span opens."""

    @guarded("queue a span")
    def on_end(self, span: ReadableSpan) -> None:
        """Queue an ended, sampled span; drop and count it when the queue is full."""
        if self._stopped or span.context is None or not span.context.trace_flags.sampled:
            return
        if len(self._queue) >= self._max_queue:
            guard.count("queue_full", "dropped a span: %d are waiting to be sent", self._max_queue)
            return
        size = bytes_of(span)
        if size > self._max_batch_bytes:
            guard.count("too_large", "dropped a span of %d bytes: too large to be sent", size)
            return
        if self._bytes + size > self._max_queue_bytes:
            guard.count("queue_full", "dropped a span: %d bytes wait to be sent", self._bytes)
            return
        self._queue.append((span, size))
        self._bytes += size
        if self._thread is None:
            self._start()
        if len(self._queue) >= MAX_BATCH_SPANS or (self._in_haste and _is_root(span)):
            self._wake.set()

    def _start(self) -> None:
        with self._start_lock:
            if self._thread is None:
                self._in_haste = self._at_start()
                thread = threading.Thread(target=self._run, name="stagewatch-sdk", daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    # The interpreter is shutting down: no thread can start any more.
                    self._stopped = True
                    return
                self._thread = thread

    def _run(self) -> None:
        quiet_here()
        while not self._stopped:
            self._wake.wait(self._send_every_s)
            self._wake.clear()
            self._send_all()
        self._send_all()

    def _send_all(self) -> None:
        while self._queue:
            # Counted before they leave the queue, so that `force_flush` never sees none of them.
            self._sending = MAX_BATCH_SPANS
            batch = self._next_batch()
            self._sending = len(batch)
            self._bytes = sum([size for _, size in self._queue.copy()])
            lost = self._send(batch)
            if self._given_up:
                return
            if lost is None or lost:
                self._count_lost(len(batch), lost or "an error of our own")
            self._sending = 0

    def _next_batch(self) -> list[ReadableSpan]:
        batch: list[ReadableSpan] = []
        left = self._max_batch_bytes
        while self._queue and len(batch) < MAX_BATCH_SPANS and self._queue[0][1] <= left:
            span, size = self._queue.popleft()
            batch.append(span)
            left -= size
        return batch

    def _count_lost(self, spans: int, reason: str) -> None:
        message = "lost %d spans: the collector did not take them (%s)"
        guard.count("not_sent", message, spans, reason, by=spans)

    @guarded("send spans")
    def _send(self, batch: list[ReadableSpan]) -> str:
        """Why the batch was lost; empty when it was not. The exporter tries again, not we."""
        from opentelemetry.sdk.trace.export import SpanExportResult  # noqa: PLC0415 - see class

        if self._exporter is None:
            try:
                self._exporter = self._make_exporter()
            except OSError as error:
                return f"certificates: {type(error).__name__}"
        if self._exporter.export(batch) is SpanExportResult.SUCCESS:
            return ""
        return self._trouble() or "refused"

    def _trouble(self) -> str:
        return getattr(self._exporter, "trouble", "")

    def force_flush(self, timeout_millis: int = 10_000) -> bool:
        """Wait until everything queued so far was sent or given up; False on time-out."""
        deadline = time.monotonic() + timeout_millis / 1000
        while self._queue or self._sending:
            if time.monotonic() >= deadline or self._thread is None:
                return False
            self._wake.set()
            time.sleep(0.005)
        return True

    def _wait_for(self, thread: threading.Thread) -> None:
        began = time.monotonic()
        while thread.is_alive():
            # Asked again and again: the first try may fail while we wait.
            limit_s = EXIT_DEADLINE_FAILING_S if self._trouble() else EXIT_DEADLINE_S
            left_s = began + limit_s - time.monotonic()
            if left_s <= 0:
                return
            thread.join(min(left_s, 0.05))

    def shutdown(self) -> None:
        """Send what is queued for at most `EXIT_DEADLINE_S`, then stop. Later spans are ignored."""
        if self._stopped:
            return
        self._stopped = True
        self._wake.set()
        if self._thread is not None:
            self._wait_for(self._thread)
        left = len(self._queue) + self._sending
        if left and self._thread is not None and self._thread.is_alive():
            self._given_up = True
            guard.count("exit", "ended with %d spans unsent", left, by=left)
        if self._exporter is not None:
            self._exporter.shutdown()
