"""`run`, `diff`, `gate`: what a plan asks, what changed, and whether it may go out."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable
from pathlib import Path

from stagewatch.core.cli.link import add_link_options


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verbs."""
    _add_run(verbs)
    diff = verbs.add_parser(
        "diff",
        help="what changed between two runs, row by row",
        epilog="Example: stagewatch diff before.json after.json",
    )
    add_link_options(diff)
    diff.add_argument("before", help="run id, or a file that `run --out` wrote")
    diff.add_argument("after", help="run id or file")
    diff.set_defaults(run=_dispatch("diff_command"))
    _add_gate(verbs)


def _add_run(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    run = verbs.add_parser(
        "run",
        help="ask the rows of a dataset of your app and score every stage",
        description=(
            "Runs a plan (docs/plans.md). With --dataset FILE no server is needed: rows come from "
            "a JSON lines file or a folder of rows, results stay in a temporary engine unless "
            "--data-dir or --out keeps them. Otherwise the running server carries the run out."
        ),
        epilog="Example: stagewatch run plan.toml --dataset rows.jsonl --out run.json",
    )
    add_link_options(run)
    run.add_argument("plan", type=Path, help="TOML or JSON file")
    run.add_argument("--dataset", help="a .jsonl file, a folder of rows, or a dataset's name")
    run.add_argument("--version", type=int, help="dataset version (default: the newest)")
    run.add_argument("--out", type=Path, help="write the run to this file")
    run.add_argument("--resume", metavar="RUN", help="go on with a stopped run")
    run.add_argument("--retry-errored", action="store_true", help="with --resume: ask them again")
    run.add_argument("--dry-run", action="store_true", help="say what it would take and stop")
    run.add_argument("--max-usd", type=float, help="refuse a run that is likely to cost more")
    for name in ("release", "index-version", "prompt-version"):
        run.add_argument(f"--{name}", help="version under test, where answers do not say it")
    run.set_defaults(run=_dispatch("run_command"))


def _add_gate(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    gate = verbs.add_parser(
        "gate",
        help="whether a candidate run may go out: exit 0 pass, 1 blocked, 2 cannot tell",
        description=(
            "Compares a candidate run with a baseline by the default conditions and those of the "
            "candidate's plan. Without runs: the newest one against the one before it."
        ),
        epilog="Example: stagewatch gate baseline.json candidate.json --junit gate.xml",
    )
    add_link_options(gate)
    gate.add_argument("baseline", nargs="?", help="run id or file")
    gate.add_argument("candidate", nargs="?", help="run id or file")
    gate.add_argument("--plan", type=Path, help="take the conditions from this plan file")
    gate.add_argument("--junit", type=Path, help="write JUnit XML to this file")
    gate.add_argument("--markdown", type=Path, help="write a Markdown summary to this file")
    gate.add_argument(
        "--github", action="store_true", help="print workflow annotations (default in Actions)"
    )
    gate.add_argument(
        "--unconfirmed",
        action="store_true",
        help="count rows whose label no second person has confirmed",
    )
    gate.set_defaults(run=_dispatch("gate_command"))


def _dispatch(name: str) -> Callable[[argparse.Namespace], int]:
    """The command of this name, imported when it runs: the parts behind it are heavy."""

    def command(arguments: argparse.Namespace) -> int:
        module = importlib.import_module("stagewatch.scorer.plans.command")
        return int(getattr(module, name)(arguments))

    return command
