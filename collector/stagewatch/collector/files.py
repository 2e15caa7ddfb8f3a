"""The files that segments are written to: made ahead, with room in them, and used again.

A sync of a file that grew waits for the file system's journal, and so for every file that an
insert is syncing at that moment; a sync of bytes that were overwritten in place does not (beside
an insert the slowest hundredth took 13 ms instead of 170). So the next segment's file is made
while the present one is written, as large as the last ones became, if possible from one whose
bodies are in the store by now: its blocks are there, and so are its pages in memory.

What stands behind the written part of such a file is old. Each file has a number of its own, which
is in its name and in every frame written to it: recovery takes no frame that bears another one.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import threading
from collections import defaultdict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from stagewatch.collector.segments import (
    FREE_SUFFIX,
    NEXT_SUFFIX,
    OPEN_SUFFIX,
    Sealed,
    TokenHash,
    sync_folder,
)

log = logging.getLogger("stagewatch.collector.spool")

LEAST_ROOM = 64 << 10
"""Bytes: no file is made ahead with less room, and none smaller is worth using again."""
_MOST_FREE = 3
_ZEROS = bytes(1 << 20)


@dataclass(slots=True)
class OpenFile:
    """A segment's file being written; `number` marks the frames in it, `size` ends them."""

    path: Path
    handle: int
    number: int
    born: float = 0.0
    size: int = 0
    token: TokenHash = field(default_factory=TokenHash)


class SegmentFiles:
    """Gives the spool its files and takes them back; names are made and changed by a thread of its
    own, for which no sender waits.

    `release` may be called from any thread, all else from one.
    """

    def __init__(
        self, folder: Path, on_sealed: Callable[[Sealed], None], min_free_bytes: int
    ) -> None:
        self._folder = folder
        self._min_free_bytes = min_free_bytes
        self._on_sealed = on_sealed
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="spool-files")
        self._serial = 0
        # The next file of each signal that was seen.
        self._next: dict[str, Future[OpenFile]] = {}
        # Sizes of the last segments of each signal.
        self._sizes: dict[str, deque[int]] = defaultdict(lambda: deque(maxlen=4))
        # Guards `_serial`, `_free` and `_closed`.
        self._lock = threading.Lock()
        self._free: list[Path] = []
        self._closed = False

    def take(self, signal: str, now: float) -> OpenFile:
        """A file for the next segment; its name is durable.

        Raises:
            OSError: none can be made.
        """
        file = self._ahead(signal) or self._made(self._name(signal, OPEN_SUFFIX), 0)
        file.born = now
        if signal not in self._next:
            room = max([LEAST_ROOM, *self._sizes[signal]])
            self._next[signal] = self._thread.submit(
                self._made, self._name(signal, NEXT_SUFFIX), room
            )
        return file

    def _ahead(self, signal: str) -> OpenFile | None:
        ahead = self._next.get(signal)
        if ahead is None or not ahead.done():
            return None
        del self._next[signal]
        if ahead.exception() is not None:
            return None
        file = ahead.result()
        # Nothing waits for this name to be durable: recovery reads either.
        path = file.path.with_suffix(OPEN_SUFFIX)
        try:
            file.path.rename(path)
        except OSError:
            self.drop(file)
            return None
        file.path = path
        return file

    def seal(self, signal: str, file: OpenFile) -> None:
        """Give the segment its final name and size, and hand it on."""
        self._sizes[signal].append(file.size)
        self._thread.submit(self._seal, signal, file)

    def drop(self, file: OpenFile) -> None:
        """Throw a file away that holds nothing that was acknowledged."""
        os.close(file.handle)
        file.path.unlink(missing_ok=True)

    def release(self, sealed: Sealed) -> None:
        """The segment is in the store: keep its file for another, or delete it.

        Raises:
            OSError: the file can be neither renamed nor deleted.
        """
        with self._lock:
            wanted = not self._closed and len(self._free) < _MOST_FREE
            self._serial += 1
            free = self._folder / f"{self._serial:08d}{FREE_SUFFIX}"
        if not wanted or sealed.size < LEAST_ROOM:
            sealed.path.unlink()
            sync_folder(self._folder)
            return
        sealed.path.rename(free)
        # Before anything is written to it: else a power cut could bring the old name back with
        # other bodies in it.
        sync_folder(self._folder)
        with self._lock:
            if not self._closed:
                self._free.append(free)
                return
        free.unlink()

    def clear(self) -> None:
        """Delete the files that are kept for later: what was in them is not kept for ever."""
        for signal, ahead in list(self._next.items()):
            if ahead.done():
                del self._next[signal]
                if ahead.exception() is None:
                    self.drop(ahead.result())
        with self._lock:
            free, self._free = self._free, []
        for path in free:
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """Wait for the thread, then delete the files that are kept for later."""
        with self._lock:
            self._closed = True
        self._thread.shutdown()
        self.clear()

    def _name(self, signal: str, suffix: str) -> tuple[Path, int]:
        number = secrets.randbits(64)
        with self._lock:
            self._serial += 1
            serial = self._serial
        return self._folder / f"{signal}-{serial:08d}-{number:016x}{suffix}", number

    def _made(self, name: tuple[Path, int], room: int) -> OpenFile:
        path, number = name
        if room and shutil.disk_usage(self._folder).free - room < self._min_free_bytes:
            room = 0
        with self._lock:
            free = self._free.pop() if room and self._free else None
        if free is not None:
            free.rename(path)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            if room:
                _fill(handle, room)
            sync_folder(self._folder)
        except OSError:
            os.close(handle)
            path.unlink(missing_ok=True)
            raise
        return OpenFile(path, handle, number)

    def _seal(self, signal: str, file: OpenFile) -> None:
        # A crash before this leaves the open name: recovery makes the same sealed one of it.
        target = self._folder / file.token.name(signal)
        try:
            os.ftruncate(file.handle, file.size)
            file.path.rename(target)
            sync_folder(self._folder)
        except OSError as error:
            log.error("a segment cannot be sealed", extra={"errno": error.errno})
            return
        finally:
            os.close(file.handle)
        self._on_sealed(Sealed(target, signal, file.size))


def _fill(handle: int, room: int) -> None:
    """Zeros from the end of the file up to `room` bytes, synced; writing begins at the front."""
    at = os.fstat(handle).st_size
    while at < room:
        at += os.pwrite(handle, _ZEROS[: room - at], at)
    os.fsync(handle)
