"""Assembly by several collectors on one store: how its shares scale over processes.

The store is the engine behind its HTTP interface in a process of its own, as a server is. What a
process may reach with a core of its own is told by its CPU time, not by the clock: here all of
them share the machine's cores with the engine.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from pathlib import Path

import psutil
from ingest_load import cpu_s, http_sender, run_load
from ingest_payloads import Payloads
from tests.support.clickhouse_front import clickhouse_front
from tests.support.collector_process import PROTOBUF, CollectorProcess

_NEVER = {"STAGEWATCH_QUIET_SECONDS": "36000", "STAGEWATCH_ORPHAN_SECONDS": "36000"}
_TURNS = "SELECT uniqExact(trace_id) AS n FROM turns"
TURNS_A_BODY = 100
_START_S = 5.0


def assembly_over_processes(
    payloads: Payloads, *, most: int = 3, bodies: int = 40
) -> list[dict[str, float]]:
    """One row for each number of processes, 1 to `most`, all on the same stored spans.

    `turns_per_core` is what the collectors reach when each has a core: all turns, divided by the
    CPU time of the busiest; `engine_us` the engine's CPU time a turn, whoever asks.
    """
    folder = Path(tempfile.mkdtemp(prefix="ingest-", dir="/tmp"))
    try:
        sent = _store(folder, payloads.bodies("ragmix", 5 * TURNS_A_BODY, bodies))
        return [
            _measure(folder, processes, TURNS_A_BODY * bodies, sent)
            for processes in range(1, most + 1)
        ]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _store(folder: Path, bodies: list[bytes]) -> float:
    """Send and store them; when sending began, which took about a second."""
    with (
        clickhouse_front(folder / "engine") as url,
        CollectorProcess(folder / "first", STAGEWATCH_CLICKHOUSE_URL=url, **_NEVER) as collector,
    ):
        sent = time.perf_counter()
        run_load(http_sender(collector.http_port, PROTOBUF), bodies)
        collector.wait_drained()
        collector.terminate()
    return sent


def _measure(folder: Path, processes: int, turns: int, sent: float) -> dict[str, float]:
    copied = folder / f"engine-{processes}"
    shutil.copytree(folder / "engine", copied, symlinks=True)
    # The traces fall due when all processes are up, so that none has a start on the others.
    due = time.perf_counter() + _START_S * (processes + 1)
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(clickhouse_front(copied))
        engine = _engine()
        collectors = [
            stack.enter_context(
                CollectorProcess(
                    folder / f"c{processes}-{number}",
                    STAGEWATCH_CLICKHOUSE_URL=url,
                    STAGEWATCH_ASSEMBLY_SHARE=f"{number}/{processes}",
                    STAGEWATCH_QUIET_SECONDS=str(due - sent),
                )
            )
            for number in range(1, processes + 1)
        ]
        watched = [engine, *(psutil.Process(collector.process.pid) for collector in collectors)]
        assert collectors[0].value(_TURNS) == 0, "the processes took too long to start"
        time.sleep(max(0.0, due - time.perf_counter()))
        started, before = time.perf_counter(), [cpu_s(process) for process in watched]
        while collectors[0].value(_TURNS) < turns:
            time.sleep(0.5)
        wall = time.perf_counter() - started
        spent = [cpu_s(process) - was for process, was in zip(watched, before, strict=True)]
    return {
        "processes": processes,
        "turns_per_second": round(turns / wall),
        "turns_per_core": round(turns / max(spent[1:])),
        "collectors_us": round(sum(spent[1:]) / turns * 1e6),
        "engine_us": round(spent[0] / turns * 1e6),
    }


def _engine() -> psutil.Process:
    """The process of the front that this one started."""
    return next(
        child
        for child in psutil.Process().children()
        if any("clickhouse_front" in word for word in child.cmdline())
    )
