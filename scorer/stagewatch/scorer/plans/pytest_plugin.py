"""`pytest --stagewatch PLAN`: each row of a plan is a test.

Light at import, for pytest loads it wherever stagewatch is installed: everything else is
imported once the option is used. All rows are asked before the first of these tests runs, with
the plan's concurrency; each test then tells of its own row.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from stagewatch.core.model import DatasetRow
    from stagewatch.scorer.plans.plan import Plan
    from stagewatch.scorer.plans.results import RunRow


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --stagewatch and --stagewatch-dataset."""
    group = parser.getgroup("stagewatch", "rows of a RAG regression plan as tests")
    group.addoption("--stagewatch", metavar="PLAN", default=None, help="plan file (TOML or JSON)")
    group.addoption(
        "--stagewatch-dataset", metavar="PATH", default=None,
        help="rows: a .jsonl file or a folder (default: the plan's dataset in the data folder)",
    )  # fmt: skip
    group.addoption(
        "--stagewatch-out", metavar="FILE", default=None, help="write the run to this file"
    )


def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Add one test a row."""
    plan_file = config.getoption("--stagewatch")
    if not plan_file:
        return
    path = Path(plan_file)
    collector = PlanCollector.from_parent(session, name=path.name, nodeid=path.name, path=path)
    items.extend(collector.collect())


class RowFailedError(Exception):
    """A row did not pass; the text is the report."""


class PlanCollector(pytest.Collector):
    """Holds the plan, its rows and, once the first test runs, their results."""

    def __init__(self, *, path: Path, **kwargs: Any) -> None:  # noqa: ANN401 - pytest's own
        super().__init__(**kwargs)
        from stagewatch.core.errors import StagewatchError  # noqa: PLC0415 - see the module
        from stagewatch.scorer.plans.plan import load_plan  # noqa: PLC0415 - see the module

        self.plan_path = path
        try:
            self.plan: Plan = load_plan(path)
        except StagewatchError as error:
            raise pytest.UsageError(str(error)) from None
        self._results: Mapping[str, RunRow] | None = None

    def collect(self) -> list[pytest.Item]:
        """One item a row."""
        return [
            RowItem.from_parent(self, name=f"{row.kind}-{row.row_id}", row=row)
            for row in self._rows()
        ]

    def _rows_path(self) -> Path | None:
        named = self.config.getoption("--stagewatch-dataset")
        return Path(named) if named else None

    def _rows(self) -> list[DatasetRow]:
        from stagewatch.core.errors import StagewatchError  # noqa: PLC0415
        from stagewatch.scorer.plans.columns import check_columns, chosen_rows  # noqa: PLC0415
        from stagewatch.scorer.plans.rows_file import read_rows_path  # noqa: PLC0415

        path = self._rows_path()
        try:
            if path is not None:
                found = read_rows_path(path, self.plan.dataset)
            else:
                found = self._stored_rows()
            rows = chosen_rows(self.plan, found)
            check_columns(self.plan, rows)
        except StagewatchError as error:
            raise pytest.UsageError(str(error)) from None
        return rows

    def _stored_rows(self) -> list[DatasetRow]:
        from stagewatch.scorer.plans.local import opened_store, source_of  # noqa: PLC0415

        with opened_store(_settings()) as store:
            return list(source_of(store, "default", self.plan, None).rows)

    def result_of(self, row_id: str) -> RunRow | None:
        """The result of one row; the first call asks all rows."""
        if self._results is None:
            self._results = self._run()
        return self._results.get(row_id)

    def _run(self) -> Mapping[str, RunRow]:
        from stagewatch.scorer.plans.local import (  # noqa: PLC0415
            Here,
            opened_store,
            temporary_store,
        )
        from stagewatch.scorer.plans.results import run_to_bytes  # noqa: PLC0415

        settings, path = _settings(), self._rows_path()
        with temporary_store(settings) if path else opened_store(settings) as store:
            here = Here(store, settings)
            ended = here.carry_out(here.prepare(self.plan, path))
        out = self.config.getoption("--stagewatch-out")
        if out:
            Path(out).write_bytes(run_to_bytes(ended.run, ended.rows))
        return {row.row_id: row for row in ended.rows}


def _settings() -> Any:  # noqa: ANN401 - imported late
    import os  # noqa: PLC0415

    from stagewatch.core.settings import load_settings  # noqa: PLC0415

    return load_settings(os.environ)


class RowItem(pytest.Item):
    """One row. Fails with the stage and the metrics; an unconfirmed trap row can only xfail."""

    def __init__(self, *, row: DatasetRow, **kwargs: Any) -> None:  # noqa: ANN401 - pytest's own
        super().__init__(**kwargs)
        self.row = row

    def runtest(self) -> None:
        """Tell of the row."""
        plan = self.parent
        if not isinstance(plan, PlanCollector):
            raise TypeError("a row outside of a plan")
        result = plan.result_of(self.row.row_id)
        if result is None:
            raise RowFailedError("this row was not asked: the run stopped before it")
        if result.verdict == "pass":
            return
        from stagewatch.scorer.plans.results import summarise  # noqa: PLC0415 - see the module

        if plan.plan.gate.require_second_reviewer and not summarise(result).counts:
            pytest.xfail(f"label not confirmed by a second person; {result.error or result.why}")
        raise RowFailedError(row_report(result))

    def repr_failure(
        self,
        excinfo: pytest.ExceptionInfo[BaseException],
        style: Any = None,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401 - as pytest has it
        """The report alone: a traceback into this file tells nobody anything."""
        if isinstance(excinfo.value, RowFailedError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """The plan's file and the row."""
        plan = self.parent
        path = plan.plan_path if isinstance(plan, PlanCollector) else Path()
        return path, None, f"{self.row.kind} {self.row.row_id}: {self.row.question[:60]}"


def row_report(row: RunRow) -> str:
    """What a person needs to see of a row that did not pass."""
    lines = [f"question: {row.question}"]
    if row.verdict == "errored":
        return "\n".join([*lines, f"errored: {row.error}"])
    lines += [f"stage:    {row.stage}: {row.why}"]
    lines += [f"answer:   {row.turn.answer}"] if row.turn else []
    for score in row.scores:
        if score.verdict == "fail":
            value = "miss" if score.value is None else f"{score.value:.3g}"
            hard = " (hard fail)" if score.hard_fail else ""
            lines.append(f"  {score.metric} {value}{hard}, {score.basis}: {score.reason}")
    return "\n".join(lines)
