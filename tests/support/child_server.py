"""A small HTTP server in a process of its own: it prints its port and ends when its input closes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import HTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@contextlib.contextmanager
def child_server(module: str, *arguments: str, cwd: Path = ROOT) -> Iterator[int]:
    """The port of `python -m module arguments…`, which calls `serve_until_closed`."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.stdin.close()
        process.wait(timeout=30)
        process.stdout.close()


def serve_until_closed(server: HTTPServer) -> None:
    """Print the port and serve until whoever started this process closes its input."""
    print(server.server_address[1], flush=True)

    def until_closed() -> None:
        sys.stdin.read()
        server.shutdown()

    threading.Thread(target=until_closed, daemon=True).start()
    server.serve_forever()
