"""Looking names up within a deadline.

The system's resolver cannot be interrupted: a name server that does not answer holds its caller
for half a minute and longer. So a lookup runs in a thread of its own, whoever wants its answer
waits as long as its deadline allows, and only so many lookups are under way at once.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from stagewatch.scorer.channels.addresses import Resolver

MOST_AT_ONCE = 32
"""A lookup beyond waits for a place, within its own deadline."""


class LookupLateError(TimeoutError):
    """No answer about a name within the deadline; it may come later, so trying again may help."""


@dataclass(slots=True)
class _Lookup:
    """One lookup that is under way."""

    ended: threading.Event = field(default_factory=threading.Event)
    found: Sequence[str] = ()
    error: Exception | None = None


class Lookups:
    """Lookups of this process; safe from several threads.

    Who asks for a name that is being looked up waits for the same answer: rows asked side by side
    need one thread, and a name that hangs never holds more than one place.

    `late` counts those who went without an answer, `under_way` is how many names are being asked.
    """

    def __init__(self, most: int = MOST_AT_ONCE) -> None:
        self._room = threading.BoundedSemaphore(most)
        # Guards the table and the count.
        self._lock = threading.Lock()
        self._asked: dict[tuple[str, int, Resolver], _Lookup] = {}
        self._late = 0

    @property
    def late(self) -> int:
        """How often a deadline passed before the answer came."""
        return self._late

    @property
    def under_way(self) -> int:
        """How many names are being looked up, or wait for a place."""
        return len(self._asked)

    def find(self, host: str, port: int, resolver: Resolver, seconds: float) -> list[str]:
        """Addresses of `host` by `resolver`, waited for at most `seconds`.

        Raises:
            LookupLateError: there was no answer in time, or no place to ask in.
            OSError: the name has no address now.
        """
        until = time.monotonic() + seconds
        key = (host, port, resolver)
        lookup = self._joined(key, until)
        if lookup is None or not lookup.ended.wait(max(0.0, until - time.monotonic())):
            with self._lock:
                self._late += 1
            raise LookupLateError(f"the name {host} was not resolved in {seconds:.3g} s")
        if lookup.error is not None:
            raise lookup.error
        return list(lookup.found)

    def _joined(self, key: tuple[str, int, Resolver], until: float) -> _Lookup | None:
        """The lookup of this name, begun now when there is none; None without a place for it."""
        with self._lock:
            known = self._asked.get(key)
        if known is not None:
            return known
        if not self._room.acquire(timeout=max(0.0, until - time.monotonic())):
            return None
        with self._lock:
            known = self._asked.get(key)
            if known is None:
                made = self._asked[key] = _Lookup()
        if known is not None:
            self._room.release()
            return known
        threading.Thread(
            target=self._carry_out, args=(key, made), name="name-lookup", daemon=True
        ).start()
        return made

    def _carry_out(self, key: tuple[str, int, Resolver], lookup: _Lookup) -> None:
        host, port, resolver = key
        try:
            lookup.found = resolver(host, port)
        except Exception as error:  # noqa: BLE001 - it is raised where the answer is waited for
            lookup.error = error
        finally:
            with self._lock:
                del self._asked[key]
            self._room.release()
            lookup.ended.set()


LOOKUPS = Lookups()
"""The lookups of this process."""


def dial(addresses: Sequence[str], port: int, left: Callable[[], float]) -> socket.socket:
    """A connection to the first of the addresses that takes one.

    Args:
        addresses: numeric, in the order of preference.
        port: of all of them.
        left: seconds until the deadline. An address gets half of what is left, the last one all.

    Raises:
        TimeoutError: the deadline passed.
        OSError: none takes a connection.
    """
    last: OSError | None = None
    for place, address in enumerate(addresses, start=1):
        seconds = left()
        if seconds <= 0:
            raise TimeoutError
        try:
            return socket.create_connection(
                (address, port), timeout=seconds if place == len(addresses) else seconds / 2
            )
        except OSError as error:
            last = error
    raise last or OSError("the name has no address")
