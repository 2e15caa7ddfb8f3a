"""Turns out of stored spans: a trace is assembled when it has been quiet for a while.

The store is the queue. Every insert leaves a row in `trace_touch`; a watermark in `documents` says
up to where all traces are done, so a restart goes on where the last process was. Doing a trace
twice changes nothing: a turn that is the same as the stored one is not written again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from stagewatch.collector.counters import Counters
from stagewatch.core.clock import Clock, rfc3339
from stagewatch.core.codec import from_json, to_text
from stagewatch.core.errors import StagewatchError
from stagewatch.core.model import LogRow, SpanRow, Turn
from stagewatch.core.settings import Settings
from stagewatch.core.store import Store, query
from stagewatch.core.store.documents import get_document, put_document
from stagewatch.core.store.spans import MAX_SPANS, logs_of_traces, spans_of_traces
from stagewatch.core.store.turns import put_turns, retire_turns

log = logging.getLogger("stagewatch.collector.assembler")

Assemble = Callable[[Sequence[SpanRow], Sequence[LogRow]], list[Turn]]

POLL_SECONDS = 0.5
MAX_PENDING = 200_000
BATCH_TRACES = 400
BATCH_SPANS = 20_000
# An insert's rows show up when it is done, with the time at which it began. One writer's rows come
# in order; those of several writers may not, so the last half minute is looked at again at times.
_OVERLAP = timedelta(seconds=30)
_LOOK_BACK_SECONDS = 10.0
_SAVE_SECONDS = 5.0
_TOUCHES = 50_000
_REMEMBERED_ROOTS = 100_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Waiting:
    """A trace that got spans: when first and last since it was assembled, and if a root came."""

    first: datetime
    last: datetime
    has_root: bool


@dataclass(frozen=True, slots=True)
class Change:
    """What assembling a trace anew means for its stored turns."""

    write: tuple[Turn, ...]
    retire: tuple[Turn, ...]


def compare(stored: Sequence[Turn], fresh: Sequence[Turn]) -> Change:
    """Which turns to write and which stored ones to retire.

    A stored turn is retired when it is not among the fresh ones, or when its start moved into
    another minute: the minute is part of its key, so the new row would not replace it.
    """
    before = {turn.turn_id: turn for turn in stored}
    after = {turn.turn_id: turn for turn in fresh}
    write = [
        turn
        for turn in fresh
        if turn.turn_id not in before or to_text(before[turn.turn_id]) != to_text(turn)
    ]
    retire = [
        turn
        for turn in stored
        if turn.turn_id not in after
        or _minute(after[turn.turn_id].started_at) != _minute(turn.started_at)
    ]
    return Change(tuple(write), tuple(retire))


def _minute(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)


class Pending:
    """The traces that wait for their quiet time. Pure: times come in as arguments."""

    def __init__(self, quiet: timedelta, orphan: timedelta) -> None:
        self._quiet = quiet
        self._orphan = orphan
        self.traces: dict[tuple[str, str], Waiting] = {}
        self._rooted: dict[tuple[str, str], None] = {}
        self._seen: dict[tuple[str, str, datetime], None] = {}
        self.read_to = _EPOCH

    def touch(
        self, project: str, trace: str, touched: datetime, *, now: datetime, has_root: bool
    ) -> None:
        """Note one touch; a touch that was noted before is ignored.

        A touch from the future (the clock went back, or the engine's runs ahead) counts as now:
        what comes until then would else be missed, and what waits would wait for that time.
        """
        if (project, trace, touched) in self._seen:
            return
        self._seen[project, trace, touched] = None
        at = min(touched, now)
        self.read_to = max(self.read_to, at)
        key = (project, trace)
        has_root = has_root or key in self._rooted
        waiting = self.traces.get(key)
        if waiting is None:
            self.traces[key] = Waiting(at, at, has_root)
        else:
            waiting.last = max(waiting.last, at)
            waiting.first = min(waiting.first, at)
            waiting.has_root = waiting.has_root or has_root

    def rewind(self, now: datetime) -> None:
        """Follow a clock that was set back: nothing that is known may lie after `now`."""
        if self.read_to <= now:
            return
        self.read_to = now
        for waiting in self.traces.values():
            waiting.first, waiting.last = min(waiting.first, now), min(waiting.last, now)

    def since(self, overlap: timedelta = _OVERLAP) -> datetime:
        """Where to read touches from: `overlap` before the newest one."""
        return self.read_to - overlap if self.read_to > _EPOCH else _EPOCH

    def seen_since(self, since: datetime) -> int:
        """How many touches after `since` are noted."""
        return sum(key[2] > since for key in self._seen)

    def read_limit(self) -> int:
        """How many touches to read: room for new traces, beside those that are read again."""
        return len(self._seen) + min(_TOUCHES, max(0, MAX_PENDING - len(self.traces)))

    def take_due(self, now: datetime, limit: int) -> list[tuple[str, str, Waiting]]:
        """Take out at most `limit` traces whose quiet time is over."""
        due = []
        for key, waiting in self.traces.items():
            quiet = self._quiet if waiting.has_root else self._orphan
            if waiting.last + quiet <= now:
                due.append((*key, waiting))
                if len(due) >= limit:
                    break
        for project, trace, waiting in due:
            del self.traces[project, trace]
            if waiting.has_root:
                self._rooted[project, trace] = None
        while len(self._rooted) > _REMEMBERED_ROOTS:
            del self._rooted[next(iter(self._rooted))]
        return due

    def put_back(self, traces: Iterable[tuple[str, str, Waiting]]) -> None:
        """Take traces in again that could not be read or written."""
        for project, trace, waiting in traces:
            self.traces.setdefault((project, trace), waiting)

    def watermark(self) -> datetime:
        """All touches up to here are done with."""
        oldest = min((waiting.first for waiting in self.traces.values()), default=None)
        return self.since() if oldest is None else min(oldest, self.since())

    def forget(self) -> None:
        """Drop notes of touches that are not read again."""
        since = self.since()
        for key in [key for key in self._seen if key[2] <= since]:
            del self._seen[key]


class Assembler:
    """A thread that turns touched traces into turns."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        settings: Settings,
        counters: Counters,
        *,
        assemble: Assemble,
        wrote: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._counters = counters
        self._assemble = assemble
        self._wrote = wrote
        self._reopen = timedelta(hours=settings.reopen_hours)
        self.pending = Pending(
            timedelta(seconds=settings.quiet_seconds), timedelta(seconds=settings.orphan_seconds)
        )
        self._saved = _EPOCH
        self._saved_at = self._look_back_at = clock.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="assembler", daemon=True)
        self.trouble = ""
        counters.watch(
            "stagewatch_assembler_pending_traces",
            "Traces that wait to be assembled.",
            lambda: len(self.pending.traces),
        )
        counters.watch(
            "stagewatch_assembler_lag_seconds",
            "Age of the oldest touch that is not done with.",
            self.lag_seconds,
        )

    def start(self) -> None:
        """Go on where the last process was."""
        self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """End after the batch under way; False when that takes longer than `timeout_s`."""
        self._stop.set()
        if self._thread.ident is None:
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def lag_seconds(self) -> float:
        """Age of the oldest waiting trace's first touch, 0 when none waits."""
        firsts = [waiting.first for waiting in list(self.pending.traces.values())]
        return (self._clock.now() - min(firsts)).total_seconds() if firsts else 0.0

    def _run(self) -> None:
        loaded = False
        while not self._stop.is_set():
            worked = False
            try:
                if not loaded:
                    self._load()
                    loaded = True
                worked = self.step()
                self.trouble = ""
            except StagewatchError as error:
                self.trouble = str(error)
                log.warning("the assembler waits for the store", extra={"why": str(error)})
            except Exception as error:  # noqa: BLE001 - the worker's edge: it must go on
                self.trouble = type(error).__name__
                log.error("the assembler failed", extra={"error": type(error).__name__})
            if not worked:
                self._stop.wait(POLL_SECONDS)
        self._save(force=True)

    def step(self) -> bool:
        """Read new touches and assemble what is due; True when more is due at once."""
        self._poll()
        due = self.pending.take_due(self._clock.now(), BATCH_TRACES)
        if due:
            try:
                self._finish(due)
            except BaseException:
                self.pending.put_back(due)
                raise
        self._save(force=False)
        return len(due) >= BATCH_TRACES

    def _poll(self) -> None:
        wall = self._clock.now()
        self.pending.rewind(wall)
        now = self._clock.monotonic()
        since = self.pending.since(timedelta(0))
        if now >= self._look_back_at:
            self._look_back_at = now + _LOOK_BACK_SECONDS
            back = self.pending.since()
            if self._store.value(query("spans_touch_count"), {"since": back}) != (
                self.pending.seen_since(back)
            ):
                since = back
        asked = {"since": since, "limit": self.pending.read_limit()}
        for row in self._store.rows(query("spans_touches"), asked):
            self.pending.touch(
                row["project"],
                row["trace"].lower(),
                row["touched_at"].replace(tzinfo=UTC),
                now=wall,
                has_root=bool(row["has_root"]),
            )
        self.pending.forget()

    def _load(self) -> None:
        found = get_document(self._store, "assembler", "watermark")
        if found is not None:
            self.pending.read_to = datetime.fromisoformat(found["touched_at"]) + _OVERLAP
            self._saved = datetime.fromisoformat(found["touched_at"])

    def _save(self, *, force: bool) -> None:
        mark = self.pending.watermark()
        now = self._clock.monotonic()
        if mark == self._saved or (now - self._saved_at < _SAVE_SECONDS and not force):
            return
        # Touches at the mark itself are read again: `touched_at > since`.
        body = {"touched_at": rfc3339(mark - timedelta(milliseconds=1))}
        try:
            put_document(self._store, "assembler", "watermark", body, at=self._clock.now())
        except StagewatchError as error:
            log.warning("the assembler's watermark is not saved", extra={"why": str(error)})
            return
        self._saved, self._saved_at = mark, now

    def _finish(self, due: Sequence[tuple[str, str, Waiting]]) -> None:
        by_project: dict[str, list[str]] = {}
        for project, trace, _ in due:
            by_project.setdefault(project, []).append(trace)
        for project, traces in by_project.items():
            for group in self._groups(project, traces):
                self._assemble_group(project, group)

    def _groups(self, project: str, traces: Sequence[str]) -> Iterable[dict[str, datetime | None]]:
        """Traces (with the time of their first span) in groups that are read at once."""
        index = {
            row["trace"].lower(): row
            for row in self._store.rows(
                query("spans_index_of_traces"), {"project": project, "ids": list(traces)}
            )
        }
        group: dict[str, datetime | None] = {}
        size = 0
        for trace in traces:
            row = index.get(trace)
            stored = int(row["stored"]) if row else 0
            if group and size + stored > BATCH_SPANS:
                yield group
                group, size = {}, 0
            group[trace] = row["first_received"].replace(tzinfo=UTC) if row else None
            size += stored
        if group:
            yield group

    def _assemble_group(self, project: str, group: Mapping[str, datetime | None]) -> None:
        ids = list(group)
        spans = spans_of_traces(self._store, project, ids, limit=MAX_SPANS)
        logs = logs_of_traces(self._store, project, ids, limit=MAX_SPANS)
        stored, revision = self._stored_turns(project, ids)
        write: list[Turn] = []
        for trace, first_received in group.items():
            known = stored.get(trace, [])
            late = first_received is not None and (
                self._clock.now() - first_received > self._reopen
            )
            if known and late:
                self._counters.traces.labels("too_late").inc()
                continue
            change = self._change(trace, known, spans.get(trace, []), logs.get(trace, []))
            if change is None:
                continue
            self._retire(change, revision)
            write += change.write
            ids_known = {turn.turn_id for turn in known}
            new = sum(turn.turn_id not in ids_known for turn in change.write)
            self._counters.assembled.labels("new").inc(new)
            self._counters.assembled.labels("changed").inc(len(change.write) - new)
        if write:
            put_turns(self._store, write, assembled_at=self._clock.now(), revision=revision + 1)
            self._wrote()

    def _change(
        self,
        trace: str,
        known: Sequence[Turn],
        spans: Sequence[SpanRow],
        logs: Sequence[LogRow],
    ) -> Change | None:
        if not spans:
            return None
        try:
            fresh = self._assemble(spans, logs)
        except Exception as error:  # noqa: BLE001 - the worker's edge: one trace must not stop the rest
            self._counters.traces.labels("failed").inc()
            log.error(
                "a trace cannot be assembled",
                extra={"trace_id": trace, "error": type(error).__name__},
            )
            return None
        self._counters.traces.labels("turns" if fresh else "none").inc()
        return compare(known, fresh)

    def _retire(self, change: Change, revision: int) -> None:
        if not change.retire:
            return
        heir = change.write[0].turn_id if change.write else change.retire[0].trace_id
        retire_turns(
            self._store,
            change.retire,
            replaced_by=heir,
            assembled_at=self._clock.now(),
            revision=revision,
        )
        self._counters.assembled.labels("retired").inc(len(change.retire))

    def _stored_turns(
        self, project: str, traces: Sequence[str]
    ) -> tuple[dict[str, list[Turn]], int]:
        """Stored turns by trace, and a revision above all of theirs (the next one is free too)."""
        found: dict[str, list[Turn]] = {}
        revision = int(self._clock.now().timestamp() * 1000)
        rows: list[dict[str, Any]] = self._store.rows(
            query("spans_existing_turns"), {"project": project, "ids": list(traces)}
        )
        for row in rows:
            found.setdefault(row["trace_id"], []).append(from_json(Turn, row["body"]))
            revision = max(revision, int(row["revision"]) + 1)
        return found, revision
