"""The `stagewatch` command. Standard library only at import: the bare SDK install has it too.

Verbs live in modules beside this one and in the parts they belong to; each offers
`add(subparsers)` and sets `run`, a function from the parsed arguments to an exit code.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import os
import sys
from collections.abc import Sequence
from typing import Any

_VERB_MODULES = (
    "stagewatch.core.cli.serve",
    "stagewatch.core.cli.data",
    "stagewatch.core.cli.datasets",
    "stagewatch.core.cli.admin",
    "stagewatch.core.cli.evaluate",
    "stagewatch.core.cli.scoring",
    "stagewatch.core.cli.plans",
    "stagewatch.core.cli.feedback",
    "stagewatch.core.cli.alerts",
    "stagewatch.core.cli.probes",
    "stagewatch.core.cli.conventions",
    "stagewatch.core.cli.demo",
)

_MISSING_EXTRA = "this command needs the server parts: pip install 'stagewatch[server]'"


def _version() -> str:
    try:
        return importlib.metadata.version("stagewatch")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


class _Lines(argparse.HelpFormatter):
    """Wraps long lines and keeps line breaks: an example command stays on a line of its own."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        fill = super()._fill_text
        return "\n".join(
            indent + line if len(line) <= width else fill(line, width, indent)
            for line in text.splitlines()
        )


class _Parser(argparse.ArgumentParser):
    """A parser with that formatter; the parsers of its verbs are of this class too."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401
        super().__init__(**{"formatter_class": _Lines, **options})


def build_parser() -> argparse.ArgumentParser:
    """The parser with every verb."""
    parser = _Parser(
        prog="stagewatch",
        description="Know which stage of your RAG app said it, before the customer does.",
        epilog="See it work:       stagewatch demo\n"
        "Start a server:    stagewatch up\n"
        "What is wrong:     stagewatch doctor\n"
        "More of a command: stagewatch COMMAND --help",
    )
    parser.add_argument("--version", action="version", version=f"stagewatch {_version()}")
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name in _VERB_MODULES:
        importlib.import_module(name).add(verbs)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code. Errors we know are one line on stderr, exit code 2."""
    parser = build_parser()
    arguments = parser.parse_args(argv)
    if not hasattr(arguments, "run"):
        parser.print_help()
        return 2
    return _guarded(arguments)


def _guarded(arguments: argparse.Namespace) -> int:
    from stagewatch.core.errors import StagewatchError

    try:
        return int(arguments.run(arguments))
    except StagewatchError as error:
        print(f"stagewatch: {error}", file=sys.stderr)
        if os.environ.get("STAGEWATCH_LOG_LEVEL") == "debug":
            for note in getattr(error, "__notes__", []):
                print(note, file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("stagewatch"):
            raise
        print(f"stagewatch: {_MISSING_EXTRA} (no module {error.name!r})", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader went away (`| head`): not an error of ours. Point stdout at nothing, so the
        # interpreter's own flush at exit does not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
