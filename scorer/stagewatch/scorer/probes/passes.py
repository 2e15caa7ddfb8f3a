"""One pass of a probe: its rows asked once, stored as they come, within the day's calls."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from stagewatch.core.clock import Clock
from stagewatch.core.codec import from_plain, to_plain
from stagewatch.core.errors import ConflictError, InvalidInputError, NotFoundError
from stagewatch.core.model import DatasetRow
from stagewatch.core.settings import Settings
from stagewatch.core.store.client import Store
from stagewatch.core.store.datasets import current_rows, latest_version, rows_of_version
from stagewatch.core.store.documents import get_document
from stagewatch.core.store.probes import (
    ProbedRow,
    calls_on,
    last_asked,
    list_passes,
    mark_traces,
    put_pass,
    put_probed_rows,
)
from stagewatch.scorer.judges.choose import choose
from stagewatch.scorer.judges.protocol import Judge
from stagewatch.scorer.plans.columns import chosen_rows
from stagewatch.scorer.plans.connector import open_app
from stagewatch.scorer.plans.plan import Plan
from stagewatch.scorer.plans.run import Bench
from stagewatch.scorer.plans.selective import SelectiveJudge, tasks_of
from stagewatch.scorer.probes.ask import Probing, probe_row
from stagewatch.scorer.probes.probe import Probe, plan_of, raw_plan

DEAD_AFTER = timedelta(minutes=15)
"""A running pass that has said nothing for so long was cut short by a crash."""

HOPELESS_AFTER = 5
_TELL_S = 2.0
_ROTATION = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass. `counts` has rows by verdict, `calls` how often the app was asked, `note` why it
    ended early or left rows out.
    """

    pass_id: str
    probe: str
    project: str
    dataset: str
    version: int | None
    state: str
    started_at: datetime
    updated_at: datetime
    rows: int
    done: int = 0
    calls: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    note: str = ""
    by: str = ""
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a pass runs with. `allowed_env` None and `local` True are for a person's own shell."""

    store: Store
    settings: Settings
    clock: Clock
    environ: Mapping[str, str]
    new_id: Callable[[], str]
    allowed_env: Collection[str] | None = None
    local: bool = False


def read_pass(body: Mapping[str, Any]) -> Pass:
    """A pass from its stored body."""
    return from_plain(Pass, dict(body))


def passes_of(store: Store, project: str, probe: str, limit: int = 50) -> list[Pass]:
    """The newest passes of a probe, newest first."""
    return [read_pass(body) for body in list_passes(store, project, probe, limit)]


def is_alive(item: Pass, now: datetime) -> bool:
    """Whether a pass is under way somewhere, as far as the store tells."""
    return item.state == "running" and now - item.updated_at < DEAD_AFTER


def is_due(probe: Probe, newest: Pass | None, now: datetime) -> bool:
    """Whether it is time for the next pass."""
    if not probe.enabled:
        return False
    if newest is None:
        return True
    return not is_alive(newest, now) and now - newest.started_at >= timedelta(
        minutes=probe.every_minutes
    )


def rows_for(store: Store, project: str, probe: Probe) -> tuple[int | None, list[DatasetRow]]:
    """(dataset version, rows to ask); the version is None for the working copy.

    Raises:
        NotFoundError: no such dataset or version.
        InvalidInputError: it has no row with the probe's tags.
    """
    if get_document(store, "datasets", probe.dataset, project=project) is None:
        raise NotFoundError(f"no dataset {probe.dataset!r} in project {project!r}")
    version = probe.version or latest_version(store, project, probe.dataset) or None
    found = (
        current_rows(store, project, probe.dataset)
        if version is None
        else rows_of_version(store, project, probe.dataset, version)
    )
    rows = chosen_rows(plan_of(probe), found)
    if not rows:
        raise InvalidInputError(f"dataset {probe.dataset!r} has no rows for this probe to ask")
    return version, rows


def run_pass(
    around: Surroundings,
    project: str,
    probe: Probe,
    *,
    by: str = "",
    stop: threading.Event | None = None,
    given: Sequence[DatasetRow] | None = None,
) -> Pass:
    """Ask the rows once and store what came.

    Args:
        around: store, settings, time, what the connector may use.
        project: of the probe.
        probe: what to do.
        by: who started it; empty for the schedule.
        stop: set it to end after the rows under way.
        given: rows to ask instead of the dataset's.

    Returns:
        The pass at its end: `finished`, or `stopped` with the reason in `note`.

    Raises:
        ConflictError: a pass of this probe is under way.
        NotFoundError, InvalidInputError: as `rows_for` and `open_app`.
    """
    store, now = around.store, around.clock.now()
    newest = passes_of(store, project, probe.name, 1)
    if newest and is_alive(newest[0], now):
        raise ConflictError(f"a pass of probe {probe.name!r} is under way")
    version, rows = (None, list(given)) if given is not None else rows_for(store, project, probe)
    probing, over_budget = _probing(around, project, probe, version)
    asked, note = _affordable(store, project, probe, rows, now)
    started = Pass(
        around.new_id()[:16], probe.name, project, probe.dataset, version, "running", now, now,
        rows=len(asked), note=note, by=by, counts={"pass": 0, "fail": 0, "errored": 0},
    )  # fmt: skip
    _tell(store, started, now)
    return _carry_out(around, started, asked, probing, over_budget, stop or threading.Event())


def _probing(
    around: Surroundings, project: str, probe: Probe, version: int | None
) -> tuple[Probing, Callable[[], bool]]:
    plan = plan_of(probe)
    settings = around.settings
    if plan.judge is not None:
        settings = replace(settings, judge=plan.judge, judge_model=plan.judge_model)
    chosen = choose(settings, around.store, around.clock, concurrency=plan.connector.concurrency)
    other = raw_plan(probe)

    def bench(plan: Plan, judge: Judge) -> Bench:
        app = open_app(
            plan.connector, environ=around.environ, allowed_env=around.allowed_env,
            local=around.local,
        )  # fmt: skip
        selective = SelectiveJudge(judge, tasks_of(plan.measured))
        return Bench(plan, app, selective, around.clock, f"probe-{probe.name}", project)

    def mark(trace_id: str) -> None:
        mark_traces(around.store, project, probe.name, [trace_id], at=around.clock.now())

    return Probing(
        probe.name, bench(plan, chosen.judge),
        bench(other, chosen.judge) if other is not None else None,
        around.new_id, mark, version or 0,
    ), (chosen.ledger.over_budget if chosen.ledger else lambda: False)  # fmt: skip


def _affordable(
    store: Store, project: str, probe: Probe, rows: Sequence[DatasetRow], now: datetime
) -> tuple[list[DatasetRow], str]:
    """The rows that the day's calls allow; those asked longest ago come first."""
    last = last_asked(store, project, probe.name, now - _ROTATION)
    waiting = sorted(rows, key=lambda row: (row.row_id in last, last.get(row.row_id, now)))
    left = probe.max_calls_per_day - calls_on(store, project, probe.name, now)
    asked: list[DatasetRow] = []
    for row in waiting:
        need = 2 if probe.raw is not None and row.needs else 1
        if need > left:
            break
        left -= need
        asked.append(row)
    if len(asked) == len(rows):
        return asked, ""
    return asked, (
        f"{len(asked)} of {len(rows)} rows: the {probe.max_calls_per_day} calls of the day are "
        "used up; rows asked longest ago came first"
    )


def _tell(store: Store, item: Pass, now: datetime) -> None:
    put_pass(store, item.project, to_plain(replace(item, updated_at=now)), at=now)


@dataclass(slots=True)
class _Tally:
    """What of a pass is stored, and what waits for it."""

    item: Pass
    waiting: list[ProbedRow] = field(default_factory=list)
    told_at: float = 0.0
    same_error: str | None = None
    broken: bool = False

    def add(self, row: ProbedRow, error: str) -> None:
        counts = dict(self.item.counts)
        counts[row.verdict] = counts.get(row.verdict, 0) + 1
        self.item = replace(
            self.item, done=self.item.done + 1, calls=self.item.calls + row.calls, counts=counts
        )
        self.waiting.append(row)
        if self.same_error is None:
            self.same_error = error
        self.broken = self.broken or not error or error != self.same_error

    def hopeless(self) -> str:
        """Why going on is no use; "" while it may be."""
        if self.broken or self.item.done < min(HOPELESS_AFTER, self.item.rows):
            return ""
        return f"every row errors: {self.same_error}"

    def flush(self, around: Surroundings) -> None:
        now = around.clock.now()
        put_probed_rows(
            around.store, self.item.project, self.item.probe, self.item.pass_id, self.waiting,
            at=now,
        )  # fmt: skip
        self.waiting = []
        _tell(around.store, self.item, now)
        self.told_at = around.clock.monotonic()


def _carry_out(
    around: Surroundings,
    started: Pass,
    rows: Sequence[DatasetRow],
    probing: Probing,
    over_budget: Callable[[], bool],
    stop: threading.Event,
) -> Pass:
    tally, halt, why = _Tally(started), threading.Event(), ""
    with ThreadPoolExecutor(probing.bench.plan.connector.concurrency, "probe") as pool:
        for row, error in _completed(pool, rows, probing, lambda: halt.is_set() or stop.is_set()):
            tally.add(row, error)
            why = why or tally.hopeless()
            if not why and over_budget():
                why = "the judge's budget of the day is used up"
            if why:
                halt.set()
            if around.clock.monotonic() - tally.told_at > _TELL_S:
                tally.flush(around)
    whole = tally.item.done == len(rows) and not why
    now = around.clock.now()
    reason = why or ("" if whole else "stopped before every row was asked")
    tally.item = replace(
        tally.item,
        state="finished" if whole else "stopped",
        ended_at=now,
        note="; ".join(part for part in (tally.item.note, reason) if part),
    )
    tally.flush(around)
    return replace(tally.item, updated_at=now)


def _completed(
    pool: ThreadPoolExecutor,
    rows: Sequence[DatasetRow],
    probing: Probing,
    halted: Callable[[], bool],
) -> Iterable[tuple[ProbedRow, str]]:
    """(row, its error) as they finish; never more under way than the connector's concurrency."""
    left = iter(rows)
    limit = probing.bench.plan.connector.concurrency
    under_way: set[Future[tuple[ProbedRow, str]]] = set()
    while True:
        while len(under_way) < limit and not halted():
            row = next(left, None)
            if row is None:
                break
            under_way.add(pool.submit(probe_row, row, probing))
        if not under_way:
            return
        finished, under_way = wait(under_way, return_when=FIRST_COMPLETED)
        for future in finished:
            yield future.result()
