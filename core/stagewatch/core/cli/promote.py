"""`dataset add`: one turn, or every turn that a filter finds, into a dataset."""

from __future__ import annotations

import argparse
from typing import Any

from stagewatch.core.cli.common import emit, printable
from stagewatch.core.cli.link import Link, add_link_options
from stagewatch.core.errors import InvalidInputError

_FILTERS = (
    "since", "until", "service", "release", "index_version", "flagged", "diagnosis", "metric",
    "below", "q", "conversation_id", "chunk_id", "probe",
)  # fmt: skip


def add(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    verb = actions.add_parser(
        "add",
        help="promote a turn, or all turns of a filter, into a dataset",
        description=(
            "dataset add NAME TURN promotes one turn. dataset add NAME --filter FIELD=VALUE … "
            "promotes every turn that a list with these filters shows, newest first; --dry-run "
            f"only says what would come. Fields: {', '.join(_FILTERS)}."
        ),
        epilog="Example: stagewatch dataset add regressions --filter diagnosis=stale_source "
        "--filter flagged=true --dry-run",
    )
    add_link_options(verb)
    verb.add_argument("name")
    verb.add_argument("turn_id", nargs="?")
    verb.add_argument("--filter", action="append", default=[], metavar="FIELD=VALUE")
    verb.add_argument("--limit", type=int, default=100, help="turns to look at (default 100)")
    verb.add_argument("--dry-run", action="store_true", help="say what would come, and stop")
    verb.add_argument("--with-duplicates", action="store_true", help="also near-duplicates")
    verb.add_argument("--kind", help="default: suggested from each turn")
    verb.add_argument("--note")
    verb.set_defaults(run=_add)


def _add(arguments: argparse.Namespace) -> int:
    if bool(arguments.turn_id) == bool(arguments.filter):
        raise InvalidInputError("name one turn, or give --filter FIELD=VALUE")
    return _add_many(arguments) if arguments.filter else _add_one(arguments)


def _add_one(arguments: argparse.Namespace) -> int:
    body = {"dataset": arguments.name, "kind": arguments.kind, "note": arguments.note}
    with Link(arguments) as link:
        row = link.call(
            "POST",
            f"/turns/{arguments.turn_id}/promote",
            body={key: value for key, value in body.items() if value},
        )
    emit(arguments, row, f"row {row['row_id']}: {row['kind']}, {row['failure']}, {row['status']}")
    return 0


def _add_many(arguments: argparse.Namespace) -> int:
    wanted = dict(pair.split("=", 1) for pair in arguments.filter if "=" in pair)
    unknown = sorted(set(wanted) - set(_FILTERS))
    if len(wanted) != len(arguments.filter) or unknown:
        raise InvalidInputError(f"--filter: FIELD=VALUE, each once, of {', '.join(_FILTERS)}")
    body = {
        "dataset": arguments.name, "limit": arguments.limit, "dry_run": arguments.dry_run,
        "with_duplicates": arguments.with_duplicates, **wanted,
    }  # fmt: skip
    body |= {k: v for k, v in (("kind", arguments.kind), ("note", arguments.note)) if v}
    with Link(arguments) as link:
        found = link.call("POST", "/promote", body=body)
    emit(arguments, found, printable(_told(found)))
    return 0


def _told(found: dict[str, Any]) -> str:
    kinds = ", ".join(f"{n} {kind}" for kind, n in found["kinds"].items()) or "none"
    more = "" if found["matched_exact"] else "+"
    done = "would promote" if found["dry_run"] else "promoted"
    left = f"{found['already']} there already, {found['retired']} retired, "
    left += f"{found['duplicates']} near-duplicates, {found['no_question']} without a question"
    lines = [
        f"{found['matched']}{more} turns match, {found['looked_at']} looked at",
        f"{done} {found['promoted']}: {kinds}; {found['needs_review']} wait for a second person",
        left,
    ]
    lines += [
        f"  {item['outcome']:<10} {item['kind'] or '':<14} {item['question']}"
        for item in found["items"]
        if item["outcome"] in {"promote", "duplicate"}
    ]
    return "\n".join(lines)
