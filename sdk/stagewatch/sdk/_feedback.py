"""Feedback by trace id, from anywhere: the same process, another one, days later."""

from __future__ import annotations

import json
import os
import queue
import threading
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from stagewatch.sdk._guard import guard, guarded, quiet_here

if TYPE_CHECKING:
    from stagewatch.sdk._http import Poster

FeedbackKind = Literal["thumbs_up", "thumbs_down", "escalated", "disputed", "corrected"]
KINDS: frozenset[str] = frozenset(
    {"thumbs_up", "thumbs_down", "escalated", "disputed", "corrected"}
)

_MAX_WAITING = 1_000
_TIMEOUT_S = 5.0
_RETRY_AFTER_S = (0.5, 1.0, 2.0)


class FeedbackSender:
    """Posts feedback on a background thread. A body is posted again until it is taken or refused;
    the server knows it by its `external_id`, so a repeat changes nothing.
    """

    def __init__(
        self, url: str, api_key: str | None, at_start: Callable[[], object] = lambda: None
    ) -> None:
        self._url = url.rstrip("/") + "/api/v1/feedback"
        self._api_key = api_key
        self._at_start = at_start
        self._poster: Poster | None = None
        self._stopped = threading.Event()
        self.after_fork()

    def after_fork(self) -> None:
        """Start with an empty queue and no thread: the parent posts what it queued."""
        self._queue: queue.Queue[dict[str, Any]] = queue.Queue(_MAX_WAITING)
        self._thread: threading.Thread | None = None
        # Guards the start of the worker thread only.
        self._lock = threading.Lock()

    def send(self, body: dict[str, Any]) -> None:
        """Queue one body; drop and count it when the queue is full."""
        try:
            self._queue.put_nowait(body)
        except queue.Full:
            guard.count("feedback_full", "dropped feedback: %d are waiting", _MAX_WAITING)
            return
        with self._lock:
            if self._thread is None:
                self._at_start()
                self._thread = threading.Thread(
                    target=self._run, name="stagewatch-feedback", daemon=True
                )
                self._thread.start()

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything queued was answered or given up; False on time-out."""
        deadline = time.monotonic() + timeout_s
        with self._queue.all_tasks_done:
            while self._queue.unfinished_tasks:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._queue.all_tasks_done.wait(left)
        return True

    def stop(self, timeout_s: float) -> None:
        """Post what is queued for at most `timeout_s` seconds, then give up."""
        if not self.flush(timeout_s):
            left = self._queue.unfinished_tasks
            guard.count("feedback_exit", "ended with %d feedback unsent", left, by=left)
        self._stopped.set()

    def _run(self) -> None:
        quiet_here()
        while True:
            body = self._queue.get()
            try:
                self._post(body)
            finally:
                self._queue.task_done()

    @guarded("send feedback")
    def _post(self, body: dict[str, Any]) -> None:
        if self._poster is None:
            self._poster = self._make_poster()
        data = json.dumps(body).encode()
        for wait_s in (*_RETRY_AFTER_S, None):
            outcome = self._poster.post(data, _TIMEOUT_S)
            if outcome.body is not None:
                return
            if not outcome.again or wait_s is None or self._stopped.wait(wait_s):
                break
        message = "lost feedback: the server did not take it (%s)"
        guard.count("feedback_not_sent", message, outcome.reason)

    def _make_poster(self) -> Poster:
        # Here, on our own thread: it is not for the app to wait for the imports.
        from stagewatch.sdk._http import Poster  # noqa: PLC0415
        from stagewatch.sdk._otlp import tls_files  # noqa: PLC0415

        headers = {"Content-Type": "application/json", "User-Agent": "stagewatch-sdk"}
        if self._api_key:
            headers["Authorization"] = f"Bearer {self._api_key}"
        return Poster(self._url, headers, tls_files(os.environ))


def feedback_body(
    trace_id: str,
    kind: str,
    *,
    comment: str | None,
    corrected_answer: str | None,
    turn_id: str | None,
    source: str,
    external_id: str | None,
) -> dict[str, Any]:
    """The JSON body of `POST /api/v1/feedback`. A missing `external_id` is made up, so that a
    repeated post of the same body counts once.
    """
    body: dict[str, Any] = {
        "trace_id": trace_id,
        "kind": kind,
        "source": source,
        "external_id": external_id or uuid.uuid4().hex,
    }
    optional = {"comment": comment, "corrected_answer": corrected_answer, "turn_id": turn_id}
    body.update({name: value for name, value in optional.items() if value is not None})
    return body
