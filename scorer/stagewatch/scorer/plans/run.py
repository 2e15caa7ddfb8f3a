"""Running a plan: every row asked once, scored by its labels, stored as it comes.

What is stored is the checkpoint: a run that was killed goes on with the rows it lacks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from datetime import timedelta

from stagewatch.core.clock import Clock
from stagewatch.core.model import Chunk, DatasetRow, Turn
from stagewatch.core.store.client import Store
from stagewatch.core.store.runs import put_run, put_run_rows, run_row_ids, run_summaries
from stagewatch.scorer.evaluate import Evaluation, ScoreConfig, evaluate_turn, gold_of
from stagewatch.scorer.judges.protocol import Judge
from stagewatch.scorer.metrics.hygiene import compare_versions
from stagewatch.scorer.plans.connector import FOUND_NOTHING, App, read_turn, values_of
from stagewatch.scorer.plans.exchange import RowError
from stagewatch.scorer.plans.plan import Plan
from stagewatch.scorer.plans.results import (
    Run,
    RunRow,
    count_verdicts,
    read_summary,
    run_body,
    summary_text,
)
from stagewatch.scorer.plans.selective import SelectiveJudge, tasks_of

FLUSH_ROWS = 32
FLUSH_S = 1.0
HOPELESS_AFTER = 5
"""When the first so many rows all fail for one reason, the rest would too."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is: rows `done` of `total`, and how many of them passed, failed, errored."""

    done: int
    total: int
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Bench:
    """Everything a row is asked and scored with."""

    plan: Plan
    app: App
    judge: Judge
    clock: Clock
    run_id: str
    project: str
    over_budget: Callable[[], bool] = lambda: False

    @property
    def config(self) -> ScoreConfig:
        """Thresholds of the plan."""
        return ScoreConfig(thresholds=self.plan.limits())


def newest_versions(row: DatasetRow, turn: Turn) -> dict[str, str]:
    """Document → its newest version known from the row's needs and the turn.

    When only the old page is in the index nothing in the turn tells that it is old: the label
    does. A version newer than the label's counts as the newest.
    """
    found: dict[str, str] = {}
    for need in row.needs:
        for passage in need.any_of:
            if passage.document_id and passage.version:
                _keep_newest(found, passage.document_id, passage.version)
    for chunk in _seen(turn):
        if chunk.document_id in found and chunk.version:
            _keep_newest(found, chunk.document_id, chunk.version)
    return found


def _keep_newest(found: dict[str, str], document: str, version: str) -> None:
    known = found.get(document)
    if known is None or compare_versions(known, version) == -1:
        found[document] = version


def _seen(turn: Turn) -> Iterable[Chunk]:
    for retrieval in turn.retrievals:
        yield from retrieval.chunks
    yield from turn.window


def ask_row(row: DatasetRow, bench: Bench) -> RunRow:
    """Ask one row of the app and score what came; never raises for what the app does."""
    started, began = bench.clock.now(), bench.clock.monotonic()
    plan = bench.plan
    blank = RunRow(
        row.row_id, row.kind, row.status, row.question, "errored", "unknown",
        expected_output=row.expected_output,
    )  # fmt: skip
    try:
        answer = bench.app.ask(values_of(row, fixed=plan.mode == "fixed_context"))
        latency = (bench.clock.monotonic() - began) * 1000
        turn = read_turn(
            answer, row, plan, run_id=bench.run_id, project=bench.project,
            started_at=started, latency_ms=latency,
        )  # fmt: skip
    except RowError as error:
        latency = (bench.clock.monotonic() - began) * 1000
        return replace(blank, error=str(error), latency_ms=latency)
    config = replace(bench.config, newest=newest_versions(row, turn) or None)
    read = bench.clock.monotonic()
    found = evaluate_turn(turn, bench.judge, gold=gold_of(row), config=config, at=started)
    judged = (bench.clock.monotonic() - read) * 1000
    return _scored(replace(blank, latency_ms=latency, judge_ms=judged), plan, turn, found)


def _scored(blank: RunRow, plan: Plan, turn: Turn, found: Evaluation) -> RunRow:
    scores = tuple(score for score in found.scores if score.metric in plan.measured)
    lost = [s for s in scores if s.status == "unscored" and s.metric in plan.limits().table]
    error = ""
    if found.verdict == "errored" and lost:
        error = f"{lost[0].metric} unscored: {lost[0].reason}"
    stage, why = found.diagnosis.stage, found.diagnosis.why
    if plan.mode == "fixed_context" and stage == "unknown" and found.verdict == "pass":
        # Retrieval was not measured on purpose: what was measured is well.
        stage, why = "ok", "The generator did its work on the stored passages."
    window = tuple(
        replace(chunk, superseded=old)
        for chunk, old in zip(turn.window, found.window_superseded, strict=True)
    )
    marked = _with_marks(replace(turn, window=window, refused=found.refused), found)
    return replace(
        blank, verdict=found.verdict, stage=stage, why=why, error=error, scores=scores,
        claims=found.claims, turn=marked,
    )  # fmt: skip


def _with_marks(turn: Turn, found: Evaluation) -> Turn:
    def marked(chunks: Sequence[Chunk], marks: Sequence[bool | None]) -> tuple[Chunk, ...]:
        padded = [*marks, *[None] * (len(chunks) - len(marks))]
        return tuple(replace(c, relevant=m) for c, m in zip(chunks, padded, strict=False))

    lists = [*found.relevance, *[()] * (len(turn.retrievals) - len(found.relevance))]
    return replace(
        turn,
        window=marked(turn.window, found.window_marks),
        retrievals=tuple(
            replace(item, chunks=marked(item.chunks, marks))
            for item, marks in zip(turn.retrievals, lists, strict=False)
        ),
    )


@dataclass(slots=True)
class _Keeper:
    """Stores rows in batches and counts them."""

    store: Store
    run: Run
    clock: Clock
    counts: dict[str, int]
    pipeline: dict[str, set[str]]
    waiting: list[RunRow] = field(default_factory=list)
    flushed_at: float = 0.0

    def keep(self, row: RunRow) -> None:
        self.counts[row.verdict] += 1
        if row.turn is not None:
            for name in ("release", "index_version", "prompt_version"):
                value = getattr(row.turn, name)
                if value:
                    self.pipeline.setdefault(name, set()).add(value)
        self.waiting.append(row)
        late = self.clock.monotonic() - self.flushed_at > FLUSH_S
        if late or len(self.waiting) >= FLUSH_ROWS:
            self.flush()

    def flush(self) -> None:
        put_run_rows(
            self.store, self.run.project, self.run.run_id,
            [(row, summary_text(row)) for row in self.waiting], at=self.clock.now(),
        )  # fmt: skip
        self.waiting = []
        self.flushed_at = self.clock.monotonic()


@dataclass(slots=True)
class _Despair:
    """Notices that every row so far failed for the same reason."""

    reason: str = ""
    same: int = 0
    broken: bool = False

    def see(self, row: RunRow) -> None:
        if row.scores or (self.reason and row.error != self.reason):
            self.broken = True
        self.reason = self.reason or row.error
        self.same += 1

    def sentence(self, total: int) -> str:
        """Why going on is no use, "" while it may be."""
        if self.broken or self.same < min(HOPELESS_AFTER, total):
            return ""
        advice = ": check the path" if self.reason.endswith(FOUND_NOTHING) else ""
        return f"every row errors: {self.reason}{advice}"


def run_plan(
    store: Store,
    run: Run,
    bench: Bench,
    rows: Sequence[DatasetRow],
    *,
    progress: Callable[[Progress], None] = lambda _: None,
    stop: threading.Event | None = None,
    retry_errored: bool = False,
) -> Run:
    """Ask and score the rows that the run lacks, and store its end.

    Args:
        store: where the run is.
        run: the record, stored already; a stopped run goes on where it was.
        bench: plan, app, judge and clock.
        rows: all rows of the run.
        progress: told after every row, from this thread.
        stop: set it to stop after the rows under way; the run is then `stopped`.
        retry_errored: ask rows again that have an error.

    Returns:
        The record as stored at the end: `finished`, or `stopped` with the reason in `note`.
    """
    halt = stop or threading.Event()
    keeper, todo = _resume(store, run, bench, rows, retry_errored=retry_errored)
    judge = SelectiveJudge(bench.judge, tasks_of(bench.plan.measured))
    asking = replace(bench, judge=judge)
    despair, note = _Despair(), ""
    progress(_progress(keeper, len(rows)))
    with ThreadPoolExecutor(bench.plan.connector.concurrency, "plan") as pool:
        for done in _completed(pool, todo, asking, halt):
            keeper.keep(done)
            despair.see(done)
            progress(_progress(keeper, len(rows)))
            note = note or despair.sentence(len(todo))
            if not note and bench.over_budget():
                note = "the judge's budget of the day is used up"
            if note:
                halt.set()
    keeper.flush()
    whole = sum(keeper.counts.values()) == len(rows) and not note
    ended = replace(
        run,
        state="finished" if whole else "stopped",
        finished_at=bench.clock.now(),
        counts=dict(keeper.counts),
        pipeline={name: tuple(sorted(found)) for name, found in keeper.pipeline.items()},
        note=note or ("" if whole else "stopped before every row was asked"),
    )
    # Just after the record of its start, whatever the clock says: the newest body wins.
    at = bench.clock.now() + timedelta(milliseconds=1)
    put_run(store, run.project, run.run_id, run.plan_id, run_body(ended), at=at)
    return ended


def _resume(
    store: Store, run: Run, bench: Bench, rows: Sequence[DatasetRow], *, retry_errored: bool
) -> tuple[_Keeper, list[DatasetRow]]:
    stored = run_row_ids(store, run.project, run.run_id)
    known = [read_summary(text) for text in run_summaries(store, run.project, run.run_id)]
    again = {row.row_id for row in known if row.verdict == "errored"} if retry_errored else set()
    kept = [row for row in known if row.row_id not in again]
    pipeline = {name: set(found) for name, found in run.pipeline.items()}
    keeper = _Keeper(store, run, bench.clock, count_verdicts(kept), pipeline)
    keeper.flushed_at = bench.clock.monotonic()
    return keeper, [row for row in rows if row.row_id not in stored or row.row_id in again]


def _completed(
    pool: ThreadPoolExecutor, rows: Sequence[DatasetRow], bench: Bench, halt: threading.Event
) -> Iterable[RunRow]:
    """Rows as they finish; never more under way than the plan's concurrency."""
    left = iter(rows)
    limit = bench.plan.connector.concurrency
    under_way: set[Future[RunRow]] = set()
    while True:
        while len(under_way) < limit and not halt.is_set():
            row = next(left, None)
            if row is None:
                break
            under_way.add(pool.submit(ask_row, row, bench))
        if not under_way:
            return
        finished, under_way = wait(under_way, return_when=FIRST_COMPLETED)
        for future in finished:
            yield future.result()


def _progress(keeper: _Keeper, total: int) -> Progress:
    return Progress(sum(keeper.counts.values()), total, dict(keeper.counts))
