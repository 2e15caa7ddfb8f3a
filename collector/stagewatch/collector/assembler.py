"""Turns out of stored spans: a trace is assembled when it has been quiet for a while.

The store is the queue. Every insert leaves a row in `trace_touch`; a watermark in `documents` says
up to where all traces are done, so a restart goes on where the last process was. Doing a trace
twice changes nothing: a turn that is the same as the stored one is not written again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from stagewatch.collector.counters import Counters
from stagewatch.collector.pending import EPOCH, OVERLAP, Change, Pending, Waiting, compare
from stagewatch.core.clock import Clock, rfc3339
from stagewatch.core.codec import from_json
from stagewatch.core.errors import StagewatchError
from stagewatch.core.model import LogRow, SpanRow, Turn
from stagewatch.core.settings import Settings
from stagewatch.core.store import Store, query
from stagewatch.core.store.documents import get_document, put_document
from stagewatch.core.store.probes import probe_traces_among
from stagewatch.core.store.spans import (
    MAX_SPANS,
    TraceExtent,
    extents_of_traces,
    logs_of_traces,
    spans_of_traces,
)
from stagewatch.core.store.turns import put_turns, retire_turns

log = logging.getLogger("stagewatch.collector.assembler")

Assemble = Callable[[Sequence[SpanRow], Sequence[LogRow]], list[Turn]]

_Group = dict[str, TraceExtent | None]

POLL_SECONDS = 0.5
BATCH_TRACES = 400
BATCH_SPANS = 20_000
_LOOK_BACK_SECONDS = 10.0
_SAVE_SECONDS = 5.0


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
        number, _, shares = settings.assembly_share.partition("/")
        self._share = {"share": int(number) - 1, "shares": int(shares)}
        # Each share has read up to a place of its own.
        self._watermark = "watermark" if shares == "1" else f"watermark {settings.assembly_share}"
        self._reopen = timedelta(hours=settings.reopen_hours)
        self.pending = Pending(
            timedelta(seconds=settings.quiet_seconds), timedelta(seconds=settings.orphan_seconds)
        )
        self._saved = EPOCH
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
            if self._store.value(query("spans_touch_count"), {"since": back, **self._share}) != (
                self.pending.seen_since(back)
            ):
                since = back
        asked = {"since": since, "limit": self.pending.read_limit(), **self._share}
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
        found = get_document(self._store, "assembler", self._watermark)
        if found is not None:
            self.pending.read_to = datetime.fromisoformat(found["touched_at"]) + OVERLAP
            self._saved = datetime.fromisoformat(found["touched_at"])

    def _save(self, *, force: bool) -> None:
        mark = self.pending.watermark()
        now = self._clock.monotonic()
        if mark == self._saved or (now - self._saved_at < _SAVE_SECONDS and not force):
            return
        # Touches at the mark itself are read again: `touched_at > since`.
        body = {"touched_at": rfc3339(mark - timedelta(milliseconds=1))}
        try:
            put_document(self._store, "assembler", self._watermark, body, at=self._clock.now())
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

    def _groups(self, project: str, traces: Sequence[str]) -> Iterable[_Group]:
        """Traces (with where they lie, when known) in groups that are read at once."""
        extents = extents_of_traces(self._store, project, traces)
        group: _Group = {}
        size = 0
        for trace in traces:
            extent = extents.get(trace)
            stored = extent.stored if extent else 0
            if group and size + stored > BATCH_SPANS:
                yield group
                group, size = {}, 0
            group[trace] = extent
            size += stored
        if group:
            yield group

    def _assemble_group(self, project: str, group: _Group) -> None:
        ids = list(group)
        extents = {trace: extent for trace, extent in group.items() if extent is not None}
        spans = spans_of_traces(self._store, project, ids, limit=MAX_SPANS, extents=extents)
        logs = logs_of_traces(self._store, project, ids, limit=MAX_SPANS)
        stored, revision = self._stored_turns(project, ids)
        probes = probe_traces_among(self._store, project, ids)
        write: list[Turn] = []
        for trace, extent in group.items():
            known = stored.get(trace, [])
            late = extent is not None and (self._clock.now() - extent.first_received > self._reopen)
            if known and late:
                self._counters.traces.labels("too_late").inc()
                continue
            change = self._change(
                trace, known, spans.get(trace, []), logs.get(trace, []), probe=trace in probes
            )
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
        *,
        probe: bool,
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
        if probe:
            # A probe asked this, whether the app passed the mark on or not.
            fresh = [replace(turn, probe=True) for turn in fresh]
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
