"""What taking spans costs: CPU time per span, medians, printed as a table and written as JSON.

    python bench/ingest.py [--runs 5] [--kinds plain,ragmix,retr] [--rotel PATH] [--quick]

Rows: receive (HTTP, check, spool, fdatasync), the same over gRPC, in JSON and with 50 spans a
request, and all the way into spans, indexes and rollups with the merges of the next 3 s. Beside
them rotel (its agent's path, or the `rotel` package of this environment) sending to a stub that
discards: receiving and re-encoding only. CPU is that of the server process (user + system).
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import importlib.util
import json
import queue
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import grpc
import psutil

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from ingest_payloads import KINDS, Payloads  # noqa: E402
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (  # noqa: E402
    ExportTraceServiceRequest,
)
from tests.support.collector_json import otlp_json  # noqa: E402
from tests.support.collector_process import (  # noqa: E402
    JSON,
    PROTOBUF,
    CollectorProcess,
    grpc_call,
)

REQUESTS = {"plain": 300, "ragmix": 60, "retr": 24}
CONNECTIONS = 4
MERGE_SECONDS = 3.0


@dataclass(frozen=True)
class Row:
    path: str
    kind: str
    cpu_us_per_span: float
    spread: tuple[float, float]
    spans_per_second: int
    peak_mb: int
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True)
class Load:
    wall_s: float
    latencies_ms: list[float]


Send = Callable[[bytes], bool]


def run_load(connect: Callable[[], Send], bodies: Sequence[bytes], pace_s: float = 0.0) -> Load:
    """Send the bodies over a few connections, each as fast as its answers come (or paced)."""
    todo: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    for body in bodies:
        todo.put(body)
    latencies: list[float] = []

    def work() -> None:
        send = connect()
        while True:
            try:
                body = todo.get_nowait()
            except queue.Empty:
                return
            started = time.perf_counter()
            while not send(body):
                time.sleep(0.05)
            took = time.perf_counter() - started
            latencies.append(took * 1000)
            if pace_s:
                time.sleep(max(0.0, pace_s - took))

    threads = [threading.Thread(target=work) for _ in range(CONNECTIONS)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Load(time.perf_counter() - started, sorted(latencies))


def http_sender(port: int, headers: dict[str, str]) -> Callable[[], Send]:
    def connect() -> Send:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

        def send(body: bytes) -> bool:
            connection.request("POST", "/v1/traces", body, headers)
            response = connection.getresponse()
            response.read()
            assert response.status in {200, 429, 503}, response.status
            return response.status == 200

        return send

    return connect


def grpc_sender(port: int) -> Callable[[], Send]:
    def connect() -> Send:
        channel = grpc.insecure_channel(
            f"127.0.0.1:{port}", options=[("grpc.use_local_subchannel_pool", 1)]
        )
        call = grpc_call(channel)

        def send(body: bytes) -> bool:
            call(body, timeout=120)
            return True

        return send

    return connect


def cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


Transport = Callable[[CollectorProcess], Callable[[], Send]]


def over_http(collector: CollectorProcess) -> Callable[[], Send]:
    return http_sender(collector.http_port, PROTOBUF)


def over_json(collector: CollectorProcess) -> Callable[[], Send]:
    return http_sender(collector.http_port, JSON)


def over_grpc(collector: CollectorProcess) -> Callable[[], Send]:
    return grpc_sender(collector.grpc_port)


def measure(
    path: str,
    kind: str,
    transport: Transport,
    make: Callable[[], list[bytes]],
    spans: int,
    *,
    runs: int,
    store: bool,
    pace_s: float = 0.0,
) -> Row:
    folder = Path(tempfile.mkdtemp(prefix="ingest-", dir="/tmp"))
    settings = {"STAGEWATCH_QUIET_SECONDS": "3600", "STAGEWATCH_ORPHAN_SECONDS": "3600"}
    settings |= {"STAGEWATCH_SEGMENT_SECONDS": "1", "STAGEWATCH_SPOOL_MAX_MB": "100000"}
    if not store:
        settings |= {"STAGEWATCH_SEGMENT_MB": "100000", "STAGEWATCH_SEGMENT_SECONDS": "36000"}
    costs, rates, latencies = [], [], []
    try:
        with CollectorProcess(folder / "data", **settings) as collector:
            process = psutil.Process(collector.process.pid)
            connect = transport(collector)
            run_load(connect, make()[:2])
            collector.wait_drained() if store else None
            peak = 0
            for _ in range(runs):
                bodies = make()
                before = cpu_s(process)
                started = time.perf_counter()
                load = run_load(connect, bodies, pace_s)
                if store:
                    collector.wait_drained()
                wall = time.perf_counter() - started
                if store:
                    time.sleep(MERGE_SECONDS)
                costs.append((cpu_s(process) - before) / spans * 1e6)
                rates.append(spans / wall)
                latencies += load.latencies_ms
                peak = max(peak, process.memory_info().rss)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    latencies.sort()
    return Row(
        path,
        kind,
        round(statistics.median(costs), 2),
        (round(min(costs), 2), round(max(costs), 2)),
        round(statistics.median(rates)),
        peak >> 20,
        round(latencies[len(latencies) // 2], 1),
        round(latencies[int(len(latencies) * 0.99)], 1),
    )


def rotel_agent(named: str | None) -> Path | None:
    if named:
        return Path(named)
    found = importlib.util.find_spec("rotel")
    if found is None or not found.submodule_search_locations:
        return None
    return Path(found.submodule_search_locations[0]) / "rotel-agent"


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
    import socket

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
        for _ in range(200):
            try:
                run_load(connect, make()[:1]) if _listens(http_port) else time.sleep(0.05)
                if _listens(http_port):
                    break
            except OSError:
                time.sleep(0.05)
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
    latencies.sort()
    return Row(
        "rotel to a discarding stub",
        kind,
        round(statistics.median(costs), 2),
        (round(min(costs), 2), round(max(costs), 2)),
        round(statistics.median(rates)),
        peak >> 20,
        round(latencies[len(latencies) // 2], 1),
        round(latencies[int(len(latencies) * 0.99)], 1),
    )


def _listens(port: int) -> bool:
    import socket

    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def show(row: Row) -> None:
    low, high = row.spread
    print(
        f"{row.path:<28} {row.kind:<7} {row.cpu_us_per_span:>8.2f} µs CPU/span "
        f"({low:.2f} to {high:.2f})  {row.spans_per_second:>8} spans/s  peak {row.peak_mb:>5} MB  "
        f"p50 {row.p50_ms:.1f} ms  p99 {row.p99_ms:.1f} ms",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--rows", default="receive,grpc,json,small,half,store,rotel")
    parser.add_argument("--rotel", help="path of rotel's agent")
    parser.add_argument("--out", default=str(ROOT / "bench" / "out" / "ingest.json"))
    chosen = parser.parse_args()
    wanted = chosen.rows.split(",")
    payloads = Payloads()
    agent = rotel_agent(chosen.rotel)
    rows: list[Row] = []

    def add(row: Row) -> None:
        rows.append(row)
        show(row)

    for kind in chosen.kinds.split(","):
        count = REQUESTS[kind]

        def make(kind: str = kind, count: int = count) -> list[bytes]:
            return payloads.bodies(kind, 512, count)

        def make_json(make: Callable[[], list[bytes]] = make, count: int = count) -> list[bytes]:
            return [
                otlp_json(ExportTraceServiceRequest.FromString(b)) for b in make()[: count // 2]
            ]

        def make_small(kind: str = kind, count: int = count) -> list[bytes]:
            return payloads.bodies(kind, 50, count * 5)

        spans, runs = 512 * count, chosen.runs
        if "receive" in wanted:
            add(measure("receive http", kind, over_http, make, spans, runs=runs, store=False))
        if "grpc" in wanted:
            add(measure("receive grpc", kind, over_grpc, make, spans, runs=runs, store=False))
        if "json" in wanted:
            half = 512 * (count // 2)
            add(measure("receive json", kind, over_json, make_json, half, runs=runs, store=False))
        if "small" in wanted:
            few = 50 * count * 5
            row = measure(
                "receive http, 50 spans", kind, over_http, make_small, few, runs=runs, store=False
            )
            add(row)
        if "store" in wanted:
            full = measure("all the way", kind, over_http, make, spans, runs=runs, store=True)
            add(full)
            if "half" in wanted:
                pace = 2 * CONNECTIONS * 512 / full.spans_per_second
                add(
                    measure(
                        "all the way, half load",
                        kind,
                        over_http,
                        make,
                        spans,
                        runs=2,
                        store=True,
                        pace_s=pace,
                    )
                )
        if "rotel" in wanted and agent is not None:
            add(measure_rotel(agent, kind, make, spans, runs=runs))
    if agent is None:
        print("rotel is not installed (pip install rotel, or --rotel PATH): no comparison")
    Path(chosen.out).parent.mkdir(parents=True, exist_ok=True)
    Path(chosen.out).write_text(json.dumps([asdict(row) for row in rows], indent=1))
    print(f"written to {chosen.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
