"""Time as an argument: services take a `Clock`, tests give one they move by hand."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Where a service reads the time."""

    def now(self) -> datetime:
        """Current time, aware, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back, for timeouts."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Current time, aware, UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()


class ManualClock:
    """A clock that stands still until it is told to move; for tests and simulations."""

    def __init__(self, at: datetime) -> None:
        self._at = at
        self._mono = 0.0

    def now(self) -> datetime:
        """The time it was last moved to."""
        return self._at

    def monotonic(self) -> float:
        """Seconds moved so far."""
        return self._mono

    def advance(self, seconds: float) -> None:
        """Move both readings forward."""
        self._at += timedelta(seconds=seconds)
        self._mono += seconds


EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(2200, 1, 1, tzinfo=UTC)
"""No turn is older or newer than these: the engine's times and Python's both reach further, so
that steps and offsets added to a time between them cannot leave either's range."""


def clamped(at: datetime) -> datetime:
    """`at` (aware) in UTC, moved to the nearer end when it lies outside EARLIEST … LATEST.

    Years 1 and 9999 cannot be shifted to UTC at all when their offset points out of the calendar.
    """
    if at.year < EARLIEST.year:
        return EARLIEST
    if at.year >= LATEST.year:
        return LATEST
    return min(max(at.astimezone(UTC), EARLIEST), LATEST)


def rfc3339(at: datetime) -> str:
    """`at` as RFC 3339 in UTC with a `Z`, microseconds kept only when not zero."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")
