"""`alerts`: what is wrong, and who is told."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from stagewatch.core.cli.common import emit, printable, table
from stagewatch.core.cli.link import Link, add_link_options
from stagewatch.core.errors import InvalidInputError


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    verb = verbs.add_parser(
        "alerts",
        help="alerts, what to do with them, and the channels they go to",
        description="See docs/alerts.md.",
        epilog="Examples: stagewatch alerts list --state open\n"
        "          stagewatch alerts ack 3f2a\n"
        "          stagewatch alerts channel ops.json\n"
        "          stagewatch alerts test ops",
    )
    actions = verb.add_subparsers(title="actions", metavar="ACTION", required=True)
    shown = _action(actions, "list", "alerts, the worst open one first", _list)
    shown.add_argument("--state", choices=["open", "acked", "snoozed", "closed"])
    acked = _action(actions, "ack", "somebody has seen it: no more reminders", _ack)
    acked.add_argument("alert", help="id of the alert, or its beginning")
    snoozed = _action(actions, "snooze", "no reminders for some hours", _snooze)
    snoozed.add_argument("alert", help="id of the alert, or its beginning")
    snoozed.add_argument("--hours", type=float, default=24.0, help="how long (default 24)")
    _action(actions, "channels", "where alerts go", _channels)
    made = _action(actions, "channel", "make or change a channel from a JSON file", _channel)
    made.add_argument("file", type=Path, help="its fields: docs/alerts.md")
    tested = _action(actions, "test", "send a marked message through a channel", _test)
    tested.add_argument("channel", help="its name")
    dry = _action(actions, "dry-run", "what a channel would have sent", _dry_run)
    dry.add_argument("--channel", help="a channel's name (default: one that hears everything)")
    dry.add_argument("--days", type=float, default=7.0, help="how far back (default 7)")


_EXAMPLES = {
    "list": "--state open",
    "ack": "3f2a",
    "snooze": "3f2a --hours 4",
    "channel": "ops.json",
    "test": "ops",
    "dry-run": "--channel ops --days 7",
}


def _action(actions: Any, name: str, text: str, run: Any) -> argparse.ArgumentParser:  # noqa: ANN401
    example = _EXAMPLES.get(name)
    epilog = f"Example: stagewatch alerts {name} {example}" if example else None
    parser: argparse.ArgumentParser = actions.add_parser(name, help=text, epilog=epilog)
    add_link_options(parser)
    parser.set_defaults(run=run)
    return parser


def _list(arguments: argparse.Namespace) -> int:
    with Link(arguments) as link:
        found = link.call("GET", "/alerts", query={"state": arguments.state})
    lines = [
        f"{item['alert_id'][:8]}  {item['state']:<8} {item['severity']:<8} {item['sentence']}"
        for item in found["items"]
    ]
    emit(arguments, found, printable("\n".join(lines)) or "no alert")
    return 0


def _full_id(link: Link, start: str) -> str:
    """The one alert whose id begins like this."""
    ids = [item["alert_id"] for item in link.call("GET", "/alerts")["items"]]
    found = [item for item in ids if item.startswith(start)]
    if len(found) != 1:
        many = f"{len(found)} alerts have" if found else "no alert has"
        raise InvalidInputError(
            f"{many} an id that begins with {start!r}; 'stagewatch alerts list' shows them"
        )
    return str(found[0])


def _ack(arguments: argparse.Namespace) -> int:
    with Link(arguments) as link:
        found = link.call("POST", f"/alerts/{_full_id(link, arguments.alert)}/ack")
    emit(arguments, found, f"{found['alert_id'][:8]} is {found['state']}")
    return 0


def _snooze(arguments: argparse.Namespace) -> int:
    with Link(arguments) as link:
        address = f"/alerts/{_full_id(link, arguments.alert)}/snooze"
        found = link.call("POST", address, body={"hours": arguments.hours})
    until = found["mark"]["until"]
    emit(arguments, found, f"{found['alert_id'][:8]} is snoozed until {until}")
    return 0


def _channels(arguments: argparse.Namespace) -> int:
    with Link(arguments) as link:
        found = link.call("GET", "/channels")
    columns = ["name", "kind", "url", "stages", "severities", "renotify_hours", "enabled"]
    rows = [
        {
            **item,
            "stages": ", ".join(item["stages"]) or "all",
            "severities": ", ".join(item["severities"]) or "all",
            "enabled": "yes" if item["enabled"] else "no",
        }
        for item in found["items"]
    ]
    emit(arguments, found, table(rows, columns) if rows else "no channel yet")
    return 0


def _channel(arguments: argparse.Namespace) -> int:
    try:
        body = json.loads(arguments.file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"cannot read {arguments.file}: {error}") from None
    with Link(arguments) as link:
        made = link.call("POST", "/channels", body=body)
    text = f"channel {made['name']} goes to {made['url']}"
    if made["new_secret"]:
        text += f"\nsigning secret, shown this once: {made['new_secret']}"
    emit(arguments, made, text)
    return 0


def _test(arguments: argparse.Namespace) -> int:
    with Link(arguments) as link:
        found = link.call("POST", "/alerts/test", body={"channel": arguments.channel})
    said = " ".join(str(part) for part in (found["status"] or "", found["said"]) if part)
    emit(arguments, found, f"{'sent' if found['ok'] else 'not sent'}: {printable(said)}")
    return 0 if found["ok"] else 1


def _dry_run(arguments: argparse.Namespace) -> int:
    body = {"channel": arguments.channel, "days": arguments.days}
    with Link(arguments) as link:
        found = link.call("POST", "/alerts/dry-run", body=body)
    lines = [
        f"{item['at'][:16]}  {item['event']:<8} {item['severity']:<8} {item['sentence']}"
        + (f"  [held back: {item['held_back']}]" if item["held_back"] else "")
        for item in found["items"]
    ]
    tail = f"{found['messages']} messages, {found['held_back']} held back"
    emit(arguments, found, printable("\n".join([*lines, tail])))
    return 0
