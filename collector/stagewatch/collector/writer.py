"""Sealed segments into the store, exactly once, whatever happens on the way."""

from __future__ import annotations

import hashlib
import heapq
import logging
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from stagewatch.collector.segments import Sealed, bury, frames_of, halve
from stagewatch.collector.signals import Signal, stored_signal
from stagewatch.core.errors import StoreError, StoreUnavailableError
from stagewatch.core.store import Store

log = logging.getLogger("stagewatch.collector.writer")

# Raised while the bytes are decoded, before any part exists: cannot read all data, cannot parse,
# unexpected end, unknown protobuf format, value too long for a fixed string, bad size:
# https://github.com/ClickHouse/ClickHouse/blob/master/src/Common/ErrorCodes.cpp
POISON_CODES = frozenset({6, 27, 32, 33, 69, 117, 131, 190, 432, 434, 436, 444})
_FIRST_RETRY_S = 0.2
_LAST_RETRY_S = 5.0
_STUCK_RETRY_S = 30.0


class Watcher(Protocol):
    """Who counts what the writer does."""

    def stored(self, sealed: Sealed, seconds: float) -> None:
        """A segment is in the store and gone from the spool."""
        ...

    def failed(self, sealed: Sealed, error: StoreError) -> None:
        """An insert failed and will be tried again."""
        ...

    def dead(self, sealed: Sealed, reason: str) -> None:
        """A segment of one body can never be stored."""
        ...


def _schema_settings(store: Store, signal: Signal) -> dict[str, str]:
    """Which messages the segment holds.

    A server takes the text. The embedded engine would keep a copy of the text in the folder the
    process was started from, which may not be writable and is not ours: it gets a file instead.
    """
    if not store.embedded:
        return {
            "format_schema_source": "string",
            "format_schema": signal.schema,
            "format_schema_message_name": "Request",
        }
    digest = hashlib.sha256(signal.schema.encode()).hexdigest()[:12]
    path = store.settings.data_dir / "schemas" / f"{signal.name}-{digest}.proto"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        partial = path.with_suffix(f".{threading.get_ident()}")
        partial.write_text(signal.schema, encoding="utf-8")
        partial.replace(path)
    return {"format_schema": f"{path.resolve()}:Request"}


def insert_segment(store: Store, sealed: Sealed) -> None:
    """Insert one segment under its token; raises StoreError as the store does."""
    signal = stored_signal(sealed.signal)
    store.put_file(
        signal.table,
        sealed.path,
        "ProtobufSingle",
        {
            **_schema_settings(store, signal),
            "input_format_protobuf_oneof_presence": 1,
            "insert_deduplication_token": sealed.token,
            "max_partitions_per_insert_block": 1000,
        },
        columns=[signal.entries, "frames"],
    )


class Writer:
    """A thread that empties the spool, oldest segment first.

    A segment that fails is tried again as it is, under the same token, for ever; the others go on.
    """

    def __init__(
        self,
        insert: Callable[[Sealed], None],
        watcher: Watcher,
        release: Callable[[Sealed], None],
        leftovers: Iterable[Sealed] = (),
        settled: Callable[[Iterable[bytes], Exception | None], None] | None = None,
    ) -> None:
        self._insert = insert
        self._release = release
        self._watcher = watcher
        self._settled = settled
        # Guards `_queue`, `_busy` and `_stopping`.
        self._wake = threading.Condition()
        # (not before, arrival, times tried, segment)
        self._queue: list[tuple[float, int, int, Sealed]] = []
        self._arrivals = 0
        self._busy: Sealed | None = None
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        for sealed in leftovers:
            self._push(sealed)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def _push(self, sealed: Sealed, not_before: float = 0.0, tries: int = 0) -> None:
        self._arrivals += 1
        heapq.heappush(self._queue, (not_before, self._arrivals, tries, sealed))

    def offer(self, sealed: Sealed) -> None:
        """Take one more sealed segment; from any thread."""
        with self._wake:
            self._push(sealed)
            self._wake.notify()

    def waiting(self) -> int:
        """Segments that are not stored yet."""
        with self._wake:
            return len(self._queue) + (self._busy is not None)

    def drain(self, timeout_s: float) -> int:
        """Wait until all is stored or the time is up, then end the thread; segments left."""
        end = time.monotonic() + timeout_s
        with self._wake:
            while (self._queue or self._busy) and time.monotonic() < end:
                self._wake.wait(min(0.1, max(0.0, end - time.monotonic())))
            left = len(self._queue) + (self._busy is not None)
            self._stopping = True
            self._wake.notify()
        if self._thread.ident is not None:
            self._thread.join(max(0.1, end - time.monotonic()))
        return left

    def _next(self) -> tuple[int, Sealed] | None:
        with self._wake:
            while not self._stopping:
                now = time.monotonic()
                if self._queue and self._queue[0][0] <= now:
                    _, _, tries, sealed = heapq.heappop(self._queue)
                    self._busy = sealed
                    return tries, sealed
                self._wake.wait(self._queue[0][0] - now if self._queue else None)
        return None

    def _run(self) -> None:
        while (found := self._next()) is not None:
            tries, sealed = found
            try:
                self._one(sealed, tries)
            except Exception as error:  # noqa: BLE001 - the worker's edge: a bug must not stop storing
                log.error("a segment could not be handled", extra={"error": type(error).__name__})
                self._again(sealed, tries, _STUCK_RETRY_S)
            with self._wake:
                self._busy = None
                self._wake.notify_all()

    def _one(self, sealed: Sealed, tries: int) -> None:
        started = time.monotonic()
        digests = [frame.digest for frame in frames_of(sealed.path)] if self._settled else []
        try:
            self._insert(sealed)
        except StoreUnavailableError as error:
            self._watcher.failed(sealed, error)
            self._again(sealed, tries, min(_LAST_RETRY_S, _FIRST_RETRY_S * 2 ** min(tries, 10)))
        except StoreError as error:
            self._watcher.failed(sealed, error)
            if error.code in POISON_CODES:
                self._cut(sealed, error, digests)
            else:
                # It may have reached some of the tables: only the same whole segment under the
                # same token completes it without counting anything twice.
                log.error("an insert fails", extra={"code": error.code, "segment": sealed.token})
                self._again(sealed, tries, _STUCK_RETRY_S)
        else:
            self._release(sealed)
            self._watcher.stored(sealed, time.monotonic() - started)
            if self._settled:
                self._settled(digests, None)

    def _again(self, sealed: Sealed, tries: int, delay_s: float) -> None:
        with self._wake:
            self._push(sealed, time.monotonic() + delay_s, tries + 1)

    def _cut(self, sealed: Sealed, error: StoreError, digests: list[bytes]) -> None:
        halves = halve(sealed)
        if halves:
            with self._wake:
                for half in halves:
                    self._push(half)
            return
        log.error("a body can never be stored", extra={"code": error.code, "dead": sealed.token})
        bury(sealed, f"the engine cannot decode it: {error}")
        self._watcher.dead(sealed, str(error))
        if self._settled:
            self._settled(digests, error)


def spool_folder(data_dir: Path) -> Path:
    """Where the spool is, inside the data folder; made when it is not there."""
    folder = data_dir / "spool"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder
