"""`up`, `collector`, `scorer`, `api`, `migrate`: the processes."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stagewatch.core.cli.common import add_settings_options, emit, settings_of

_LAST_WAIT_S = 0.5


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verbs."""
    up = verbs.add_parser(
        "up",
        help="run everything in one process",
        description="Run collector, scorer, API and UI in one process until Ctrl-C.",
        epilog="Example: stagewatch up --data-dir /var/lib/stagewatch --port 8600",
    )
    add_settings_options(up, ports=True)
    up.set_defaults(run=lambda arguments: _serve(arguments, ("collector", "scorer", "api")))
    helps = {
        "collector": "receive OTLP, store spans, assemble turns",
        "scorer": "score finished turns on a schedule",
        "api": "serve the HTTP API and the UI",
    }
    for part, text in helps.items():
        parser = verbs.add_parser(
            part, help=f"run one part: {text}",
            epilog=f"Example: stagewatch {part} --clickhouse-url http://user:pass@db:8123/stagewatch",
        )  # fmt: skip
        add_settings_options(parser, ports=True)
        parser.set_defaults(run=lambda arguments, part=part: _serve(arguments, (part,)))
    migrate = verbs.add_parser("migrate", help="bring the store's tables up to date")
    add_settings_options(migrate)
    migrate.add_argument("--json", action="store_true", help="print JSON instead of text")
    migrate.set_defaults(run=_migrate)


def server_file(data_dir: Path) -> Path:
    """Where a running server writes its address, for commands on the same data folder."""
    return data_dir / "server.json"


def _serve(arguments: argparse.Namespace, parts: Sequence[str]) -> int:
    from stagewatch.core.run import run

    settings = settings_of(arguments)
    address_file = server_file(settings.data_dir)

    def ready(addresses: dict[str, str]) -> None:
        body: dict[str, Any] = {"pid": os.getpid(), **addresses}
        address_file.parent.mkdir(parents=True, exist_ok=True)
        partial = address_file.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(body), encoding="utf-8")
        partial.replace(address_file)

    try:
        code = run(settings, parts, sys.stdout, ready)
    finally:
        _forget(address_file)
    _end_threads(code)
    return code


def _end_threads(code: int) -> None:
    """End the process although threads still wait for a peer that says nothing.

    All parts have stopped and the store is closed; what such a thread would still bring nobody
    takes any more, but the interpreter would wait for every thread of a pool, daemon or not.
    """
    ends = time.monotonic() + _LAST_WAIT_S
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(max(0.0, ends - time.monotonic()))
    if threading.active_count() > 1:
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _forget(address_file: Path) -> None:
    """Remove the address file if it is ours."""
    try:
        if json.loads(address_file.read_text(encoding="utf-8")).get("pid") == os.getpid():
            address_file.unlink()
    except (OSError, ValueError):
        return


def _migrate(arguments: argparse.Namespace) -> int:
    from stagewatch.core.store import migrate, open_store

    store = open_store(settings_of(arguments))
    try:
        applied = migrate(store)
    finally:
        store.close()
    text = "\n".join(f"applied {name}" for name in applied) or "up to date"
    emit(arguments, {"applied": applied}, text)
    return 0
