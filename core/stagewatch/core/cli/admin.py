"""`doctor`, `key …`, `spool …`: what an operator needs at three in the morning."""

from __future__ import annotations

import argparse
import importlib
import json
import shutil
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from stagewatch.core.cli.common import (
    add_json_option,
    add_settings_options,
    emit,
    settings_of,
    table,
)
from stagewatch.core.cli.link import (
    Link,
    RefusedError,
    add_link_options,
    named_server,
    running_server,
)
from stagewatch.core.errors import StagewatchError

if TYPE_CHECKING:
    from stagewatch.core.settings import Settings

_MIN_FREE_GB = 2


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verbs."""
    doctor = verbs.add_parser(
        "doctor", help="say what is wrong and how to mend it", epilog="Example: stagewatch doctor"
    )
    add_link_options(doctor)
    doctor.set_defaults(run=_doctor)
    _add_key(verbs)
    _add_spool(verbs)


def _add_key(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parent = verbs.add_parser("key", help="API keys: create, list, revoke")
    actions = parent.add_subparsers(title="actions", metavar="ACTION", required=True)
    create = actions.add_parser(
        "create",
        help="make a key; it is shown this once",
        epilog="The first:  stagewatch key create NAME --role admin --project '*'\n"
        "Then, e.g.: stagewatch key create collector --role ingest --project shop",
    )
    add_link_options(create)
    create.add_argument("name", help="whose key: a person or a service")
    create.add_argument(
        "--role",
        action="append",
        choices=["ingest", "read", "write", "admin"],
        required=True,
        help="ingest sends spans and feedback; read looks; write reads, labels, promotes and "
        "changes rules; admin does all that, and makes keys, channels, plans and probes. "
        "May be given more than once",
    )
    create.set_defaults(run=_key_create)
    listing = actions.add_parser("list", help="every key, without its secret")
    add_link_options(listing)
    listing.set_defaults(run=_key_list)
    revoke = actions.add_parser("revoke", help="make a key unusable")
    add_link_options(revoke)
    revoke.add_argument("key_id", help="its id, as `key list` shows it")
    revoke.set_defaults(run=_key_revoke)


def _key_create(arguments: argparse.Namespace) -> int:
    body = {
        "name": arguments.name,
        "project": arguments.project or "default",
        "roles": arguments.role,
    }
    arguments.project = None
    with Link(arguments) as link:
        made = link.call("POST", "/keys", body=body)
    note = f"{made['key']}\n(id {made['id']}; shown this once)"
    if body["project"] == "*" and "admin" in arguments.role:
        note += "\nFrom now on every sender, command (STAGEWATCH_API_KEY) and the UI need one."
    emit(arguments, made, note)
    return 0


def _key_list(arguments: argparse.Namespace) -> int:
    with Link(arguments) as link:
        found = link.call("GET", "/keys")
    rows = [{**key, "roles": ",".join(key["roles"])} for key in found["items"]]
    columns = ["id", "name", "project", "roles", "created_at"]
    emit(arguments, found, table(rows, columns) if rows else "no key yet")
    return 0


def _key_revoke(arguments: argparse.Namespace) -> int:
    with Link(arguments) as link:
        found = link.call("DELETE", f"/keys/{arguments.key_id}")
    emit(arguments, found, f"revoked {found['revoked']}")
    return 0


def _add_spool(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parent = verbs.add_parser("spool", help="what is not in the store yet: list, replay, drop")
    actions = parent.add_subparsers(title="actions", metavar="ACTION", required=True)
    for name, text in (
        ("list", "segments waiting and bodies put aside in dead/, with the reason"),
        ("replay", "put dead bodies back in line (all, or those named)"),
        ("drop", "delete dead bodies for good (those named, or --all)"),
    ):
        action = actions.add_parser(name, help=text)
        add_settings_options(action)
        add_json_option(action)
        if name != "list":
            action.add_argument("names", nargs="*", metavar="NAME")
        if name == "drop":
            action.add_argument("--all", action="store_true", help="every dead body")
        action.set_defaults(run=lambda arguments, name=name: _spool(arguments, name))


def _spool(arguments: argparse.Namespace, action: str) -> int:
    settings = settings_of(arguments)
    spool = importlib.import_module("stagewatch.collector.spool_admin")
    if action == "list":
        found = [asdict(item) for item in spool.list_spool(settings.data_dir)]
        emit(
            arguments,
            {"items": found},
            table(found, ["state", "name", "signal", "bodies", "bytes", "reason"], 60)
            if found
            else "the spool is empty",
        )
        return 0
    if action == "drop" and not arguments.names and not arguments.all:
        raise StagewatchError("name what to drop ('stagewatch spool list'), or say --all")
    act = spool.replay_dead if action == "replay" else spool.drop_dead
    names: list[str | None] = arguments.names or [None]
    changed = [done for name in names for done in act(settings.data_dir, name)]
    done = "put back in line for the next start" if action == "replay" else "deleted"
    emit(arguments, {"changed": changed}, f"{len(changed)} {done}")
    return 0


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing the doctor looked at; `mend` says what to do when it is not ok."""

    what: str
    ok: bool
    says: str
    mend: str = ""


def _doctor(arguments: argparse.Namespace) -> int:
    settings = settings_of(arguments)
    findings = list(examine(settings, arguments))
    lines = []
    for finding in findings:
        lines.append(f"{'ok  ' if finding.ok else 'BAD '} {finding.what:<14} {finding.says}")
        if not finding.ok and finding.mend:
            lines.append(f"     {'':<14} → {finding.mend}")
    emit(arguments, {"items": [asdict(finding) for finding in findings]}, "\n".join(lines))
    return 0 if all(finding.ok for finding in findings) else 1


def examine(settings: Settings, arguments: argparse.Namespace) -> Iterator[Finding]:
    """Look at Python, packages, folder, disk, ports, server and its parts, one by one."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    yield Finding("python", sys.version_info >= (3, 11), version, "use Python 3.11 or newer")
    missing = [name for name in ("chdb", "fastapi", "grpc", "orjson") if not _importable(name)]
    says = "server parts installed" if not missing else f"missing: {', '.join(missing)}"
    yield Finding("packages", not missing, says, "pip install 'stagewatch[server]'")
    yield from _folder(settings)
    address = named_server(arguments) or running_server(settings.data_dir)
    if address is None:
        other = _other_server(settings)
        if other is not None:
            yield other
            return
        yield from _ports(settings)
        yield Finding("server", True, "not running on this data folder (stagewatch up starts it)")
        return
    yield from _server(arguments, address)


def _importable(name: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(name) is not None


def _folder(settings: Settings) -> Iterator[Finding]:
    folder = settings.data_dir
    nearest = next(p for p in (folder, *folder.resolve().parents) if p.exists())
    import os

    writable = os.access(nearest, os.W_OK)
    yield Finding(
        "data folder",
        writable,
        f"{folder} ({'writable' if writable else 'not writable'})",
        "set STAGEWATCH_DATA_DIR to a folder this user may write",
    )
    free = shutil.disk_usage(nearest).free / 1e9
    yield Finding(
        "disk",
        free >= _MIN_FREE_GB,
        f"{free:.1f} GB free",
        "free some space: the collector refuses data before the disk is full",
    )


def _other_server(settings: Settings) -> Finding | None:
    """A stagewatch server on the usual port that does not hold this data folder, such as a demo."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = f"http://{host}:{settings.port}"
    try:
        try:
            with urllib.request.urlopen(f"{address}/readyz", timeout=3) as answer:  # noqa: S310
                body = answer.read()
        except urllib.error.HTTPError as sick:
            body = sick.read()
        found = json.loads(body)
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict) or "parts" not in found:
        return None
    return Finding(
        "server",
        False,
        f"none on the data folder {settings.data_dir}, and one on another folder at {address}",
        f"to ask that one: --url {address} or STAGEWATCH_URL; "
        "to start a second one: STAGEWATCH_PORT and the ports of OTLP",
    )


def _ports(settings: Settings) -> Iterator[Finding]:
    for name in ("port", "otlp_grpc_port", "otlp_http_port"):
        port = getattr(settings, name)
        with socket.socket(socket.AF_INET6 if ":" in settings.host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((settings.host, port))
                free, says = True, f"{port} is free"
            except OSError as error:
                free, says = False, f"{port}: {error.strerror}"
        mend = f"stop what holds it (ss -ltnp 'sport = :{port}') or set STAGEWATCH_{name.upper()}"
        yield Finding(name.replace("_", " "), free, says, mend)


def _server(arguments: argparse.Namespace, address: str) -> Iterator[Finding]:
    arguments.url = address
    try:
        with Link(arguments) as link:
            body = _ready(link)
    except StagewatchError as error:
        yield Finding("server", False, str(error), "is it running? stagewatch up")
        return
    yield Finding("server", bool(body.get("ok")), f"{address} answers", "see the parts below")
    for name, part in body.get("parts", {}).items():
        yield Finding(
            name, bool(part.get("ok")), str(part.get("says", "")), str(part.get("mend", ""))
        )


def _ready(link: Link) -> dict[str, Any]:
    try:
        answer = link.raw("GET", "/readyz")
    except RefusedError as error:
        if error.status == 503 and error.body:
            answer = error.body
        else:
            raise
    return dict(json.loads(answer))
