"""A real `stagewatch up` in a process of its own, with its output shown when something fails."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.error import HTTPError
from urllib.request import Request, urlopen

T = TypeVar("T")
DEADLINE_S = 60.0


def until(what: str, ask: Callable[[], T | None], deadline_s: float = DEADLINE_S) -> T:
    """Ask until there is an answer (nothing, no and an empty list are none); fail with `what` when
    none comes in time.
    """
    end = time.monotonic() + deadline_s
    while True:
        found = ask()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"waited {deadline_s:g} s for {what}")
        time.sleep(0.05)


@dataclass
class Answer:
    """What the API said."""

    status: int
    body: bytes
    headers: dict[str, str]

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Server:
    """One server process on `data_dir`; ports are free ones unless given."""

    data_dir: Path
    environ: dict[str, str] = field(default_factory=dict)
    parts: tuple[str, ...] = ("up",)
    process: subprocess.Popen[bytes] | None = None
    addresses: dict[str, str] = field(default_factory=dict)

    @property
    def log(self) -> Path:
        return self.data_dir.parent / f"{self.data_dir.name}.log"

    def output(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def spawn(self) -> None:
        """Start the process without waiting for it to listen."""
        self.data_dir.parent.mkdir(parents=True, exist_ok=True)
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("STAGEWATCH_", "OTEL_"))}
        environ = {
            "STAGEWATCH_DATA_DIR": str(self.data_dir),
            "STAGEWATCH_PORT": "0",
            "STAGEWATCH_OTLP_GRPC_PORT": "0",
            "STAGEWATCH_OTLP_HTTP_PORT": "0",
            "STAGEWATCH_QUIET_SECONDS": "0.3",
            "STAGEWATCH_ORPHAN_SECONDS": "2",
            "STAGEWATCH_SCORE_EVERY_SECONDS": "0.5",
            **self.environ,
        }
        with contextlib.suppress(FileNotFoundError):
            (self.data_dir / "server.json").unlink()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "stagewatch", *self.parts],
                env={**clean, **environ},
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.data_dir.parent,
            )

    def start(self) -> Server:
        """Start and wait until it listens."""
        self.spawn()
        assert self.process is not None

        def ready() -> dict[str, str] | None:
            assert self.process is not None
            if self.process.poll() is not None:
                raise AssertionError(
                    f"the server ended with {self.process.returncode}: {self.output()}"
                )
            with contextlib.suppress(OSError, ValueError):
                return dict(json.loads((self.data_dir / "server.json").read_text()))
            return None

        self.addresses = until("the server to listen", ready)
        return self

    @property
    def api(self) -> str:
        return self.addresses["api"]

    @property
    def otlp_http(self) -> str:
        return self.addresses["otlp http"]

    @property
    def otlp_grpc(self) -> str:
        return self.addresses["otlp grpc"].removeprefix("http://")

    def wait(self, deadline_s: float = DEADLINE_S) -> int:
        """The exit code."""
        assert self.process is not None
        return self.process.wait(timeout=deadline_s)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.wait()

    def kill(self) -> None:
        """SIGKILL, as a crash does it."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def call(
        self,
        method: str,
        path: str,
        body: object | None = None,
        headers: dict[str, str] | None = None,
        raw: bytes | None = None,
    ) -> Answer:
        """One API call; `path` from the root. Error answers are returned, not raised."""
        data = raw if raw is not None else json.dumps(body).encode() if body is not None else None
        request = Request(self.api + path, data=data, method=method)
        request.add_header("content-type", "application/json")
        for name, value in (headers or {}).items():
            request.add_header(name, value)
        try:
            with urlopen(request, timeout=30) as answer:
                return Answer(answer.status, answer.read(), dict(answer.headers.items()))
        except HTTPError as error:
            return Answer(error.code, error.read(), dict(error.headers.items()))

    def get(self, path: str) -> Any:
        """JSON of a GET under /api/v1 that must succeed."""
        answer = self.call("GET", f"/api/v1{path}")
        assert answer.status == 200, (answer.status, answer.body, self.output())
        return answer.json()

    def post(self, path: str, body: object, status: int | None = None) -> Any:
        """JSON of a POST under /api/v1 that must succeed."""
        answer = self.call("POST", f"/api/v1{path}", body)
        wanted = {status} if status else {200, 201, 202}
        assert answer.status in wanted, (answer.status, answer.body, self.output())
        return answer.json()

    def turns(self, n: int, query: str = "") -> list[dict[str, Any]]:
        """Wait for at least `n` turns."""

        def ask() -> list[dict[str, Any]] | None:
            items: list[dict[str, Any]] = self.get(f"/turns?limit=500&{query}")["items"]
            return items if len(items) >= n else None

        return until(f"{n} turns", ask)

    def scored(self, turn_id: str) -> dict[str, Any]:
        """Wait until a turn has a diagnosis."""

        def ask() -> dict[str, Any] | None:
            found: dict[str, Any] = self.get(f"/turns/{turn_id}")
            return found if found["diagnosis"] else None

        return until("the turn to be scored", ask)


def stagewatch(server: Server, cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`stagewatch words…` in the folder `cwd`, talking to the server."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("STAGEWATCH_", "GITHUB_"))}
    return subprocess.run(
        [sys.executable, "-m", "stagewatch", *words],
        env={**clean, "STAGEWATCH_URL": server.api},
        cwd=cwd, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@contextlib.contextmanager
def serving(data_dir: Path, **environ: str) -> Iterator[Server]:
    """A started server, stopped at the end; its output is printed when the block fails."""
    server = Server(data_dir, environ).start()
    try:
        yield server
    except BaseException:
        print(server.output())
        raise
    finally:
        if server.process is not None and server.process.poll() is None:
            server.stop()
