"""What `stagewatch run`, `diff` and `gate` do. Results go to stdout, what happens to stderr."""

from __future__ import annotations

import argparse
import os
import sys
import time
from http import HTTPStatus
from pathlib import Path
from typing import Any

import orjson

from stagewatch.core.cli.common import emit, printable, settings_of
from stagewatch.core.cli.link import Link, RefusedError, running_server
from stagewatch.core.codec import from_plain, to_plain
from stagewatch.core.errors import InvalidInputError
from stagewatch.scorer.plans.diff import Diff, diff_runs
from stagewatch.scorer.plans.gate import GateResult, decide_gate
from stagewatch.scorer.plans.local import Here, opened_store, temporary_store
from stagewatch.scorer.plans.plan import GateOptions, Plan, load_plan, parse_plan, plan_body
from stagewatch.scorer.plans.report import (
    diff_text,
    github_annotations,
    junit_xml,
    markdown,
    plain_text,
    run_text,
)
from stagewatch.scorer.plans.results import (
    RunFile,
    run_from_bytes,
    run_to_bytes,
    summarise,
    summary_text,
)
from stagewatch.scorer.plans.run import Progress
from stagewatch.scorer.plans.table import table_from_texts
from stagewatch.scorer.plans.tally import tally_metrics

_POLL_S = 0.5


def run_command(arguments: argparse.Namespace) -> int:
    """Carry a plan out: 0 when every row was asked, 2 when the run stopped before."""
    plan = _with_options(load_plan(arguments.plan), arguments)
    rows_path = _rows_path(arguments.dataset)
    if rows_path is None:
        remote = arguments.url or os.environ.get("STAGEWATCH_URL")
        remote = remote or running_server(settings_of(arguments).data_dir)
        if remote and plan.connector.kind == "http":
            return _run_remote(arguments, plan)
        if remote:
            raise InvalidInputError(
                "a server holds the data folder, and python connectors run here: take the rows "
                "out with `stagewatch dataset export` and use --dataset FILE"
            )
    settings = settings_of(arguments)
    kept = rows_path is None or arguments.data_dir is not None
    place = opened_store(settings) if kept else temporary_store(settings)
    with place as store:
        by = os.environ.get("USER", "")
        here = Here(store, settings, arguments.project or "default", by)
        launch = here.prepare(plan, rows_path, resume=arguments.resume)
        for text in launch.run.warnings:
            _say(f"note: {text}")
        _say(launch.forecast.sentence)
        if arguments.dry_run:
            emit(arguments, to_plain(launch.forecast), launch.forecast.sentence)
            return 0
        _check_cost(launch.forecast.cost_usd, arguments.max_usd)
        bar = _Bar()
        ended = here.carry_out(launch, progress=bar.show, retry_errored=arguments.retry_errored)
        bar.end()
    return _show_run(arguments, ended)


def _with_options(plan: Plan, arguments: argparse.Namespace) -> Plan:
    body = plan_body(plan)
    if arguments.dataset and _rows_path(arguments.dataset) is None:
        body["dataset"] = arguments.dataset
    if arguments.version:
        body["version"] = arguments.version
    for name in ("release", "index_version", "prompt_version"):
        if getattr(arguments, name):
            body["pipeline"][name] = getattr(arguments, name)
    return parse_plan(body)


def _rows_path(dataset: str | None) -> Path | None:
    """The path of a file or folder of rows; None when `dataset` is a name."""
    if not dataset:
        return None
    path = Path(dataset)
    if path.exists():
        return path
    if path.suffix or os.sep in dataset:
        raise InvalidInputError(f"no such file: {dataset}")
    return None


def _check_cost(expected: float, limit: float | None) -> None:
    if limit is not None and expected > limit:
        raise InvalidInputError(
            f"likely to cost ${expected:.2f}, more than --max-usd {limit:g}: nothing was asked"
        )


def _run_remote(arguments: argparse.Namespace, plan: Plan) -> int:
    with Link(arguments) as link:
        if arguments.resume:
            path = f"/runs/{arguments.resume}/resume"
            body: dict[str, Any] = {"retry_errored": arguments.retry_errored}
        else:
            _store_plan(link, plan)
            path, body = f"/plans/{plan.name}/runs", {}
            guess = link.call("POST", f"/plans/{plan.name}/estimate", body={})
            for text in guess["warnings"]:
                _say(f"note: {text}")
            _say(guess["forecast"]["sentence"])
            if arguments.dry_run:
                emit(arguments, guess["forecast"], guess["forecast"]["sentence"])
                return 0
            _check_cost(guess["forecast"]["cost_usd"], arguments.max_usd)
        run_id = link.call("POST", path, body=body)["run_id"]
        bar = _Bar()
        while (now := link.call("GET", f"/runs/{run_id}"))["progress"]:
            bar.show(from_plain(Progress, now["progress"]))
            time.sleep(_POLL_S)
        bar.end()
        ended = run_from_bytes(link.raw("GET", f"/api/v1/runs/{run_id}/export"))
    return _show_run(arguments, ended)


def _store_plan(link: Link, plan: Plan) -> None:
    """Store the plan. A key that may only run plans runs the one an admin stored, if it is this."""
    try:
        link.call("POST", "/plans", body=plan_body(plan))
    except RefusedError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        try:
            stored = parse_plan(link.call("GET", f"/plans/{plan.name}"))
        except RefusedError:
            raise error from None
        if stored != plan:
            raise


def _show_run(arguments: argparse.Namespace, ended: RunFile) -> int:
    rows = [summarise(row) for row in ended.rows]
    metrics = tally_metrics(rows, parse_plan(ended.run.plan).limits())
    if arguments.out:
        arguments.out.write_bytes(run_to_bytes(ended.run, ended.rows))
    shown = {**to_plain(ended.run), "metrics": to_plain(metrics)}
    emit(arguments, shown, printable(run_text(ended.run, rows, metrics)))
    return 0 if ended.run.state == "finished" else 2


class _Bar:
    """A progress bar on a terminal, every tenth of the way in a log; on stderr."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._told = -1

    def show(self, progress: Progress) -> None:
        """Draw it anew."""
        share = progress.done / progress.total if progress.total else 1.0
        counts = progress.counts
        text = (
            f"{progress.done}/{progress.total}  pass {counts.get('pass', 0)}  "
            f"fail {counts.get('fail', 0)}  errored {counts.get('errored', 0)}"
        )
        if self._terminal:
            filled = "█" * int(30 * share)
            sys.stderr.write(f"\r{filled:<30} {text}")
            sys.stderr.flush()
        elif int(share * 10) > self._told:
            self._told = int(share * 10)
            _say(text)

    def end(self) -> None:
        """Leave the line."""
        if self._terminal:
            sys.stderr.write("\n")


def _say(text: str) -> None:
    sys.stderr.write(printable(text) + "\n")


def _run_of(ref: str, arguments: argparse.Namespace) -> RunFile:
    """A run from a file, else from the server or data folder by its id."""
    path = Path(ref)
    if path.is_file():
        return run_from_bytes(path.read_bytes())
    if path.suffix or os.sep in ref:
        raise InvalidInputError(f"no such file: {ref}")
    with Link(arguments) as link:
        return run_from_bytes(link.raw("GET", f"/api/v1/runs/{ref}/export"))


def diff_command(arguments: argparse.Namespace) -> int:
    """Say what changed between two runs."""
    if not Path(arguments.before).is_file() and not Path(arguments.after).is_file():
        with Link(arguments) as link:
            body = link.call("GET", f"/runs/{arguments.before}/diff/{arguments.after}")
        found = from_plain(Diff, body)
    else:
        before, after = (_run_of(ref, arguments) for ref in (arguments.before, arguments.after))
        found = diff_runs(
            before.run, after.run,
            table_from_texts([summary_text(row) for row in before.rows]),
            table_from_texts([summary_text(row) for row in after.rows]),
        )  # fmt: skip
    emit(arguments, to_plain(found), printable(diff_text(found)))
    return 0


def gate_command(arguments: argparse.Namespace) -> int:
    """Decide, write the reports asked for, and return the gate's exit code."""
    result = _gate(arguments)
    if arguments.junit:
        arguments.junit.write_text(junit_xml(result), encoding="utf-8")
    if arguments.markdown:
        arguments.markdown.write_text(markdown(result), encoding="utf-8")
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if arguments.github or os.environ.get("GITHUB_ACTIONS") == "true":
        annotations = github_annotations(result)
        if annotations:
            print(annotations, file=sys.stderr)  # noqa: T201 - the runner reads both streams
        if summary:
            with Path(summary).open("a", encoding="utf-8") as page:
                page.write(markdown(result))
    emit(arguments, to_plain(result), printable(plain_text(result)))
    return result.exit_code


def _options(arguments: argparse.Namespace, candidate: dict[str, Any] | None) -> GateOptions | None:
    """The demands of --plan, else of the candidate's own plan; None leaves that to the server."""
    options = None
    if arguments.plan:
        options = load_plan(arguments.plan).gate
    elif candidate is not None:
        options = parse_plan(candidate).gate
    if arguments.unconfirmed:
        options = (options or GateOptions()).model_copy(update={"require_second_reviewer": False})
    return options


def _gate(arguments: argparse.Namespace) -> GateResult:
    files = [ref for ref in (arguments.baseline, arguments.candidate) if ref and _is_file(ref)]
    if not files:
        return _gate_remote(arguments)
    if not (arguments.baseline and arguments.candidate):
        raise InvalidInputError("gate with files needs both: BASELINE CANDIDATE")
    before, after = (_run_of(ref, arguments) for ref in (arguments.baseline, arguments.candidate))
    options = _options(arguments, after.run.plan)
    return decide_gate(
        before.run, after.run, map(summarise, before.rows), map(summarise, after.rows),
        options=options or GateOptions(),
        # Hand labels live in a server's store: a file alone proves nothing about its judge.
        calibrated=lambda _metric, _fingerprint: False,
    )  # fmt: skip


def _is_file(ref: str) -> bool:
    return Path(ref).is_file() or bool(Path(ref).suffix)


def _gate_remote(arguments: argparse.Namespace) -> GateResult:
    body: dict[str, Any] = {"baseline": arguments.baseline, "candidate": arguments.candidate}
    with Link(arguments) as link:
        candidate = None
        if arguments.unconfirmed and arguments.candidate and not arguments.plan:
            candidate = link.call("GET", f"/runs/{arguments.candidate}")["plan"]
        options = _options(arguments, candidate)
        if options is not None:
            body["options"] = orjson.loads(options.model_dump_json())
        return from_plain(GateResult, link.call("POST", "/gate", body=body))
