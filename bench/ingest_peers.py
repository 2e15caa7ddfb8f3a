"""Who else takes OTLP, for comparison in the same run: rotel to a stub, and Phoenix."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from ingest_load import Row, a_row, cpu_s, http_sender, run_load

PEERS = Path(__file__).parent / "out" / "peers"
PROTOBUF = {"Content-Type": "application/x-protobuf"}


def peers_python(package: str) -> Path:
    """The interpreter of a separate environment that has `package`, installed when it is not."""
    folder = PEERS / package
    python = folder / "bin" / "python"
    if not (folder / "done").exists():
        print(f"installing {package} into {folder} …", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, package], check=True)
        (folder / "done").touch()
    return python


def rotel_agent(named: str | None) -> Path:
    if named:
        return Path(named)
    found = peers_python("rotel").parents[1].glob("lib/python*/site-packages/rotel/rotel-agent")
    return next(found)


class DiscardingStub(threading.Thread):
    """Answers ClickHouse inserts with yes and forgets them."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.received = 0
        self.port = 0
        self.ready = threading.Event()

    def run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._one, "127.0.0.1", 0, limit=1 << 20)
        self.port = server.sockets[0].getsockname()[1]
        self.ready.set()
        await server.serve_forever()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                if b"chunked" in head:
                    while size := int((await reader.readline()).split(b";")[0], 16):
                        await reader.readexactly(size + 2)
                        self.received += size
                    await reader.readexactly(2)
                elif b"content-length:" in head:
                    size = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
                    await reader.readexactly(size)
                    self.received += size
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def measure_rotel(
    agent: Path, kind: str, make: Callable[[], list[bytes]], spans: int, *, runs: int
) -> Row:
    stub = DiscardingStub()
    stub.start()
    stub.ready.wait()
    http_port, grpc_port = free_port(), free_port()
    command = [str(agent), "start", "--otlp-http-endpoint", f"127.0.0.1:{http_port}"]
    command += ["--otlp-grpc-endpoint", f"127.0.0.1:{grpc_port}", "--exporter", "clickhouse"]
    command += ["--clickhouse-exporter-endpoint", f"http://127.0.0.1:{stub.port}"]
    command += ["--clickhouse-exporter-compression", "lz4"]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    costs, rates, latencies = [], [], []
    try:
        process = psutil.Process(child.pid)
        connect = http_sender(http_port, PROTOBUF)
        wait_listening(http_port)
        run_load(connect, make()[:1])
        peak = 0
        for _ in range(runs):
            bodies = make()
            before, started = cpu_s(process), time.perf_counter()
            load = run_load(connect, bodies)
            seen, quiet_since = -1, time.perf_counter()
            while time.perf_counter() - quiet_since < 1.5:
                if stub.received != seen:
                    seen, quiet_since = stub.received, time.perf_counter()
                time.sleep(0.05)
            costs.append((cpu_s(process) - before) / spans * 1e6)
            rates.append(spans / (quiet_since - started))
            latencies += load.latencies_ms
            peak = max(peak, process.memory_info().rss)
    finally:
        child.kill()
        child.wait()
    return a_row("rotel to a discarding stub", kind, costs, rates, peak, latencies)


def wait_listening(port: int, deadline_s: float = 90.0) -> None:
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit(f"nothing listens on port {port}")


def measure_phoenix(kind: str, make: Callable[[], list[bytes]]) -> Row:
    """One run of a few bodies (it takes milliseconds a span), until SQLite holds them."""
    phoenix = peers_python("arize-phoenix").with_name("phoenix")
    folder = Path(tempfile.mkdtemp(prefix="ingest-", dir="/tmp"))
    http_port, grpc_port = free_port(), free_port()
    environment = {
        **os.environ,
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_PORT": str(http_port),
        "PHOENIX_GRPC_PORT": str(grpc_port),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_TELEMETRY_ENABLED": "false",
        "PHOENIX_DISABLE_RATE_LIMIT": "true",
    }
    child = subprocess.Popen(
        [str(phoenix), "serve"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_listening(http_port)
        process = psutil.Process(child.pid)
        connect = http_sender(http_port, PROTOBUF)
        run_load(connect, make()[:1])
        _wait_rows(folder, 512)
        bodies = make()[:8]
        before, started = cpu_s(process), time.perf_counter()
        load = run_load(connect, bodies)
        _wait_rows(folder, 512 * 9)
        wall = time.perf_counter() - started
        cost = (cpu_s(process) - before) / (512 * 8) * 1e6
        peak = process.memory_info().rss
    finally:
        child.terminate()
        child.wait()
        shutil.rmtree(folder, ignore_errors=True)
    rates = [512 * 8 / wall]
    return a_row("Phoenix into SQLite", kind, [cost], rates, peak, load.latencies_ms)


def _wait_rows(folder: Path, rows: int, deadline_s: float = 180.0) -> None:
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        with contextlib.suppress(sqlite3.Error):
            base = sqlite3.connect(f"file:{folder / 'phoenix.db'}?mode=ro", uri=True, timeout=5)
            with contextlib.closing(base):
                if base.execute("SELECT count(*) FROM spans").fetchone()[0] >= rows:
                    return
        time.sleep(0.2)
    raise SystemExit("Phoenix did not store the spans")
