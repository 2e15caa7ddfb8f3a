"""`feedback`: what a help desk or a chargeback list says of turns, by file or by webhook."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from urllib.parse import quote

from stagewatch.core.cli.common import emit, table
from stagewatch.core.cli.link import Link, add_link_options
from stagewatch.core.errors import InvalidInputError


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    verb = verbs.add_parser(
        "feedback",
        help="match a file of tickets to turns, and store it as feedback; or make a webhook",
        description=(
            "feedback FILE reads CSV or JSON lines. --map TARGET=COLUMN for trace_id, turn_id, "
            "question, at, kind, comment, corrected_answer, external_id; TARGET==VALUE is a fixed "
            "value. Without --store it only says what each line would match. feedback webhook "
            "SOURCE makes an address that a help desk posts to, with TARGET=JSONPATH, and prints "
            "its secret once."
        ),
        epilog="Examples:\n"
        "stagewatch feedback tickets.csv --map question=Subject --map at=Created "
        "--map kind==disputed --store\n"
        "stagewatch feedback webhook desk --map 'trace_id=$.ticket.trace' "
        "--map 'external_id=$.ticket.id'",
    )
    add_link_options(verb)
    verb.add_argument("what", nargs="+", metavar="FILE | webhook SOURCE")
    verb.add_argument("--map", action="append", default=[], metavar="TARGET=PLACE")
    verb.add_argument("--header", help="webhook: the header that carries the signature")
    verb.add_argument("--source", default="import", help="name of the system they come from")
    verb.add_argument("--store", action="store_true", help="store what matches")
    verb.set_defaults(run=_feedback)


def _feedback(arguments: argparse.Namespace) -> int:
    mapping = dict(pair.split("=", 1) for pair in arguments.map if "=" in pair)
    if len(mapping) != len(arguments.map):
        raise InvalidInputError("--map: TARGET=COLUMN, each target once")
    if arguments.what[0] == "webhook" and len(arguments.what) == 2:
        return _webhook(arguments, arguments.what[1], mapping)
    if len(arguments.what) != 1:
        raise InvalidInputError("name one FILE, or: webhook SOURCE")
    file = Path(arguments.what[0])
    if not file.is_file():
        raise InvalidInputError(f"no such file: {file}")
    query = {
        "mapping": json.dumps(mapping),
        "format": "csv" if file.suffix == ".csv" else "jsonl",
        "source": arguments.source,
        "preview": "false" if arguments.store else "true",
    }
    with Link(arguments) as link:
        answer = link.raw(
            "POST", "/api/v1/feedback/import", query=query, body=file.read_bytes(),
            content_type="application/octet-stream",
        )  # fmt: skip
    found = json.loads(answer)
    rows = table(found["items"], ["line", "kind", "turn_id", "problem"], 60)
    tail = f"{found['stored']} stored" if arguments.store else "nothing stored: add --store"
    emit(arguments, found, f"{rows}\n{found['usable']} of {found['lines']} lines match; {tail}")
    return 0 if found["usable"] == found["lines"] else 1


def _webhook(arguments: argparse.Namespace, source: str, mapping: dict[str, str]) -> int:
    body = {"mapping": mapping, **({"header": arguments.header} if arguments.header else {})}
    with Link(arguments) as link:
        made = link.call("PUT", f"/feedback/webhooks/{quote(source, safe='')}", body=body)
    lines = [
        f"POST to {made['path']}",
        f"{made['header']}: sha256=<HMAC-SHA256 of the raw body, in hex>",
        f"secret, shown this once: {made['secret']}",
    ]
    emit(arguments, made, "\n".join(lines))
    return 0
