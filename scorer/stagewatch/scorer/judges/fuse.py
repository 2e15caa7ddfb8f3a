"""A fuse before a paid judge: while its server is away or refuses the key, nobody keeps asking.

It blows after three failures of the server in a row (one is enough where the key or the model is
refused), waits, and then lets one call through to see; the waits double up to five minutes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

OUTAGES = frozenset(
    {
        "APIConnectionError",
        "APITimeoutError",
        "AuthenticationError",
        "InternalServerError",
        "NotFoundError",
        "PermissionDeniedError",
        "RateLimitError",
    }
)
"""Errors of the openai library that say nothing of the text that was asked about."""
_AT_ONCE = frozenset({"AuthenticationError", "PermissionDeniedError", "NotFoundError"})
_IN_A_ROW = 3
_FIRST_WAIT_S = 5.0
_LONGEST_WAIT_S = 300.0


@dataclass(frozen=True, slots=True)
class Outage:
    """The judge's server cannot be used: why, and for how many seconds nobody asks it."""

    kind: str
    wait_s: float


class Fuse:
    """Safe from several threads; `monotonic` counts seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        # Guards everything below.
        self._lock = threading.Lock()
        self._row = 0
        self._kind = ""
        self._wait = 0.0
        self._until = 0.0
        self._trying = False
        self._worked = 0

    @property
    def successes(self) -> int:
        """How many calls have worked so far."""
        return self._worked

    def outage(self) -> Outage | None:
        """The outage while nobody may ask; None while calls go through or one may be tried."""
        with self._lock:
            left = self._until - self._monotonic()
            return Outage(self._kind, left) if self._kind and left > 0 else None

    def state(self) -> Outage | None:
        """The outage until a call has worked again, also while one is tried."""
        with self._lock:
            left = max(0.0, self._until - self._monotonic())
            return Outage(self._kind, left) if self._kind else None

    def enter(self) -> str:
        """The kind of the outage when no call may be made now, else an empty text."""
        with self._lock:
            if not self._kind:
                return ""
            if self._trying or self._monotonic() < self._until:
                return self._kind
            self._trying = True
            return ""

    def worked(self) -> None:
        """A call got its reply."""
        with self._lock:
            self._worked += 1
            self._row, self._kind, self._wait, self._trying = 0, "", 0.0, False

    def failed(self, kind: str) -> None:
        """A call failed for good with this error; errors of the text itself do not count."""
        with self._lock:
            trying, self._trying = self._trying, False
            if kind not in OUTAGES:
                return
            self._row += 1
            if not trying and not self._kind and kind not in _AT_ONCE and self._row < _IN_A_ROW:
                return
            if self._kind and not trying:
                # Calls that were under way when it blew: the wait has begun already.
                return
            self._kind = kind
            self._wait = min(max(_FIRST_WAIT_S, 2 * self._wait), _LONGEST_WAIT_S)
            self._until = self._monotonic() + self._wait
