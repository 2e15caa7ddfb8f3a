"""From a plan to a run that can start: rows checked, app and judge at hand, cost known."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from stagewatch.core.clock import Clock
from stagewatch.core.codec import from_plain
from stagewatch.core.errors import ConflictError, InvalidInputError, NotFoundError
from stagewatch.core.model import DatasetRow
from stagewatch.core.settings import Settings
from stagewatch.core.store.client import Store
from stagewatch.core.store.runs import get_run, list_runs, put_run, run_row_ids, run_summaries
from stagewatch.scorer.judges.choose import choose
from stagewatch.scorer.plans.columns import check_columns, chosen_rows
from stagewatch.scorer.plans.connector import open_app
from stagewatch.scorer.plans.forecast import Forecast, forecast
from stagewatch.scorer.plans.plan import Plan, parse_plan, plan_body
from stagewatch.scorer.plans.results import RowSummary, Run, read_summary, run_body
from stagewatch.scorer.plans.run import Bench
from stagewatch.scorer.plans.table import RunTable, table_from_texts
from stagewatch.scorer.plans.tally import median_latency


@dataclass(frozen=True, slots=True)
class Source:
    """Where the rows of a run come from; `version` None is the working copy or a file."""

    dataset: str
    version: int | None
    rows: Sequence[DatasetRow]


@dataclass(frozen=True, slots=True)
class Access:
    """What a plan may use where it runs. See `open_app` for `allowed_env` and `local`."""

    environ: Mapping[str, str]
    allowed_env: Collection[str] | None = None
    local: bool = True


@dataclass(frozen=True, slots=True)
class Launch:
    """A run that is ready: nothing has been asked and nothing stored yet."""

    run: Run
    bench: Bench
    rows: tuple[DatasetRow, ...]
    forecast: Forecast


def prepare_run(
    store: Store,
    settings: Settings,
    clock: Clock,
    plan: Plan,
    source: Source,
    access: Access,
    *,
    project: str,
    by: str = "",
    resume: str | None = None,
) -> Launch:
    """Everything that can be refused is refused here.

    Args:
        store: where runs and judgements are.
        settings: the judge in force, unless the plan names one.
        clock: the time.
        plan: what to do.
        source: the rows.
        access: what the plan may use here.
        project: of the run.
        by: who starts it.
        resume: id of a stopped run to go on with; its own plan counts, not `plan`.

    Raises:
        InvalidInputError: the rows lack what the metrics need, the connector cannot be set up,
            or the judge in force is not the one the plan fixes.
        NotFoundError: there is no run to resume.
        ConflictError: the run to resume is finished, or had other rows.
    """
    known = need_run(store, project, resume) if resume else None
    if known is not None:
        plan = parse_plan(known.plan)
    rows = chosen_rows(plan, source.rows)
    warnings = check_columns(plan, rows)
    run_id = known.run_id if known else uuid.uuid4().hex[:16]
    bench, judge_name = _bench(store, settings, clock, plan, access, run_id, project)
    run = known or Run(
        run_id=run_id, project=project, plan_id=plan.name, plan=plan_body(plan),
        dataset=source.dataset, version=source.version, state="running",
        started_at=clock.now(), rows=len(rows), by=by, judge=judge_name,
        fingerprint=bench.judge.fingerprint, warnings=tuple(warnings),
    )  # fmt: skip
    if known is not None:
        _check_resume(known, bench, rows)
        run = replace(known, state="running", finished_at=None, note="")
    asked = run_row_ids(store, project, run_id) if known else set()
    guess = forecast(
        plan, [row for row in rows if row.row_id not in asked], judge=judge_name,
        input_usd=settings.judge_input_usd, output_usd=settings.judge_output_usd,
        app_ms=_known_latency(store, project, plan.name),
    )  # fmt: skip
    return Launch(run, bench, tuple(rows), guess)


def _bench(
    store: Store,
    settings: Settings,
    clock: Clock,
    plan: Plan,
    access: Access,
    run_id: str,
    project: str,
) -> tuple[Bench, str]:
    app = open_app(
        plan.connector, environ=access.environ, allowed_env=access.allowed_env, local=access.local
    )
    asked = settings
    if plan.judge is not None:
        asked = replace(settings, judge=plan.judge, judge_model=plan.judge_model)
    chosen = choose(asked, store, clock, concurrency=plan.connector.concurrency)
    fingerprint = chosen.judge.fingerprint
    if plan.judge_fingerprint and plan.judge_fingerprint != fingerprint:
        raise InvalidInputError(
            f"the plan fixes judge {plan.judge_fingerprint}, the one in force is {fingerprint}"
        )
    over: Callable[[], bool] = chosen.ledger.over_budget if chosen.ledger else _never
    return Bench(plan, app, chosen.judge, clock, run_id, project, over), chosen.judge.name


def _never() -> bool:
    return False


def _check_resume(known: Run, bench: Bench, rows: Sequence[DatasetRow]) -> None:
    if known.state == "finished" and not known.counts.get("errored"):
        raise ConflictError(f"run {known.run_id} is finished")
    if known.fingerprint != bench.judge.fingerprint:
        raise ConflictError(
            f"run {known.run_id} was judged by {known.fingerprint}, the judge in force is "
            f"{bench.judge.fingerprint}: start a new run"
        )
    if known.rows != len(rows):
        raise ConflictError(f"run {known.run_id} had {known.rows} rows, here are {len(rows)}")


def _known_latency(store: Store, project: str, plan_id: str) -> float | None:
    for body in list_runs(store, project, plan_id=plan_id, limit=1):
        return median_latency(load_summaries(store, project, body["run_id"]))
    return None


def store_start(store: Store, launch: Launch) -> None:
    """Store the record of a run as it stands in `launch`: it starts, or goes on."""
    run = launch.run
    at = launch.bench.clock.now()
    put_run(store, run.project, run.run_id, run.plan_id, run_body(run), at=at)


def need_run(store: Store, project: str, run_id: str) -> Run:
    """The record of a run.

    Raises:
        NotFoundError: there is none with this id in the project.
    """
    body = get_run(store, project, run_id)
    if body is None:
        raise NotFoundError(f"no run {run_id!r} in project {project!r}")
    return from_plain(Run, body)


def load_table(store: Store, project: str, run_id: str) -> RunTable:
    """A run's rows as columns, by row id."""
    return table_from_texts(run_summaries(store, project, run_id))


def load_summaries(store: Store, project: str, run_id: str) -> list[RowSummary]:
    """Short forms of a run's rows, by row id."""
    return [read_summary(text) for text in run_summaries(store, project, run_id)]
