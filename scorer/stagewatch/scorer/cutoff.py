"""A deadline over a whole request: its connection is cut when the time is up, whatever it does."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from types import TracebackType


class Cutoff:
    """Cuts the connections it watches after `seconds`, or when `cut` is called.

    A timeout of a socket begins anew with every byte, so a peer that drips could hold a request
    for ever. A second descriptor of the connection is kept: TLS takes the first one over.
    """

    def __init__(self, seconds: float) -> None:
        self.passed = False
        self._watched: list[socket.socket] = []
        # Guards both: the timer cuts while a connection is being opened.
        self._lock = threading.Lock()
        self._timer = threading.Timer(seconds, self.cut)
        self._timer.daemon = True
        self._ends = time.monotonic() + seconds

    def __enter__(self) -> Cutoff:
        self._timer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        with self._lock:
            for twin in self._watched:
                twin.close()
            self._watched.clear()

    def left(self) -> float:
        """Seconds until the time is up; 0 once it is."""
        return 0.0 if self.passed else max(0.0, self._ends - time.monotonic())

    def watch(self, made: socket.socket) -> None:
        """Cut this connection too when the time is up."""
        with self._lock:
            twin = made.dup()
            self._watched.append(twin)
            if self.passed:
                _shut(twin)

    def cut(self) -> None:
        """End every connection now."""
        with self._lock:
            self.passed = True
            for twin in self._watched:
                _shut(twin)


def _shut(made: socket.socket) -> None:
    with contextlib.suppress(OSError):
        made.shutdown(socket.SHUT_RDWR)
