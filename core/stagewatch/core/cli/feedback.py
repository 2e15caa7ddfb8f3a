"""`feedback FILE`: what a help desk or a chargeback list says of turns."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from stagewatch.core.cli.common import emit, table
from stagewatch.core.cli.link import Link, add_link_options
from stagewatch.core.errors import InvalidInputError


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    verb = verbs.add_parser(
        "feedback",
        help="match a file of tickets to turns, and store it as feedback",
        description=(
            "Reads CSV or JSON lines. --map TARGET=COLUMN for trace_id, turn_id, question, at, "
            "kind, comment, corrected_answer, external_id; TARGET==VALUE is a fixed value. Without "
            "--store it only says what each line would match."
        ),
        epilog="Example: stagewatch feedback tickets.csv --map question=Subject --map at=Created "
        "--map kind==disputed --store",
    )
    add_link_options(verb)
    verb.add_argument("file", type=Path)
    verb.add_argument("--map", action="append", default=[], metavar="TARGET=COLUMN")
    verb.add_argument("--source", default="import", help="name of the system they come from")
    verb.add_argument("--store", action="store_true", help="store what matches")
    verb.set_defaults(run=_feedback)


def _feedback(arguments: argparse.Namespace) -> int:
    mapping = dict(pair.split("=", 1) for pair in arguments.map if "=" in pair)
    if len(mapping) != len(arguments.map):
        raise InvalidInputError("--map: TARGET=COLUMN, each target once")
    if not arguments.file.is_file():
        raise InvalidInputError(f"no such file: {arguments.file}")
    query = {
        "mapping": json.dumps(mapping),
        "format": "csv" if arguments.file.suffix == ".csv" else "jsonl",
        "source": arguments.source,
        "preview": "false" if arguments.store else "true",
    }
    with Link(arguments) as link:
        answer = link.raw(
            "POST", "/api/v1/feedback/import", query=query, body=arguments.file.read_bytes(),
            content_type="application/octet-stream",
        )  # fmt: skip
    found = json.loads(answer)
    rows = table(found["items"], ["line", "kind", "turn_id", "problem"], 60)
    tail = f"{found['stored']} stored" if arguments.store else "nothing stored: add --store"
    emit(arguments, found, f"{rows}\n{found['usable']} of {found['lines']} lines match; {tail}")
    return 0 if found["usable"] == found["lines"] else 1
