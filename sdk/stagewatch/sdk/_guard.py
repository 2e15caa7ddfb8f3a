"""The one place where our own failures stop: counted, told once a minute, never seen by the app."""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from opentelemetry import context as otel_context

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
        self._told: Counter[str] = Counter()
        # Guards the dictionaries above: steps end on any thread.
        self._lock = threading.Lock()

    def caught(self, doing: str, error: BaseException) -> None:
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
            total = self._told[reason] = self.counts[reason]
        log.warning("stagewatch " + message + " [%d so far]", *values, total)  # noqa: G003

    def tell_rest(self) -> None:
        """Log the totals that grew since they were last told: the process ends."""
        with self._lock:
            grown = [name for name, n in self.counts.items() if n > self._told[name]]
            self._told.update({name: self.counts[name] - self._told[name] for name in grown})
            totals = ", ".join(f"{name} {self.counts[name]}" for name in sorted(grown))
        if totals:
            log.warning("stagewatch losses in all: %s", totals)

    def after_fork(self) -> None:
        """A lock held by another thread while the process forked stays locked: make a new one."""
        self._lock = threading.Lock()


guard = Guard()

_NOISY = ("opentelemetry.exporter.otlp.proto.common._internal",)
_quiet_threads: set[int] = set()


def _not_ours(record: logging.LogRecord) -> bool:
    return record.thread not in _quiet_threads


def quiet_here() -> None:
    """Make no noise from the calling thread, which is ours: its requests become no spans, and the
    encoder's log lines about odd attributes, which show the attribute, stay out of the app's log.
    """
    otel_context.attach(otel_context.set_value("suppress_instrumentation", True))
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
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:  # noqa: BLE001 - the SDK's edge to the app
                guard.caught(doing, error)
                return None

        return safe

    return wrap
