"""Assembly for the ingest bench: turns a CPU second, and how late turns come at a steady rate."""

from __future__ import annotations

import multiprocessing
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from ingest_load import cpu_s, http_sender, run_load
from ingest_payloads import Payloads
from tests.support.collector_process import PROTOBUF, CollectorProcess

from stagewatch.collector.assemble import assemble_turns
from stagewatch.collector.assembler import BATCH_TRACES
from stagewatch.core.settings import Settings
from stagewatch.core.store.client import open_store, query
from stagewatch.core.store.spans import extents_of_traces, logs_of_traces, spans_of_traces
from stagewatch.core.store.turns import put_turns

_TURNS = "SELECT count() AS n FROM turns"


def turns_per_cpu_second(payloads: Payloads, *, bodies: int = 60) -> dict[str, float]:
    """Spans are stored first; then a process starts that has nothing to do but assemble them."""
    folder = Path(tempfile.mkdtemp(prefix="ingest-", dir="/tmp"))
    idle = {"STAGEWATCH_QUIET_SECONDS": "36000", "STAGEWATCH_ORPHAN_SECONDS": "36000"}
    sent = payloads.bodies("ragmix", 500, bodies)
    try:
        with CollectorProcess(folder / "data", **idle) as collector:
            run_load(http_sender(collector.http_port, PROTOBUF), sent)
            collector.wait_drained()
            assert collector.terminate() is None
        parts = phases(folder / "data")
        with CollectorProcess(folder / "data", STAGEWATCH_QUIET_SECONDS="0") as collector:
            process = psutil.Process(collector.process.pid)
            before, started = cpu_s(process), time.perf_counter()
            # Asked seldom: the asking costs CPU time of the process that is measured.
            while collector.value(_TURNS) < 100 * bodies:
                time.sleep(0.5)
            cpu, wall = cpu_s(process) - before, time.perf_counter() - started
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    turns = 100 * bodies
    return {
        "turns": turns,
        "turns_per_cpu_second": round(turns / cpu),
        "turns_per_second": round(turns / wall),
        "assembly_cpu_us_per_span": round(cpu / (5 * turns) * 1e6, 1),
        **{f"{name} (µs a turn)": us for name, us in parts.items()},
    }


def phases(data_dir: Path) -> dict[str, float]:
    """CPU µs a turn of each step of assembly, one after the other in a process of its own: what is
    the engine's, which no faster Python would spare, and what is Python's.
    """
    # Spawned: the engine does not live through a fork.
    context = multiprocessing.get_context("spawn")
    answer: multiprocessing.SimpleQueue[dict[str, float]] = context.SimpleQueue()
    child = context.Process(target=_phases, args=(data_dir, answer))
    child.start()
    found = answer.get()
    child.join()
    return found


def _phases(data_dir: Path, answer: multiprocessing.SimpleQueue[dict[str, float]]) -> None:
    copied = data_dir.with_name("phases")
    shutil.copytree(data_dir, copied, symlinks=True)
    store = open_store(Settings(data_dir=copied))
    spent: dict[str, float] = defaultdict(float)

    def timed(name: str, work: Callable[[], Any]) -> Any:
        before = time.process_time()
        found = work()
        spent[name] += time.process_time() - before
        return found

    project = store.value("SELECT any(project) FROM trace_index")
    rows = store.rows("SELECT DISTINCT lower(hex(trace_id)) AS id FROM trace_index")
    ids = [row["id"] for row in rows]
    for at in range(0, len(ids), BATCH_TRACES):
        group = ids[at : at + BATCH_TRACES]
        extents = timed("engine: index", lambda g=group: extents_of_traces(store, project, g))
        spans = timed(
            "engine and rows: spans",
            lambda g=group, e=extents: spans_of_traces(store, project, g, extents=e),
        )
        timed("engine: logs", lambda g=group: logs_of_traces(store, project, g))
        asked = {"project": project, "ids": group}
        timed("engine: known turns", lambda a=asked: store.rows(query("spans_existing_turns"), a))
        turns = timed(
            "python: assemble",
            lambda g=group, s=spans: [turn for trace in g for turn in assemble_turns(s[trace])],
        )
        now = datetime.now(UTC)
        timed(
            "engine and rows: write",
            lambda t=turns, n=now: put_turns(store, t, assembled_at=n, revision=1),
        )
    store.close()
    answer.put({name: round(seconds / len(ids) * 1e6) for name, seconds in spent.items()})


def turn_delay(payloads: Payloads, *, rate: int = 500, seconds: int = 15) -> dict[str, float]:
    """Seconds from the end of a turn's quiet time to its row, at `rate` turns a second."""
    folder = Path(tempfile.mkdtemp(prefix="ingest-", dir="/tmp"))
    quiet = 1.0
    sent = payloads.bodies("ragmix", 500, rate // 100 * seconds)
    try:
        with CollectorProcess(
            folder / "data", STAGEWATCH_QUIET_SECONDS=str(quiet), STAGEWATCH_SEGMENT_SECONDS="1"
        ) as collector:
            send = http_sender(collector.http_port, PROTOBUF)()
            started = time.perf_counter()
            for number, body in enumerate(sent):
                time.sleep(max(0.0, started + number / (rate / 100) - time.perf_counter()))
                send(body)
            collector.wait_for(lambda: collector.value(_TURNS) >= 100 * len(sent), deadline_s=120)
            found = collector.rows(
                """SELECT quantile(0.5)(late) AS p50, quantile(0.99)(late) AS p99 FROM (
                SELECT dateDiff('millisecond', r.first_received, t.at) / 1000 AS late FROM
                (SELECT trace_id, min(assembled_at) AS at FROM turns GROUP BY trace_id) AS t
                JOIN (SELECT lower(hex(trace_id)) AS trace, min(first_received) AS first_received
                FROM trace_index GROUP BY trace) AS r ON r.trace = t.trace_id)"""
            )[0]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {
        "turns_per_second": rate,
        "p50_s_after_quiet": round(found["p50"] - quiet, 2),
        "p99_s_after_quiet": round(found["p99"] - quiet, 2),
    }
