"""Scorers that share one store: who is alive, and which part of the turns is whose.

Leases are advisory: the store has no compare-and-set. Each scorer beats every two seconds; those
that beat lately split the turns by a hash. What a scorer is about to have read by a paid judge it
claims first (a pending decision with its name), and others leave that alone while it lives. So a
scorer that dies costs at most the calls of the turns that it had in hand.
"""

from __future__ import annotations

import os
import socket
import threading
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from stagewatch.core.store.client import Store
from stagewatch.core.store.members import Member, list_members, put_beat
from stagewatch.core.store.turns import Share

BEAT_SECONDS = 2.0
ALIVE_SECONDS = 10.0
"""A scorer that has not beaten for so long is dead: its claims are void, its share is split."""
_JOIN_SECONDS = 2 * BEAT_SECONDS
"""How long a new scorer waits before it takes turns, so that the others have seen it."""
_VIEW_SECONDS = 1.0
_REMEMBERED_S = 2 * 86_400.0


def new_member() -> str:
    """A name that no other start of any process has."""
    return f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


class Membership:
    """This scorer's place among those on its store; usable from any thread.

    On the embedded engine there is one process, so the place is always the first of one.
    """

    def __init__(self, store: Store, monotonic: Callable[[], float]) -> None:
        self.name = new_member()
        self._store = store
        self._monotonic = monotonic
        # Guards the times and the view.
        self._lock = threading.Lock()
        self._joined: float | None = None
        self._beaten: float | None = None
        self._view: tuple[float, Share] | None = None

    def beat(self, body: Mapping[str, Any]) -> None:
        """Say that this scorer is alive.

        Raises:
            StoreError: the store failed.
        """
        put_beat(self._store, self.name, body)
        now = self._monotonic()
        with self._lock:
            if self._beaten is None or now - self._beaten > ALIVE_SECONDS:
                # The others took this one for dead: it joins anew.
                self._joined, self._view = now, None
            self._beaten = now

    def leave(self) -> None:
        """Say that this scorer ends, so that nobody waits for it.

        Raises:
            StoreError: the store failed.
        """
        put_beat(self._store, self.name, {"left": True})

    def share(self) -> Share | None:
        """The turns that are this scorer's now; None while it has no place among the others.

        Raises:
            StoreError: the store failed.
        """
        if self._store.embedded:
            return Share()
        now = self._monotonic()
        with self._lock:
            joined, beaten, view = self._joined, self._beaten, self._view
        if joined is None or beaten is None or now - beaten > ALIVE_SECONDS:
            return None
        if now - joined < _JOIN_SECONDS:
            return None
        if view is not None and now - view[0] < _VIEW_SECONDS:
            return view[1]
        names = [m.member for m in living(self._store)]
        if self.name not in names:
            return None
        others = tuple(name for name in names if name != self.name)
        found = Share(names.index(self.name), len(names), others)
        with self._lock:
            self._view = (now, found)
        return found


def died(store: Store, me: str) -> list[Member]:
    """Scorers of the last two days that neither beat nor said that they left, by name.

    On the embedded engine every other one is: its folder belongs to one process.
    """
    return [
        member
        for member in list_members(store, within_s=_REMEMBERED_S)
        if member.member != me
        and not member.body.get("left")
        and (store.embedded or member.age_s > ALIVE_SECONDS)
    ]


def living(store: Store) -> list[Member]:
    """Scorers that have beaten lately and not left, by name."""
    return [m for m in list_members(store, within_s=ALIVE_SECONDS) if not m.body.get("left")]
