"""A run in this process: on an engine in a temporary folder, or on the data folder here."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from stagewatch.core.clock import Clock, SystemClock
from stagewatch.core.codec import from_json
from stagewatch.core.errors import InvalidInputError, NotFoundError
from stagewatch.core.settings import Settings
from stagewatch.core.store import Store, migrate, open_store
from stagewatch.core.store.datasets import current_rows, latest_version, rows_of_version
from stagewatch.core.store.documents import get_document
from stagewatch.core.store.runs import run_row_bodies
from stagewatch.scorer.plans.launch import Access, Launch, Source, prepare_run, store_start
from stagewatch.scorer.plans.plan import Plan
from stagewatch.scorer.plans.results import RunFile, RunRow
from stagewatch.scorer.plans.rows_file import read_rows_path
from stagewatch.scorer.plans.run import Progress, run_plan


@contextlib.contextmanager
def temporary_store(settings: Settings) -> Iterator[Store]:
    """A fresh embedded engine that is gone afterwards."""
    before = tempfile.tempdir
    with tempfile.TemporaryDirectory(prefix="stagewatch-run-") as folder:
        try:
            with opened_store(
                replace(settings, data_dir=Path(folder) / "data", clickhouse_url="")
            ) as store:
                yield store
        finally:
            tempfile.tempdir = before


@contextlib.contextmanager
def opened_store(settings: Settings) -> Iterator[Store]:
    """The store of these settings, migrated, closed afterwards."""
    before = tempfile.tempdir
    store = open_store(settings)
    try:
        migrate(store)
        yield store
    finally:
        store.close()
        tempfile.tempdir = before


def source_of(store: Store, project: str, plan: Plan, rows_path: Path | None) -> Source:
    """The rows of a plan: of a file or folder, else of a dataset in the store.

    Raises:
        InvalidInputError: the plan names no dataset and there is no file.
        NotFoundError: there is no such dataset or version.
    """
    if rows_path is not None:
        name = plan.dataset or rows_path.stem
        return Source(name, None, read_rows_path(rows_path, name))
    if plan.dataset is None:
        raise InvalidInputError("the plan names no dataset: set it, or use --dataset FILE")
    if get_document(store, "datasets", plan.dataset, project=project) is None:
        raise NotFoundError(f"no dataset {plan.dataset!r} in project {project!r}")
    version = plan.version or latest_version(store, project, plan.dataset) or None
    if version is None:
        return Source(plan.dataset, None, current_rows(store, project, plan.dataset))
    return Source(plan.dataset, version, rows_of_version(store, project, plan.dataset, version))


@dataclass(frozen=True, slots=True)
class Here:
    """Where a run in this process happens."""

    store: Store
    settings: Settings
    project: str = "default"
    by: str = ""
    clock: Clock = SystemClock()

    def prepare(self, plan: Plan, rows_path: Path | None, *, resume: str | None = None) -> Launch:
        """A run that is ready to start; raises as `prepare_run` and `source_of`."""
        return prepare_run(
            self.store, self.settings, self.clock, plan,
            source_of(self.store, self.project, plan, rows_path), Access(os.environ),
            project=self.project, by=self.by, resume=resume,
        )  # fmt: skip

    def carry_out(
        self,
        launch: Launch,
        *,
        progress: Callable[[Progress], None] = lambda _: None,
        retry_errored: bool = False,
    ) -> RunFile:
        """The run and its rows, once it has ended."""
        store_start(self.store, launch)
        run = run_plan(
            self.store, launch.run, launch.bench, launch.rows,
            progress=progress, retry_errored=retry_errored,
        )  # fmt: skip
        bodies = run_row_bodies(self.store, run.project, run.run_id)
        return RunFile(run, tuple(from_json(RunRow, body) for body in bodies))
