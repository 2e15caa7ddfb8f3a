"""Load for the ingest bench: a few connections, each as fast as its answers come."""

from __future__ import annotations

import http.client
import queue
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc
import psutil
from tests.support.collector_process import grpc_call

CONNECTIONS = 4


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
    disk_per_raw_byte: float | None = None
    where: dict[str, float] | None = None
    least_p99_ms: float | None = None


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


# What the engine calls its threads, and what they do for us. Python's own do the receiving; a query
# or an insert starts in one that has no name.
_THREADS = {"python": "receiver", "MergeMutate": "merges"}


class Profile:
    """CPU seconds of a process by what its threads do, user and kernel apart."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self._before = self._read()

    def _read(self) -> dict[int, tuple[str, float, float]]:
        found = {}
        for thread in self._process.threads():
            try:
                name = Path(f"/proc/{self._process.pid}/task/{thread.id}/comm").read_text().strip()
            except OSError:
                continue
            found[thread.id] = (name, thread.user_time, thread.system_time)
        return found

    def per_span_us(self, spans: int) -> dict[str, float]:
        """µs a span since the start, by part; threads that ended meanwhile are left out."""
        parts: dict[str, float] = {}
        for number, (name, user, kernel) in self._read().items():
            _, user_before, kernel_before = self._before.get(number, (name, 0.0, 0.0))
            part = _THREADS.get(name, "insert")
            for kind, spent in (("", user - user_before), (", kernel", kernel - kernel_before)):
                parts[part + kind] = parts.get(part + kind, 0.0) + spent / spans * 1e6
        return {part: round(spent, 1) for part, spent in sorted(parts.items()) if spent >= 0.05}


def a_row(
    path: str,
    kind: str,
    costs: Sequence[float],
    rates: Sequence[float],
    peak: int,
    latencies: Sequence[float],
    disk: float | None = None,
    where: dict[str, float] | None = None,
) -> Row:
    ranked = sorted(latencies)
    return Row(
        path,
        kind,
        round(statistics.median(costs), 2),
        (round(min(costs), 2), round(max(costs), 2)),
        round(statistics.median(rates)),
        peak >> 20,
        round(ranked[len(ranked) // 2], 1),
        round(ranked[int(len(ranked) * 0.99)], 1),
        disk,
        where,
    )
