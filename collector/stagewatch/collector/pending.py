"""Which traces wait to be assembled, and what assembling them anew changes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from stagewatch.core.codec import to_text
from stagewatch.core.model import Turn

MAX_PENDING = 200_000
# An insert's rows show up when it is done, with the time at which it began. One writer's rows come
# in order; those of several writers may not, so the last half minute is looked at again at times.
OVERLAP = timedelta(seconds=30)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TOUCHES = 50_000
_REMEMBERED_ROOTS = 100_000


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
        self.read_to = EPOCH

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

    def since(self, overlap: timedelta = OVERLAP) -> datetime:
        """Where to read touches from: `overlap` before the newest one."""
        return self.read_to - overlap if self.read_to > EPOCH else EPOCH

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
