"""One request body from either protocol: checked, known again or spooled, then answered."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable

import xxhash

from stagewatch.collector.check import Checked, check_protobuf
from stagewatch.collector.counters import Counters
from stagewatch.collector.duplicates import RecentBodies, body_key
from stagewatch.collector.frames import Frame
from stagewatch.collector.otlp_json import check_json
from stagewatch.collector.refusal import RefusedError, bad_request, overloaded
from stagewatch.collector.signals import METRICS, Signal
from stagewatch.collector.spool import Entry, Spool
from stagewatch.core.errors import OverloadedError


class Intake:
    """Takes bodies on one event loop. `now_ns` gives Unix nanoseconds, `monotonic` seconds."""

    def __init__(
        self,
        spool: Spool,
        counters: Counters,
        recent: RecentBodies,
        *,
        now_ns: Callable[[], int],
        monotonic: Callable[[], float],
        wait_for_insert: bool,
    ) -> None:
        self._spool = spool
        self._counters = counters
        self._recent = recent
        self._now_ns = now_ns
        self._monotonic = monotonic
        self._wait_for_insert = wait_for_insert
        self._loop: asyncio.AbstractEventLoop | None = None
        # Bodies on their way, so that a second copy waits for the first one's fate.
        self._flying: dict[bytes, asyncio.Future[None]] = {}
        self._by_digest: dict[bytes, list[bytes]] = {}
        self._landed: deque[tuple[bytes, Exception | None]] = deque()

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Name the loop that calls `take`."""
        self._loop = loop

    def refuse_early(self) -> None:
        """Raise the refusal that a body would meet anyway, before it is read.

        Raises:
            RefusedError: 503, the spool takes nothing now.
        """
        reason = self._spool.refuses()
        if reason:
            raise overloaded(reason)

    async def take(
        self, signal: Signal, project: str, body: bytes | bytearray, *, as_json: bool
    ) -> Checked:
        """Return once the body is durable (or stored, by setting): what was kept and rejected.

        Raises:
            RefusedError: undecodable, or not now.
        """
        if signal is METRICS:
            self._counters.bodies.labels("metrics", "dropped").inc()
            return Checked(b"", 0, 0, Counter())
        checked = check_json(signal, bytes(body)) if as_json else check_protobuf(signal, body)
        if checked.rejected:
            self._counters.count_rejected(signal.name, checked.rejected)
        if not checked.items:
            self._counters.bodies.labels(signal.name, "empty").inc()
            return checked
        await self._store_once(signal, project, checked)
        return checked

    async def _store_once(self, signal: Signal, project: str, checked: Checked) -> None:
        digest = xxhash.xxh3_128_digest(checked.body)
        key = body_key(project, digest)
        flying = self._flying.get(key)
        if flying is not None:
            # Shielded: this client may go away while the first one still waits.
            await asyncio.shield(flying)
        if flying is not None or key in self._recent:
            self._counters.bodies.labels(signal.name, "duplicate").inc()
            return
        landed = self._launch(signal, project, checked, digest, key)
        await asyncio.shield(landed)
        self._counters.bodies.labels(signal.name, "stored").inc()
        self._counters.items.labels(signal.name).inc(checked.items)
        self._counters.bytes.labels(signal.name).inc(len(checked.body))

    def _launch(
        self, signal: Signal, project: str, checked: Checked, digest: bytes, key: bytes
    ) -> asyncio.Future[None]:
        loop = self._loop or asyncio.get_running_loop()
        self._loop = loop
        landed: asyncio.Future[None] = loop.create_future()
        # Nobody may be left to await it when its client has gone away.
        landed.add_done_callback(lambda done: done.cancelled() or done.exception())
        frame = Frame(project, self._now_ns(), checked.entries, digest, len(checked.body))

        def synced(error: Exception | None) -> None:
            if error is not None or not self._wait_for_insert:
                self._report(key, error)

        try:
            self._spool.append(Entry(signal.name, frame, checked.body, synced))
        except OverloadedError as error:
            raise overloaded(str(error), error.retry_after_s) from None
        self._flying[key] = landed
        if self._wait_for_insert:
            self._by_digest.setdefault(digest, []).append(key)
        return landed

    def _report(self, key: bytes, error: Exception | None) -> None:
        """From the spool's thread: one wake-up of the loop for a whole group."""
        self._landed.append((key, error))
        if len(self._landed) == 1 and self._loop is not None:
            self._loop.call_soon_threadsafe(self._land)

    def _land(self) -> None:
        # A report that slips in once the queue is empty is again a first one: see `_report`.
        now = self._monotonic()
        while self._landed:
            key, error = self._landed.popleft()
            future = self._flying.pop(key, None)
            if error is None:
                self._recent.add(key, now)
            if future is None or future.done():
                continue
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(_refusal(error))

    def settled(self, digests: Iterable[bytes], error: Exception | None) -> None:
        """From the writer's thread, when a yes waits for the insert: these bodies are stored, or
        never will be.
        """
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._settle, list(digests), error)

    def _settle(self, digests: list[bytes], error: Exception | None) -> None:
        for digest in digests:
            for key in self._by_digest.pop(digest, ()):
                self._landed.append((key, error))
        self._land()


def _refusal(error: Exception) -> RefusedError:
    if isinstance(error, OverloadedError):
        return overloaded(str(error), error.retry_after_s)
    return bad_request("the body cannot be stored: the engine cannot decode it")
