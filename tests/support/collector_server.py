"""Runs the collector alone in this process: `python tests/support/collector_server.py`.

Settings come from STAGEWATCH_* as in the product. Addresses are printed as one JSON line once it
listens; each line of SQL on stdin is answered by a line of JSON rows (only the process that has
the engine open can read it); SIGTERM stops it, and what it says at the end is printed too. With COLLECTOR_STORE=<mode>
the store misbehaves until the file COLLECTOR_MEND exists: `refuse` (unreachable), `hang`,
`lost-answer` (the rows arrive, the answer does not), `discard` (it says yes and keeps nothing). With COLLECTOR_KEYS=1 senders need a key: two
are printed with the addresses. With COLLECTOR_CLOCK_BACK=<file> the process's wall clock is an hour
back from the moment that file exists.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import uvloop
from prometheus_client import CollectorRegistry

from stagewatch.collector.service import build
from stagewatch.core.auth import Auth
from stagewatch.core.clock import SystemClock
from stagewatch.core.codec import to_text
from stagewatch.core.errors import StagewatchError, StoreUnavailableError
from stagewatch.core.logs import setup_logging
from stagewatch.core.service import Context
from stagewatch.core.settings import load_settings
from stagewatch.core.store import Store, migrate, open_store


def _spoil(store: Store) -> None:
    mode = os.environ.get("COLLECTOR_STORE", "")
    mend = Path(os.environ.get("COLLECTOR_MEND", "/nonexistent"))
    if not mode:
        return
    real = store.put_file

    def put_file(*args: Any, **kwargs: Any) -> None:
        if mend.exists():
            real(*args, **kwargs)
        elif mode == "discard":
            return
        elif mode == "hang":
            while not mend.exists():
                time.sleep(0.02)
            raise StoreUnavailableError("insert: no answer", None)
        elif mode == "lost-answer":
            # The rows arrive, the answer does not.
            real(*args, **kwargs)
            raise StoreUnavailableError("insert: the connection broke", None)
        else:
            raise StoreUnavailableError("insert: ClickHouse cannot be reached", None)

    store.put_file = put_file  # type: ignore[method-assign] # the fault is put in on purpose


def _answer_queries(store: Store) -> None:
    for line in sys.stdin:
        try:
            if line.startswith("ALTER"):
                store.command(line)
                print(to_text({"rows": []}), flush=True)
            else:
                print(to_text({"rows": store.rows(line)}), flush=True)
        except StagewatchError as error:
            print(to_text({"error": f"{error} {getattr(error, '__notes__', '')}"}), flush=True)


class _Clock(SystemClock):
    """The system's clock, set back by an hour once a file is there."""

    def __init__(self, back: str) -> None:
        super().__init__()
        self._back = Path(back)

    def now(self) -> datetime:
        """Wall time, UTC."""
        now = super().now()
        return now - timedelta(hours=1) if self._back.exists() else now


def _keys(context: Context) -> dict[str, str]:
    if not os.environ.get("COLLECTOR_KEYS"):
        return {}
    auth = Auth(context.store, context.clock, keyless=False)
    context.shared["auth"] = auth
    return {
        "sending key": auth.create("sender", "shop", ["ingest"])[1],
        "reading key": auth.create("reader", "shop", ["read"])[1],
    }


async def main() -> None:
    settings = load_settings(os.environ)
    setup_logging()
    store = open_store(settings)
    migrate(store)
    _spoil(store)
    back = os.environ.get("COLLECTOR_CLOCK_BACK", "")
    clock = _Clock(back) if back else SystemClock()
    context = Context(settings=settings, store=store, clock=clock, registry=CollectorRegistry())
    keys = _keys(context)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    service = build(context)
    try:
        addresses = await service.start()
    except StagewatchError as error:
        print(json.dumps({"failed": str(error)}), flush=True)
        sys.exit(2)
    print(json.dumps(dict(addresses) | keys), flush=True)
    threading.Thread(target=_answer_queries, args=(store,), daemon=True).start()
    await stop.wait()
    said = await service.stop(10.0)
    store.close()
    print(json.dumps({"stopped": said}), flush=True)


if __name__ == "__main__":
    uvloop.run(main())
