"""Bodies that were accepted lately, so that an SDK's retry is answered yes and stored once."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import xxhash

WINDOW_SECONDS = 600.0
MAX_HASHES = 1_000_000


@lru_cache(maxsize=1024)
def _suffix(project: str) -> bytes:
    return xxhash.xxh32_digest(project.encode())


def body_key(project: str, digest: bytes) -> bytes:
    """What makes a body the same one: its project and the XXH3-128 of its bytes."""
    return digest + _suffix(project)


class RecentBodies:
    """A set of body keys that forgets after `window_s` to twice that, or beyond `limit` keys.

    Two generations instead of a time per key: a third of the memory (about 110 bytes a key).
    """

    def __init__(self, window_s: float = WINDOW_SECONDS, limit: int = MAX_HASHES) -> None:
        self._window_s = window_s
        self._half = max(1, limit // 2)
        self._young: set[bytes] = set()
        self._old: set[bytes] = set()
        self._turned_at = 0.0

    def __contains__(self, key: bytes) -> bool:
        return key in self._young or key in self._old

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def add(self, key: bytes, now: float) -> None:
        """Remember `key`; `now` is a monotonic reading in seconds."""
        if now - self._turned_at >= self._window_s or len(self._young) >= self._half:
            self._old, self._young = self._young, set()
            self._turned_at = now
        self._young.add(key)

    def add_all(self, keys: Iterable[bytes], now: float) -> None:
        """Remember keys from before a restart."""
        for key in keys:
            self.add(key, now)
