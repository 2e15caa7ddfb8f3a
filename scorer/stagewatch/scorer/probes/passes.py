"""One pass of a probe: its rows asked once, stored as they come, within the day's calls."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from stagewatch.core.clock import Clock
from stagewatch.core.errors import ConflictError, InvalidInputError, NotFoundError, StagewatchError
from stagewatch.core.model import DatasetRow
from stagewatch.core.settings import Settings
from stagewatch.core.store.client import Store
from stagewatch.core.store.datasets import current_rows, latest_version, rows_of_version
from stagewatch.core.store.documents import get_document
from stagewatch.core.store.probes import (
    ProbedRow,
    calls_on,
    last_asked,
    mark_traces,
    put_probed_rows,
)
from stagewatch.scorer.judges.choose import choose
from stagewatch.scorer.judges.protocol import Judge
from stagewatch.scorer.leases import ALIVE_SECONDS, BEAT_SECONDS
from stagewatch.scorer.plans.columns import chosen_rows
from stagewatch.scorer.plans.connector import App, open_app
from stagewatch.scorer.plans.plan import Plan
from stagewatch.scorer.plans.run import Bench
from stagewatch.scorer.plans.selective import SelectiveJudge, tasks_of
from stagewatch.scorer.probes.ask import Probing, probe_row
from stagewatch.scorer.probes.probe import Probe, plan_of, raw_plan
from stagewatch.scorer.probes.record import (
    BLOCKED,
    Pass,
    beat_pass,
    passes_of,
    settled_pass,
    tell_pass,
)
from stagewatch.scorer.probes.workers import completed

HOPELESS_AFTER = 5
_TELL_S = 2.0
_QUIET_TELL_S = 20.0
_ROTATION = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a pass runs with. `allowed_env` None and `local` True are for a person's own shell.

    `owner` is this process's name, one for all that carry out passes in it.
    """

    store: Store
    settings: Settings
    clock: Clock
    environ: Mapping[str, str]
    new_id: Callable[[], str]
    allowed_env: Collection[str] | None = None
    local: bool = False
    owner: str = ""


def check_ready(around: Surroundings, project: str, probe: Probe) -> None:
    """Raise what a pass of this probe would be blocked by: its rows, its address, its variables.

    Raises:
        NotFoundError, InvalidInputError: as `rows_for` and `open_app`, saying what to do.
    """
    rows_for(around.store, project, probe)
    check_apps(around, probe)


def check_apps(around: Surroundings, probe: Probe) -> None:
    """The part of `check_ready` that is about the connector."""
    for plan in (plan_of(probe), raw_plan(probe)):
        if plan is not None:
            _app(around, plan)


def _app(around: Surroundings, plan: Plan) -> App:
    return open_app(
        plan.connector, environ=around.environ, allowed_env=around.allowed_env, local=around.local
    )


def put_blocked(
    around: Surroundings, project: str, probe: Probe, why: str, *, pass_id: str, by: str = ""
) -> bool:
    """Store that a pass could not begin; whether that is news.

    What blocks the schedule again for the same reason is the same pass, told once.
    """
    now = around.clock.now()
    newest = next(iter(passes_of(around.store, project, probe.name, 1)), None)
    same = newest is not None and (newest.state, newest.note) == (BLOCKED, why) and not by
    if newest is not None and same:
        item = replace(newest, ended_at=now)
    else:
        item = Pass(
            pass_id, probe.name, project, probe.dataset, probe.version, BLOCKED, now, now, rows=0,
            note=why, by=by, counts={"pass": 0, "fail": 0, "errored": 0}, ended_at=now,
        )  # fmt: skip
    tell_pass(around.store, item, now)
    return not same


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
    pass_id: str = "",
) -> Pass:
    """Ask the rows once and store what came.

    Args:
        around: store, settings, time, what the connector may use.
        project: of the probe.
        probe: what to do.
        by: who started it; empty for the schedule.
        stop: set it to end after the rows under way.
        given: rows to ask instead of the dataset's.
        pass_id: of the pass; a new one when empty.

    Returns:
        The pass at its end: `finished`, or `stopped` with the reason in `note`.

    Raises:
        ConflictError: a pass of this probe is under way.
        NotFoundError, InvalidInputError: as `rows_for` and `open_app`.
    """
    store, now = around.store, around.clock.now()
    need_nobody(around, project, probe)
    version, rows = (None, list(given)) if given is not None else rows_for(store, project, probe)
    probing, over_budget = _probing(around, project, probe, version)
    asked, note = _affordable(store, project, probe, rows, now)
    started = Pass(
        pass_id or around.new_id()[:16], probe.name, project, probe.dataset, version, "running",
        now, now, rows=len(asked), note=note, by=by, counts={"pass": 0, "fail": 0, "errored": 0},
        owner=around.owner,
    )  # fmt: skip
    beat_pass(store, started)
    tell_pass(store, started, now)
    return _carry_out(around, started, asked, probing, over_budget, stop or threading.Event())


def need_nobody(around: Surroundings, project: str, probe: Probe) -> None:
    """Raise ConflictError while a pass of the probe is under way, here or elsewhere."""
    newest = settled_pass(around.store, project, probe.name, around.owner, around.clock.now())
    if newest is not None and newest.state == "running":
        raise ConflictError(f"a pass of probe {probe.name!r} is under way")


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
        selective = SelectiveJudge(judge, tasks_of(plan.measured))
        return Bench(
            plan, _app(around, plan), selective, around.clock, f"probe-{probe.name}", project
        )

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


@dataclass(slots=True)
class _Tally:
    """What of a pass is stored, and what waits for it."""

    item: Pass
    waiting: list[ProbedRow] = field(default_factory=list)
    told_at: float = 0.0
    beaten_at: float = 0.0
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

    def beat(self, around: Surroundings) -> str:
        """Say now and then that the pass is under way; why it is another's by now, "" if it isn't.

        Others take a silent pass for dead, and the store may have been away for that long.
        """
        silent_s = around.clock.monotonic() - self.beaten_at
        if silent_s < BEAT_SECONDS:
            return ""
        beat_pass(around.store, self.item)
        self.beaten_at = around.clock.monotonic()
        if silent_s <= ALIVE_SECONDS:
            return ""
        newest = passes_of(around.store, self.item.project, self.item.probe, 1)
        taken = bool(newest) and newest[0].pass_id != self.item.pass_id
        return "it was silent for too long, and another pass began" if taken else ""

    def flush(self, around: Surroundings) -> None:
        now = around.clock.now()
        put_probed_rows(
            around.store, self.item.project, self.item.probe, self.item.pass_id, self.waiting,
            at=now,
        )  # fmt: skip
        self.waiting = []
        tell_pass(around.store, self.item, now)
        self.told_at = around.clock.monotonic()


def _carry_out(
    around: Surroundings,
    started: Pass,
    rows: Sequence[DatasetRow],
    probing: Probing,
    over_budget: Callable[[], bool],
    stop: threading.Event,
) -> Pass:
    tally = _Tally(started, beaten_at=around.clock.monotonic())
    try:
        why = _ask_all(around, tally, rows, probing, over_budget, stop)
    except Exception as error:  # noqa: BLE001 - whatever happens, the pass has an end
        tally.waiting = []
        kind = str(error) if isinstance(error, StagewatchError) else type(error).__name__
        why = f"the pass broke off: {kind}"
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


def _ask_all(
    around: Surroundings,
    tally: _Tally,
    rows: Sequence[DatasetRow],
    probing: Probing,
    over_budget: Callable[[], bool],
    stop: threading.Event,
) -> str:
    """Ask the rows and store what comes; why it ended early, "" when it did not."""
    why, halt, clock = "", threading.Event(), around.clock
    for found in completed(
        rows, lambda row: probe_row(row, probing), probing.bench.plan.connector.concurrency,
        halted=lambda: halt.is_set() or stop.is_set(), stop=stop, clock=clock,
    ):  # fmt: skip
        if found is not None:
            tally.add(*found)
            why = why or tally.hopeless()
            if not why and over_budget():
                why = "the judge's budget of the day is used up"
        why = why or tally.beat(around)
        if why:
            halt.set()
        # A pass that waits says how far it is too: people look at it.
        if clock.monotonic() - tally.told_at > (_TELL_S if found is not None else _QUIET_TELL_S):
            tally.flush(around)
    return why
