"""`score` and `rules …`: turns of the past scored as a job, and what is scored live."""

from __future__ import annotations

import argparse
import importlib
import json
import re
import sys
import threading
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from stagewatch.core.cli.common import emit, table
from stagewatch.core.cli.link import Link, add_link_options
from stagewatch.core.errors import InvalidInputError, StagewatchError

_AGO = re.compile(r"(\d+(?:\.\d+)?)([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_POLL_SECONDS = 1.0
_BAR = 30


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verbs."""
    score = verbs.add_parser(
        "score",
        help="score turns of the past; the price is shown first",
        description=(
            "Have a judge read the turns of a time range. What it has read before is not read "
            "again, and a job that is interrupted goes on where it was. A running server carries "
            "it out; without one this command does."
        ),
        epilog="Example: stagewatch score --since 7d --dry-run",
    )
    add_link_options(score)
    score.add_argument("--since", required=True, help="e.g. 24h, 7d, or 2026-11-30T12:00:00Z")
    score.add_argument("--until", help="the same forms (default: now)")
    score.add_argument("--judge", choices=["embedded", "openai"], help="default: as configured")
    score.add_argument(
        "--scope", choices=["all", "sampled"], default="all",
        help="every turn of the range, or those that live sampling drew",
    )  # fmt: skip
    score.add_argument("--rule", default="", help="only turns that this rule matches")
    score.add_argument("--dry-run", action="store_true", help="say what it would take and stop")
    score.add_argument("--yes", action="store_true", help="do not ask")
    score.set_defaults(run=_score)
    _add_rules(verbs)


def _add_rules(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parent = verbs.add_parser("rules", help="which turns are scored: list, set, delete")
    actions = parent.add_subparsers(title="actions", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="the rules in their order, and what each did")
    add_link_options(listing)
    listing.set_defaults(run=_rules_list)
    setting = actions.add_parser(
        "set",
        help="make or replace a rule",
        epilog='Example: stagewatch rules set \'{"name": "beta", "filters": {"release": ["2.*"]}, '
        '"rate": 0.5}\' --preview',
    )
    add_link_options(setting)
    setting.add_argument("rule", help="JSON, or a file of TOML or JSON")
    setting.add_argument("--preview", action="store_true", help="say what it would do and stop")
    setting.set_defaults(run=_rules_set)
    delete = actions.add_parser("delete", help="delete a rule of the project")
    add_link_options(delete)
    delete.add_argument("name")
    delete.set_defaults(run=_rules_delete)


def moment(text: str, now: datetime) -> datetime:
    """A time from "7d" (ago) or RFC 3339; a date alone is its midnight, UTC.

    Raises:
        InvalidInputError: it is neither.
    """
    ago = _AGO.fullmatch(text.strip())
    try:
        if ago:
            return now - timedelta(**{_UNITS[ago.group(2)]: float(ago.group(1))})
        found = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError):
        raise InvalidInputError(
            f"{text!r} is not a time: use e.g. 24h, 7d, 2026-11-30 or 2026-11-30T12:00:00Z"
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _score(arguments: argparse.Namespace) -> int:
    now = datetime.now(UTC)
    body: dict[str, Any] = {
        "since": moment(arguments.since, now).isoformat(),
        "until": moment(arguments.until, now).isoformat() if arguments.until else now.isoformat(),
        "scope": arguments.scope,
        "rule": arguments.rule,
    }
    if arguments.judge:
        body["judge"] = arguments.judge
    with Link(arguments) as link:
        priced = link.call("POST", "/backfills", body={**body, "dry_run": True})
        forecast = priced["forecast"]
        if arguments.dry_run:
            emit(arguments, priced, forecast["sentence"])
            return 0
        if forecast["turns"] == 0 and forecast["already"]:
            emit(arguments, priced, f"nothing to do: {forecast['sentence']}")
            return 0
        if not arguments.yes and not _agreed(forecast["sentence"]):
            raise StagewatchError("nothing was started; say --yes to agree without being asked")
        job = link.call("POST", "/backfills", body={**body, "agreed_usd": forecast["usd"]})
        return _follow(arguments, link, job)


def _agreed(sentence: str) -> bool:
    print(sentence, file=sys.stderr)
    if not sys.stdin.isatty():
        return False
    print("Go on? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _follow(arguments: argparse.Namespace, link: Link, job: dict[str, Any]) -> int:
    """Show how far the job is until it ends; Ctrl-C leaves a server's job running."""
    path = f"/backfills/{job['job_id']}"
    if link.context is not None:
        here = importlib.import_module("stagewatch.scorer.backfill_here")
        here.work_here(link.context, lambda: _bar(link.call("GET", path)))
        job = link.call("GET", path)
    stopped = threading.Event()
    while link.context is None and job["progress"]["state"] not in {"done", "cancelled"}:
        _bar(job)
        stopped.wait(_POLL_SECONDS)
        job = link.call("GET", path)
    _bar(job, last=True)
    emit(arguments, job, f"backfill {job['job_id']}: {job['says']}")
    return 0 if job["progress"]["state"] == "done" else 1


def _bar(job: dict[str, Any], *, last: bool = False) -> None:
    if not sys.stderr.isatty():
        return
    share = job["progress"]["share"]
    filled = round(_BAR * share)
    text = f"\r[{'#' * filled}{'.' * (_BAR - filled)}] {share:4.0%}  {job['says']}"
    print(text.ljust(100)[:118], end="\n" if last else "", file=sys.stderr, flush=True)


def _rules_list(arguments: argparse.Namespace) -> int:
    with Link(arguments) as link:
        found = link.call("GET", "/rules")
    rows = [
        {
            "rule": rule["name"],
            "scope": rule["scope"],
            "priority": rule["priority"],
            "on": "yes" if rule["enabled"] else "no",
            "rate": rule["rate"],
            "judge": rule["judge"],
            "matched 24h": rule["last_24h"]["matched"],
            "scored 24h": rule["last_24h"]["outcomes"].get("scored", 0),
            "usd today": round(rule["today"]["usd"], 4),
        }
        for rule in found["items"]
    ]
    text = table(rows, list(rows[0])) if rows else "no rule: no turn is scored"
    if found["unmatched_24h"]:
        text += f"\n{found['unmatched_24h']} turns of the last 24 hours matched no rule"
    emit(arguments, found, text)
    return 0


def read_rule(text: str) -> dict[str, Any]:
    """A rule from JSON text, or from a file of JSON or TOML.

    Raises:
        InvalidInputError: it can be read as neither.
    """
    where = "the rule"
    try:
        if not text.lstrip().startswith("{"):
            where = text
            path = Path(text)
            text = path.read_text(encoding="utf-8")
            if path.suffix == ".toml":
                return tomllib.loads(text)
        found = json.loads(text)
    except OSError as error:
        raise InvalidInputError(f"cannot read {where}: {error.strerror}") from None
    except ValueError as error:
        raise InvalidInputError(f"{where} is not JSON or TOML: {error}") from None
    if not isinstance(found, dict):
        raise InvalidInputError(f"{where} is not a JSON object")
    return found


def _rules_set(arguments: argparse.Namespace) -> int:
    rule = read_rule(arguments.rule)
    with Link(arguments) as link:
        if arguments.preview:
            seen = link.call("POST", "/rules/preview", body=rule)
            emit(arguments, seen, seen["sentence"])
            return 0
        if not isinstance(rule.get("name"), str) or "/" in rule["name"]:
            raise InvalidInputError("rule: name: give one, of letters, digits, '_', '.' and '-'")
        stored = link.call("PUT", f"/rules/{rule['name']}", body=rule)
    emit(arguments, stored, f"rule {stored['name']} is in force from the next pass on")
    return 0


def _rules_delete(arguments: argparse.Namespace) -> int:
    with Link(arguments) as link:
        gone = link.call("DELETE", f"/rules/{arguments.name}")
    emit(arguments, gone, f"deleted {gone['deleted']}")
    return 0
