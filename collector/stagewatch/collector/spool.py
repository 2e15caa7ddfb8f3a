"""The spool: accepted bodies are on disk before their sender gets its yes.

One thread appends whatever came in since its last round to the open segment of each signal, syncs
it once, and answers all of it: the slower the disk, the bigger the groups. A segment is sealed by
size or age and handed to the writer. docs/adr/002-engine-decode-and-spool.md.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from stagewatch.collector.files import OpenFile, SegmentFiles
from stagewatch.collector.frames import Frame, pack
from stagewatch.collector.segments import Sealed
from stagewatch.core.errors import OverloadedError

log = logging.getLogger("stagewatch.collector.spool")

MAX_PENDING_BYTES = 128 << 20
_IOV_MAX = 512
_DISK_CHECK_SECONDS = 0.5
IDLE_SECONDS = 60.0
"""After so long without a body the files that are kept for later go."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When segments are sealed, and when senders are told to wait."""

    segment_bytes: int
    segment_seconds: float
    max_bytes: int
    min_free_bytes: int


@dataclass(slots=True)
class Entry:
    """One body on its way to disk. `done` is called once, from the spool's thread: with None when
    the body is durable, else with the error that kept it out.
    """

    signal: str
    frame: Frame
    body: bytes | bytearray
    done: Callable[[Exception | None], None]


class Spool:
    """Owns the segments that are being written; `on_sealed` gets each finished one.

    `append` may be called from any thread and returns at once.
    """

    def __init__(
        self, folder: Path, limits: Limits, on_sealed: Callable[[Sealed], None], backlog: int = 0
    ) -> None:
        self.folder = folder
        self.limits = limits
        self._files = SegmentFiles(folder, on_sealed, limits.min_free_bytes)
        # Guards `_pending`, `_pending_bytes`, `_bytes` and `_stopping`.
        self._wake = threading.Condition()
        self._pending: list[Entry] = []
        self._pending_bytes = 0
        self._bytes = backlog
        self._stopping = False
        # Free bytes when the disk was last asked, less what was written since.
        self._room = float("inf")
        self._disk_checked = float("-inf")
        self._open: dict[str, OpenFile] = {}
        self._last = float("-inf")
        self._thread = threading.Thread(target=self._run, name="spool", daemon=True)

    def start(self) -> None:
        """Start the writing thread."""
        self._check_disk(time.monotonic())
        self._thread.start()

    @property
    def bytes(self) -> int:
        """Bytes in the spool: sealed segments not yet stored and open ones."""
        return self._bytes

    def refuses(self) -> str:
        """Why nothing can be taken now, in one sentence; "" when it can."""
        if self._bytes + self._pending_bytes > self.limits.max_bytes:
            return "the spool is full: the store is slower than the senders, or away"
        if self._pending_bytes > MAX_PENDING_BYTES:
            return "the disk is slower than the senders"
        if self._room - self._pending_bytes < self.limits.min_free_bytes:
            return "the spool's disk is nearly full"
        return ""

    def append(self, entry: Entry) -> None:
        """Have `entry` written; its `done` tells when it is durable.

        Raises:
            OverloadedError: a bound is reached, or the spool is stopping.
        """
        with self._wake:
            reason = "the collector is stopping" if self._stopping else self.refuses()
            if reason:
                raise OverloadedError(reason)
            self._pending.append(entry)
            self._pending_bytes += len(entry.body)
            if len(self._pending) == 1:
                self._wake.notify()

    def stored(self, size: int) -> None:
        """Tell that `size` bytes of sealed segments are gone from the spool."""
        with self._wake:
            self._bytes -= size

    def release(self, sealed: Sealed) -> None:
        """A segment is in the store: its file goes, or is used again."""
        self._files.release(sealed)

    def stop(self) -> None:
        """Write and seal what was accepted, then end the thread."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._wake:
                if not self._pending and not self._stopping:
                    self._wake.wait(self._until_seal())
                batch, self._pending = self._pending, []
                size, self._pending_bytes = self._pending_bytes, 0
                self._bytes += size
                stopping = self._stopping
            now = time.monotonic()
            self._check_disk(now)
            for signal in {entry.signal for entry in batch}:
                self._commit(signal, [entry for entry in batch if entry.signal == signal], now)
            self._seal_due(now, everything=stopping)
            if batch:
                self._last = now
            if self._room < 2 * self.limits.min_free_bytes or now - self._last > IDLE_SECONDS:
                self._files.clear()
            if stopping and not batch:
                self._files.close()
                return

    def _until_seal(self) -> float:
        if not self._open:
            return _DISK_CHECK_SECONDS
        oldest = min(segment.born for segment in self._open.values())
        return max(0.0, oldest + self.limits.segment_seconds - time.monotonic())

    def _check_disk(self, now: float) -> None:
        if now - self._disk_checked < _DISK_CHECK_SECONDS:
            return
        self._disk_checked = now
        self._room = shutil.disk_usage(self.folder).free

    def _commit(self, signal: str, batch: Sequence[Entry], now: float) -> None:
        try:
            segment = self._open.get(signal) or self._new_segment(signal, now)
            before = segment.size
            try:
                self._write(segment, batch)
            except OSError:
                self._give_up(signal, segment, before)
                raise
        except OSError as error:
            log.error("the spool cannot be written", extra={"errno": error.errno})
            with self._wake:
                self._bytes -= sum(len(entry.body) for entry in batch)
            failure = OverloadedError(f"the spool cannot be written: {error.strerror}")
            for entry in batch:
                entry.done(failure)
            return
        self._room -= segment.size - before
        with self._wake:
            self._bytes += segment.size - before - sum(len(entry.body) for entry in batch)
        for entry in batch:
            entry.done(None)

    def _new_segment(self, signal: str, now: float) -> OpenFile:
        segment = self._open[signal] = self._files.take(signal, now)
        return segment

    def _write(self, segment: OpenFile, batch: Sequence[Entry]) -> None:
        packed = [(entry, pack(entry.frame, segment.number)) for entry in batch]
        buffers: list[bytes | bytearray] = []
        for entry, head in packed:
            buffers += (head, entry.body)
        size = segment.size
        for at in range(0, len(buffers), _IOV_MAX):
            size += _write_all(segment.handle, buffers[at : at + _IOV_MAX])
        os.fdatasync(segment.handle)
        segment.size = size
        for entry, head in packed:
            segment.token.add(entry.frame, head)

    def _give_up(self, signal: str, segment: OpenFile, good: int) -> None:
        """After a failed write or sync the file's tail is unknown: keep what was synced before
        and go on in another file, since a second fdatasync may say yes to lost pages.
        """
        segment.size = good
        if good:
            self._seal(signal)
        else:
            self._files.drop(self._open.pop(signal))

    def _seal_due(self, now: float, *, everything: bool) -> None:
        for signal, segment in list(self._open.items()):
            old = now - segment.born >= self.limits.segment_seconds
            if everything or old or segment.size >= self.limits.segment_bytes:
                self._seal(signal)

    def _seal(self, signal: str) -> None:
        self._files.seal(signal, self._open.pop(signal))


def _write_all(handle: int, buffers: list[bytes | bytearray]) -> int:
    """Write every buffer, however often the system takes only a part; the bytes written."""
    total = sum(len(buffer) for buffer in buffers)
    written = os.writev(handle, buffers)
    while written < total:
        skip = written
        rest: list[bytes | bytearray] = []
        for buffer in buffers:
            if skip >= len(buffer):
                skip -= len(buffer)
                continue
            rest.append(buffer[skip:] if skip else buffer)
            skip = 0
        written += os.writev(handle, rest)
    return written
