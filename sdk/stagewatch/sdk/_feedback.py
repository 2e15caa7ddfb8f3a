"""Feedback by trace id, from anywhere: the same process, another one, days later."""

from __future__ import annotations

import json
import queue
import threading
import time
import uuid
from typing import Any, Literal

from stagewatch.sdk._guard import guard, guarded

FeedbackKind = Literal["thumbs_up", "thumbs_down", "escalated", "disputed", "corrected"]
KINDS: frozenset[str] = frozenset(
    {"thumbs_up", "thumbs_down", "escalated", "disputed", "corrected"}
)

_MAX_WAITING = 1_000
_TRIES = 4
_TIMEOUT_S = 5.0
_RETRY_AFTER_S = (0.5, 1.0, 2.0)
_RETRYABLE = frozenset({408, 429, 502, 503, 504})


class FeedbackSender:
    """Posts feedback on a background thread. A body is posted again until it is taken or refused;
    the server knows it by its `external_id`, so a repeat changes nothing.
    """

    def __init__(self, url: str, api_key: str | None) -> None:
        self._url = url.rstrip("/") + "/api/v1/feedback"
        self._api_key = api_key
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
        while True:
            body = self._queue.get()
            try:
                self._post(body)
            finally:
                self._queue.task_done()

    @guarded("send feedback")
    def _post(self, body: dict[str, Any]) -> None:
        # Imported where it is used, on our own thread: it is a third of the SDK's import time.
        import urllib.error  # noqa: PLC0415
        import urllib.request  # noqa: PLC0415

        data = json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        if self._api_key:
            headers["Authorization"] = f"Bearer {self._api_key}"
        why = ""
        for attempt in range(_TRIES):
            if attempt and self._stopped.wait(_RETRY_AFTER_S[attempt - 1]):
                break
            request = urllib.request.Request(  # noqa: S310 - the address is the app's setting
                self._url, data=data, headers=headers, method="POST"
            )
            try:
                with urllib.request.urlopen(request, timeout=_TIMEOUT_S):  # noqa: S310
                    return
            except urllib.error.HTTPError as error:
                error.close()
                why = f"HTTP {error.code}"
                if error.code not in _RETRYABLE:
                    break
            except OSError as error:
                why = type(error).__name__
        guard.count("feedback_not_sent", "lost feedback: the server did not take it (%s)", why)


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
