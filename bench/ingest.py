"""What taking spans costs: CPU time per span, medians, printed as a table and written as JSON.

    python bench/ingest.py [--runs 5] [--kinds plain,ragmix,retr] [--phoenix] [--rows …]

Rows: receive (HTTP, check, spool, fdatasync; sealed segments are thrown away), the same over gRPC,
in JSON and with 50 spans a request; all the way into spans, indexes and rollups with the merges of
the next 3 s; the same at half the load, for the time to an answer; assembly of turns. Beside them
rotel sending to a stub that discards (receiving and encoding anew only) and, with --phoenix, Phoenix;
both are installed into environments of their own under bench/out. CPU is that of the server process;
where a target is missed, the parts it went to are printed, and the floors: each step done alone.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from ingest_beside import beside
from ingest_floors import floors
from ingest_load import (
    CONNECTIONS,
    Load,
    Profile,
    Row,
    Send,
    a_row,
    cpu_s,
    grpc_sender,
    http_sender,
    run_load,
)
from ingest_payloads import KINDS, Payloads
from ingest_peers import measure_phoenix, measure_rotel, rotel_agent
from ingest_shares import assembly_over_processes
from ingest_turns import turn_delay, turns_per_cpu_second
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
)
from tests.support.collector_json import otlp_json
from tests.support.collector_process import JSON, PROTOBUF, CollectorProcess

# Enough for some seconds of load on the slowest path, so that a second's fixed costs spread.
REQUESTS = {"plain": 900, "ragmix": 150, "retr": 48}
MERGE_SECONDS = 3.0
# µs CPU a span that we want, by row and kind; the gRPC ones are multiples of the HTTP row.
TARGETS = {
    "receive http": {"plain": 1.2, "ragmix": 6, "retr": 15},
    "receive json": {"plain": 20, "retr": 180},
    "all the way": {"plain": 7, "ragmix": 28, "retr": 80},
}
GRPC_TARGETS = {"plain": 2.0, "ragmix": 2.2, "retr": 2.5}

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
    """A row; with `pace_s` the load is steady, and the least that an answer can take is measured
    beside it.
    """
    folder = Path(tempfile.mkdtemp(prefix="ingest-", dir="/tmp"))
    settings = {"STAGEWATCH_QUIET_SECONDS": "3600", "STAGEWATCH_ORPHAN_SECONDS": "3600"}
    settings |= {"STAGEWATCH_SEGMENT_SECONDS": "1", "STAGEWATCH_SPOOL_MAX_MB": "100000"}
    if not store:
        settings |= {"COLLECTOR_STORE": "discard"}
    costs: list[float] = []
    rates: list[float] = []
    latencies: list[float] = []
    least: list[float] = []
    raw = peak = 0
    disk = None
    try:
        with CollectorProcess(folder / "data", **settings) as collector:
            process = psutil.Process(collector.process.pid)
            connect = transport(collector)
            # The first pages, threads and parts are nobody's steady state.
            first = make()[:8]
            run_load(connect, first)
            raw += sum(map(len, first))
            collector.wait_drained()
            profile = Profile(process)
            for _ in range(runs):
                bodies = make()
                raw += sum(map(len, bodies))
                before, started = cpu_s(process), time.perf_counter()
                load = paced(connect, bodies, pace_s, folder, least)
                if store:
                    collector.wait_drained()
                wall = time.perf_counter() - started
                peak = max(peak, process.memory_info().rss)
                if store:
                    time.sleep(MERGE_SECONDS)
                costs.append((cpu_s(process) - before) / spans * 1e6)
                rates.append(spans / wall)
                latencies += load.latencies_ms
            where = profile.per_span_us(runs * spans)
            if store:
                stored = collector.value(
                    "SELECT sum(bytes_on_disk) AS n FROM system.parts WHERE active"
                )
                disk = round(stored / raw, 3)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    row = a_row(path, kind, costs, rates, peak, latencies, disk, where)
    return replace(row, least_p99_ms=max(least)) if least else row


def paced(
    connect: Callable[[], Send],
    bodies: list[bytes],
    pace_s: float,
    folder: Path,
    least: list[float],
) -> Load:
    """The load; the floor of its answers goes to `least` when it is a steady one."""
    if not pace_s:
        return run_load(connect, bodies)
    with beside(folder, least):
        return run_load(connect, bodies, pace_s)


def show(row: Row, target: float | None, other: Row | None) -> None:
    low, high = row.spread
    says = "" if target is None else f"  target {target:g}"
    if target is not None and row.cpu_us_per_span > target:
        says += f" missed {row.cpu_us_per_span / target:.1f}x"
    if other is not None:
        ratio = other.cpu_us_per_span / row.cpu_us_per_span
        says += f"  {other.path} costs {ratio:.1f}x of it"
    if row.least_p99_ms is not None:
        says += f" (4 kB written and synced beside it: {row.least_p99_ms} ms; target 25 ms)"
    if row.disk_per_raw_byte is not None:
        says += f"  disk {row.disk_per_raw_byte} of raw"
    print(
        f"{row.path:<26} {row.kind:<7} {row.cpu_us_per_span:>8.2f} µs CPU/span "
        f"({low:.2f} to {high:.2f})  {row.spans_per_second:>7} spans/s  peak {row.peak_mb:>4} MB  "
        f"p50 {row.p50_ms:.1f} ms  p99 {row.p99_ms:.1f} ms{says}",
        flush=True,
    )
    if row.where and target is not None and row.cpu_us_per_span > target:
        # The mean of all runs: what a target that was missed went to.
        print("    went to: " + ", ".join(f"{part} {us:g}" for part, us in row.where.items()))


class Bench:
    """The rows of one run."""

    def __init__(self, wanted: list[str], runs: int, rotel: str | None) -> None:
        self.wanted = wanted
        self.runs = runs
        self.rows: list[Row] = []
        self.floors: dict[str, dict[str, float]] = {}
        self.payloads = Payloads()
        self.agent = rotel_agent(rotel) if "rotel" in wanted else None

    def add(self, row: Row, target: float | None = None, other: Row | None = None) -> Row:
        self.rows.append(row)
        show(row, target, other)
        return row

    def kind(self, kind: str, *, phoenix: bool) -> None:
        count = REQUESTS[kind]
        spans, runs, wanted = 512 * count, self.runs, self.wanted

        def make() -> list[bytes]:
            return self.payloads.bodies(kind, 512, count)

        def make_more(requests: int) -> list[bytes]:
            return self.payloads.bodies(kind, 512, requests)

        def make_json() -> list[bytes]:
            few = self.payloads.bodies(kind, 512, count // 6)
            return [otlp_json(ExportTraceServiceRequest.FromString(body)) for body in few]

        def make_small() -> list[bytes]:
            return self.payloads.bodies(kind, 50, count)

        def target(path: str) -> float | None:
            return TARGETS[path].get(kind)

        if "floors" in wanted:
            self.floors[kind] = floors(make())
            print(f"floors of {kind}, µs CPU/span: {self.floors[kind]}", flush=True)
        rotel = None
        if self.agent is not None:
            rotel = self.add(measure_rotel(self.agent, kind, make, spans, runs=runs))
        http_cost = None
        if "receive" in wanted:
            row = measure("receive http", kind, over_http, make, spans, runs=runs, store=False)
            http_cost = self.add(row, target("receive http"), rotel).cpu_us_per_span
        if "grpc" in wanted:
            row = measure("receive grpc", kind, over_grpc, make, spans, runs=runs, store=False)
            self.add(row, http_cost and round(http_cost * GRPC_TARGETS[kind], 1), rotel)
        if "json" in wanted:
            few = 512 * (count // 6)
            row = measure("receive json", kind, over_json, make_json, few, runs=runs, store=False)
            self.add(row, target("receive json"))
        if "small" in wanted:
            name = "receive http, 50 spans"
            row = measure(name, kind, over_http, make_small, 50 * count, runs=runs, store=False)
            self.add(row)
        if "store" in wanted:
            row = measure("all the way", kind, over_http, make, spans, runs=runs, store=True)
            full = self.add(row, target("all the way"), rotel)
            if "half" in wanted:
                pace = 2 * CONNECTIONS * 512 / full.spans_per_second
                name = "all the way, half load"
                # At least 200 answers in all, or the slowest hundredth says nothing.
                few = max(100, count // 2)
                row = measure(
                    name, kind, over_http, lambda: make_more(few), 512 * few, runs=2, store=True, pace_s=pace
                )  # fmt: skip
                self.add(row)
        if phoenix:
            self.add(measure_phoenix(kind, make))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument(
        "--rows", default="floors,rotel,receive,grpc,json,small,store,half,turns,shares"
    )
    parser.add_argument("--rotel", help="path of rotel's agent, else it is installed")
    parser.add_argument("--phoenix", action="store_true", help="measure Phoenix too (installs it)")
    parser.add_argument("--out", default=str(ROOT / "bench" / "out" / "ingest.json"))
    chosen = parser.parse_args()
    bench = Bench(chosen.rows.split(","), chosen.runs, chosen.rotel)
    turns: dict[str, dict[str, float]] = {}
    if "turns" in bench.wanted:
        turns["assembly"] = turns_per_cpu_second(bench.payloads)
        turns["delay"] = turn_delay(bench.payloads)
        print(f"assembly {turns['assembly']}  (target 2000 turns a CPU second)", flush=True)
        print(f"delay {turns['delay']}  (target 5 s)", flush=True)
    shares: list[dict[str, float]] = []
    if "shares" in bench.wanted:
        shares = assembly_over_processes(bench.payloads)
        for row in shares:
            print(f"assembly over processes {row}", flush=True)
    for kind in filter(None, chosen.kinds.split(",")):
        bench.kind(kind, phoenix=chosen.phoenix)
    Path(chosen.out).parent.mkdir(parents=True, exist_ok=True)
    found = {
        "rows": [asdict(row) for row in bench.rows],
        "turns": turns,
        "shares": shares,
        "floors": bench.floors,
    }
    Path(chosen.out).write_text(json.dumps(found, indent=1))
    print(f"written to {chosen.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
