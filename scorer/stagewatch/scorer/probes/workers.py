"""Rows asked side by side in threads that keep no process alive.

The threads of an executor are joined when the interpreter ends, so an app that does not answer
would hold up a shutdown for as long as its timeout.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

from stagewatch.core.clock import Clock
from stagewatch.core.model import DatasetRow
from stagewatch.core.store.probes import ProbedRow

Asked = tuple[ProbedRow, str]
"""A row's result, and why it has no scores."""

LEAVE_S = 1.0
"""How long rows under way are waited for once a pass is told to stop."""

_LOOK_S = 0.1


def completed(
    rows: Sequence[DatasetRow],
    ask: Callable[[DatasetRow], Asked],
    limit: int,
    *,
    halted: Callable[[], bool],
    stop: threading.Event,
    clock: Clock,
) -> Iterator[Asked | None]:
    """Rows as they finish, never more than `limit` under way; None now and then while none does.

    Args:
        rows: what to ask, in order.
        ask: asks one; what it raises is raised here.
        limit: most rows at once.
        halted: True begins no more rows, and waits for those under way.
        stop: set, it leaves rows under way to themselves after `LEAVE_S` seconds.
        clock: measures that.
    """
    done: queue.SimpleQueue[Asked | BaseException] = queue.SimpleQueue()

    def work(row: DatasetRow) -> None:
        try:
            done.put(ask(row))
        except BaseException as error:  # noqa: BLE001 - it is raised where the pass is
            done.put(error)

    left, under_way = iter(rows), 0
    told_at: float | None = None
    while True:
        fresh: Iterable[DatasetRow] = () if halted() else _next(left, limit - under_way)
        for row in fresh:
            threading.Thread(target=work, args=(row,), name="probe-row", daemon=True).start()
            under_way += 1
        if not under_way:
            return
        if stop.is_set():
            told_at = clock.monotonic() if told_at is None else told_at
            if clock.monotonic() - told_at > LEAVE_S:
                return
        try:
            found = done.get(timeout=_LOOK_S)
        except queue.Empty:
            yield None
            continue
        under_way -= 1
        if isinstance(found, BaseException):
            raise found
        yield found


def _next(left: Iterator[DatasetRow], most: int) -> Iterator[DatasetRow]:
    for _ in range(most):
        row = next(left, None)
        if row is None:
            return
        yield row
