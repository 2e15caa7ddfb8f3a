"""The one place where our own failures stop: counted, told once a minute, never seen by the app."""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

log = logging.getLogger("stagewatch.sdk")

_TELL_EVERY_S = 60.0


class Guard:
    """Swallows what the SDK did wrong. `reraise` is for tests: a swallowed bug is a red test."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.reraise = False
        self.counts: Counter[str] = Counter()
        self._clock = clock
        self._told_at: dict[str, float] = {}
        # Guards `counts` and `_told_at`: steps end on any thread.
        self._lock = threading.Lock()

    def caught(self, doing: str, error: Exception) -> None:
        """Count `error` and log its type (never its text: it may hold trace content)."""
        if self.reraise:
            raise error
        self.count(doing, "could not %s (%s); your code is unaffected", doing, type(error).__name__)

    def count(self, reason: str, message: str, *values: object, by: int = 1) -> None:
        """Add `by` to the losses for `reason`; log `message` at most once a minute per reason."""
        with self._lock:
            self.counts[reason] += by
            now = self._clock()
            last = self._told_at.get(reason)
            if last is not None and now - last < _TELL_EVERY_S:
                return
            self._told_at[reason] = now
            total = self.counts[reason]
        log.warning("stagewatch " + message + " [%d so far]", *values, total)  # noqa: G003

    def after_fork(self) -> None:
        """A lock held by another thread while the process forked stays locked: make a new one."""
        self._lock = threading.Lock()


guard = Guard()

_NOISY = ("opentelemetry.exporter.otlp.proto.common._internal",)
_quiet_threads: set[int] = set()


def _not_ours(record: logging.LogRecord) -> bool:
    return record.thread not in _quiet_threads


def quiet_here() -> None:
    """Keep the encoder's log lines about odd attributes out of the app's log when they come from
    the calling thread: they show the attribute. Other exporters still log.
    """
    _quiet_threads.add(threading.get_ident())
    for name in _NOISY:
        logging.getLogger(name).addFilter(_not_ours)


def guarded(doing: str) -> Callable[[Callable[P, R]], Callable[P, R | None]]:
    """Make a function of ours safe to call from the app: it answers None where it would raise."""

    def wrap(func: Callable[P, R]) -> Callable[P, R | None]:
        @functools.wraps(func)
        def safe(*args: P.args, **kwargs: P.kwargs) -> R | None:
            try:
                return func(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - the SDK's edge to the app
                guard.caught(doing, error)
                return None

        return safe

    return wrap
