"""The least that an answer can take here: 4 kB written and synced beside the load, nothing else.

Run as a program it appends to the file it is given until its input closes, 50 times a second, and
prints how long after its time each was durable: sorted milliseconds, as JSON. What is in these is
the machine's: waiting for a core, and for the disk that the engine is syncing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_EVERY_S = 0.02
_BLOCK = b"\x00" * 4096


@contextmanager
def beside(folder: Path, p99_ms: list[float]) -> Iterator[None]:
    """Runs the program while the block lasts, and adds its p99 to the list at the end."""
    process = subprocess.Popen(
        [sys.executable, __file__, str(folder / "beside")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield
    finally:
        took = json.loads(process.communicate()[0])
        p99_ms.append(round(took[int(len(took) * 0.99)], 1))


def main(path: str) -> None:
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    took: list[float] = []
    due = time.perf_counter()
    while not over.is_set():
        due = max(due + _EVERY_S, time.perf_counter())
        time.sleep(max(0.0, due - time.perf_counter()))
        os.write(handle, _BLOCK)
        os.fdatasync(handle)
        took.append((time.perf_counter() - due) * 1000)
    print(json.dumps(sorted(took)))


if __name__ == "__main__":
    main(sys.argv[1])
