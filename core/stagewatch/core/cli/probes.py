"""`probes`: dataset rows asked of the live app on a schedule."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable
from pathlib import Path

from stagewatch.core.cli.link import add_link_options


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    verb = verbs.add_parser(
        "probes",
        help="ask dataset rows of the live app on a schedule",
        description="Probes ask rows with known answers of the running app (docs/probes.md).",
        epilog="Examples: stagewatch probes set probe.toml\n"
        "          stagewatch probes run nightly",
    )
    actions = verb.add_subparsers(title="actions", metavar="ACTION", required=True)
    shown = actions.add_parser(
        "list",
        help="every probe with its newest pass",
        epilog="Example: stagewatch probes list --json",
    )
    stored = actions.add_parser(
        "set",
        help="store the probe in a TOML or JSON file, or replace the one of its name",
        epilog="Example: stagewatch probes set probe.toml",
    )
    stored.add_argument("file", type=Path)
    run = actions.add_parser(
        "run",
        help="run a pass now: exit 0 when every row passes, 1 when one does not, 2 if cut short",
        description=(
            "With a name, the running server asks (or this process, when none runs). With a FILE "
            "and --dataset rows.jsonl everything happens here and nothing is kept; only so a "
            "Python callable may be the connector."
        ),
        epilog="Example: stagewatch probes run probe.toml --dataset rows.jsonl",
    )
    run.add_argument("probe", metavar="NAME | FILE")
    run.add_argument("--dataset", help="rows as JSON lines, or a folder of rows")
    gone = actions.add_parser(
        "delete", help="delete a probe", epilog="Example: stagewatch probes delete nightly"
    )
    gone.add_argument("name")
    for action, name in ((shown, "list"), (stored, "set"), (run, "run"), (gone, "delete")):
        add_link_options(action)
        action.set_defaults(run=_dispatch(f"{name}_command"))


def _dispatch(name: str) -> Callable[[argparse.Namespace], int]:
    """The command of this name, imported when it runs: the parts behind it are heavy."""

    def command(arguments: argparse.Namespace) -> int:
        module = importlib.import_module("stagewatch.scorer.probes.command")
        return int(getattr(module, name)(arguments))

    return command
