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

from opentelemetry import context as otel_context
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor

from stagewatch.sdk._guard import guard, guarded, quiet_here

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace.export import SpanExporter

MAX_QUEUE_SPANS = 4_096
MAX_BATCH_SPANS = 256
SEND_EVERY_S = 1.0
MAX_TRIES = 3
"""Times a batch is given to the exporter, which itself tries for its time-out (10 s) each time."""

EXIT_DEADLINE_S = 3.0
"""Longest the end of the app's process may wait for spans that are still on their way."""

EXIT_DEADLINE_FAILING_S = 0.5
"""The same when the collector did not take the last batch either."""

_SUPPRESS = "suppress_instrumentation"


class QueueProcessor(SpanProcessor):
    """Hands ended spans to an exporter that is made on the worker thread, so that the app does not
    pay for its import. Safe after fork: a child starts with an empty queue and its own thread.
    """

    def __init__(
        self,
        make_exporter: Callable[[], SpanExporter],
        *,
        max_queue: int = MAX_QUEUE_SPANS,
        send_every_s: float = SEND_EVERY_S,
    ) -> None:
        self._make_exporter = make_exporter
        self._max_queue = max_queue
        self._send_every_s = send_every_s
        self._stopped = False
        self._reset()

    def _reset(self) -> None:
        self._exporter: SpanExporter | None = None
        self._queue: deque[ReadableSpan] = deque()
        self._sending = 0
        self._failing = False
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
        self._queue.append(span)
        if self._thread is None:
            self._start()
        if len(self._queue) >= MAX_BATCH_SPANS:
            self._wake.set()

    def _start(self) -> None:
        with self._start_lock:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="stagewatch-sdk", daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    # The interpreter is shutting down: no thread can start any more.
                    self._stopped = True
                    return
                self._thread = thread

    def _run(self) -> None:
        # The exporter's own requests must not become spans, nor its retries lines in the app's log.
        otel_context.attach(otel_context.set_value(_SUPPRESS, True))
        quiet_here()
        while not self._stopped:
            self._wake.wait(self._send_every_s)
            self._wake.clear()
            self._send_all()
        self._send_all()

    def _send_all(self) -> None:
        while self._queue:
            batch: list[ReadableSpan] = []
            # Counted before they leave the queue, so that `force_flush` never sees none of them.
            self._sending = MAX_BATCH_SPANS
            while self._queue and len(batch) < MAX_BATCH_SPANS:
                batch.append(self._queue.popleft())
            self._sending = len(batch)
            self._send(batch)
            self._sending = 0

    @guarded("send spans")
    def _send(self, batch: list[ReadableSpan]) -> None:
        from opentelemetry.sdk.trace.export import SpanExportResult  # noqa: PLC0415 - see class

        if self._exporter is None:
            self._exporter = self._make_exporter()
        for _ in range(MAX_TRIES):
            if self._exporter.export(batch) is SpanExportResult.SUCCESS:
                self._failing = False
                return
            self._failing = True
            if self._stopped:
                break
        guard.count(
            "not_sent",
            "lost %d spans: the collector did not take them",
            len(batch),
            by=len(batch),
        )

    def force_flush(self, timeout_millis: int = 10_000) -> bool:
        """Wait until everything queued so far was sent or given up; False on time-out."""
        deadline = time.monotonic() + timeout_millis / 1000
        while self._queue or self._sending:
            if time.monotonic() >= deadline or self._thread is None:
                return False
            self._wake.set()
            time.sleep(0.005)
        return True

    def shutdown(self) -> None:
        """Send what is queued for at most `EXIT_DEADLINE_S`, then stop. Later spans are ignored."""
        if self._stopped:
            return
        self._stopped = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(EXIT_DEADLINE_FAILING_S if self._failing else EXIT_DEADLINE_S)
        exporter, self._exporter = self._exporter, None
        left = len(self._queue) + self._sending
        if left and self._thread is not None and self._thread.is_alive():
            guard.count("exit", "ended with %d spans unsent", left, by=left)
        if exporter is not None:
            exporter.shutdown()
