"""`conventions check|suggest`: what can be read out of your own traffic."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from stagewatch.core.cli.common import (
    add_json_option,
    add_settings_options,
    emit,
    printable,
    settings_of,
)


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verbs."""
    parent = verbs.add_parser("conventions", help="what turns your OTLP files give: check, suggest")
    actions = parent.add_subparsers(title="actions", metavar="ACTION", required=True)
    for name, text in (
        ("check", "assemble OTLP files and show field by field what is there and what is missing"),
        ("suggest", "propose an attribute map from the attribute names seen"),
    ):
        action = actions.add_parser(
            name, help=text, epilog=f"Example: stagewatch conventions {name} captures/"
        )
        add_settings_options(action)
        add_json_option(action)
        action.add_argument("folder", type=Path, metavar="DIR", help="folder of .pb or .json files")
        action.set_defaults(run=lambda arguments, name=name: _run(arguments, name))


def _run(arguments: argparse.Namespace, action: str) -> int:
    from stagewatch.core.codec import to_plain

    settings = settings_of(arguments)
    if action == "check":
        report = importlib.import_module("stagewatch.collector.assemble.report")
        found = report.check(arguments.folder, attribute_map=settings.attribute_map)
        text = report.report_text(found)
    else:
        proposal = importlib.import_module("stagewatch.collector.assemble.suggest")
        found = proposal.suggest(arguments.folder)
        turns = proposal.followed(arguments.folder, found)
        text = proposal.suggestions_text(found, turns)
    emit(arguments, to_plain(found), printable(text))
    return 0
