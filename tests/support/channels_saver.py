"""Saves channels in a process of its own: a name a line on stdin, what became of it on stdout.

python -m tests.support.channels_saver CLICKHOUSE_URL
"""

from __future__ import annotations

import secrets
import sys
from datetime import UTC, datetime

from stagewatch.core.codec import to_text
from stagewatch.core.errors import ConflictError
from stagewatch.core.settings import load_settings
from stagewatch.core.store import open_store
from stagewatch.scorer.channels.channel import save_channel


def main() -> None:
    store = open_store(load_settings({"STAGEWATCH_CLICKHOUSE_URL": sys.argv[1]}))
    print("ready", flush=True)
    for line in sys.stdin:
        sent = {"name": line.strip(), "url": "https://hooks.example/x"}
        try:
            _, made = save_channel(
                store, "p", sent, by="x", now=datetime.now(UTC), random=secrets.token_bytes(32)
            )
        except ConflictError:
            made = "conflict"
        print(to_text(made), flush=True)
    store.close()


if __name__ == "__main__":
    main()
