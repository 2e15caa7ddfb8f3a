"""The demo bot behind HTTP in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen


@dataclass
class BotApp:
    """The running bot."""

    url: str

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        request = Request(self.url + path, json.dumps(body).encode(), method="POST")
        with urlopen(request, timeout=30) as answer:
            found: dict[str, Any] = json.loads(answer.read())
        return found

    def ask(self, question: str, conversation: str = "c-1") -> dict[str, Any]:
        return self.post("/ask", {"question": question, "conversation_id": conversation})

    def deploy(self, state: str, index_version: str) -> None:
        self.post("/deploy", {"state": state, "index_version": index_version})


@contextlib.contextmanager
def running_bot(otlp: str, url: str, *, state: str, index_version: str) -> Iterator[BotApp]:
    """The bot, stopped at the end."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("STAGEWATCH_", "OTEL_"))}
    process = subprocess.Popen(
        [
            sys.executable, "-m", "stagewatch.demo.serve", "--port", "0", "--state", state,
            "--index-version", index_version, "--otlp", otlp, "--url", url,
        ],
        cwd=Path(__file__).resolve().parents[2], env=clean, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        yield BotApp(process.stdout.readline().strip())
    finally:
        process.terminate()
        process.wait(timeout=20)
        process.stdout.close()
