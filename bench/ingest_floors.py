"""Floors for the ingest bench: what each step costs when nothing else is done.

The checks alone, the insert alone (the same full segment again and again into a store that does
not merge, so caches are warm and nothing competes), and the compression alone.
"""

from __future__ import annotations

import multiprocessing
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import zstandard
from google.protobuf.message import Message
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
)

from stagewatch.collector.check import check_protobuf
from stagewatch.collector.frames import Frame
from stagewatch.collector.segments import Sealed
from stagewatch.collector.signals import TRACES
from stagewatch.collector.spool import Entry, Limits, Spool
from stagewatch.collector.writer import insert_segment
from stagewatch.core.settings import Settings
from stagewatch.core.store.client import open_store
from stagewatch.core.store.migrate import migrate

SEGMENT_BYTES = 24_000_000
_MERGING_TABLES = ("spans", "trace_index", "trace_touch", "rollup_minute", "bodies")


def _cpu_per_span(
    work: Callable[[], object], spans: int, runs: int = 5, *, warm: bool = True
) -> float:
    if warm:
        work()
    costs = []
    for _ in range(runs):
        before = time.process_time()
        work()
        costs.append((time.process_time() - before) / spans * 1e6)
    return round(statistics.median(costs), 2)


def _segment(folder: Path, bodies: Sequence[bytes]) -> tuple[Sealed, int]:
    """One segment of about the size at which the collector seals, and its spans."""
    sealed: list[Sealed] = []
    spool = Spool(folder, Limits(1 << 40, 1e9, 1 << 40, 0), sealed.append)
    spool.start()
    spans = size = 0
    for number, body in enumerate(bodies):
        if size >= SEGMENT_BYTES:
            break
        frame = Frame("bench", time.time_ns(), 1, number.to_bytes(16, "big"), len(body))
        spool.append(Entry("traces", frame, body, lambda _: None))
        size += len(body)
        spans += 512
    spool.stop()
    return sealed[0], spans


def _insert_alone(bodies: Sequence[bytes], answer: multiprocessing.SimpleQueue[float]) -> None:
    folder = Path(tempfile.mkdtemp(prefix="ingest-", dir="/tmp"))
    try:
        store = open_store(Settings(data_dir=folder / "data"))
        migrate(store)
        for table in _MERGING_TABLES:
            store.command(f"SYSTEM STOP MERGES {table}")
        (folder / "spool").mkdir()
        sealed, spans = _segment(folder / "spool", bodies)
        costs = []
        for number in range(7):
            # Another name is another deduplication token.
            path = sealed.path.with_name(f"traces-{number:020d}-{number:032x}.seg")
            sealed.path.rename(path)
            sealed = Sealed(path, "traces", sealed.size)
            costs.append(
                _cpu_per_span(
                    lambda found=sealed: insert_segment(store, found), spans, 1, warm=False
                )
            )
        store.close()
        answer.put(statistics.median(costs[2:]))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def insert_alone(bodies: Sequence[bytes]) -> float:
    """CPU µs a span of inserting one full segment, warm; in a process of its own."""
    # Spawned: the engine does not live through a fork.
    context = multiprocessing.get_context("spawn")
    answer: multiprocessing.SimpleQueue[float] = context.SimpleQueue()
    child = context.Process(target=_insert_alone, args=(list(bodies), answer))
    child.start()
    found = answer.get()
    child.join()
    return round(found, 1)


def _texts(message: Message) -> list[bytes]:
    return [
        pair.value.string_value.encode()
        for entry in message.resource_spans  # type: ignore[attr-defined]
        for group in entry.scope_spans
        for span in group.spans
        for pair in span.attributes
    ]


def floors(bodies: Sequence[bytes]) -> dict[str, float]:
    """µs CPU a span of each step alone, for bodies of 512 spans."""
    few = list(bodies[:8])
    spans = 512 * len(few)
    # In blocks of a megabyte, as the engine compresses columns.
    column = b"".join(text for body in few for text in _texts(_parsed(body)))
    blocks = [column[at : at + (1 << 20)] for at in range(0, len(column), 1 << 20)]
    packer = zstandard.ZstdCompressor(level=1)
    return {
        "parse (upb)": _cpu_per_span(lambda: [_parsed(body) for body in few], spans),
        "parse, ids, times": _cpu_per_span(
            lambda: [check_protobuf(TRACES, body) for body in few], spans
        ),
        "ZSTD(1) of the values": _cpu_per_span(
            lambda: [packer.compress(block) for block in blocks], spans
        ),
        "insert, warm, no merges": insert_alone(bodies),
    }


def _parsed(body: bytes) -> Message:
    return ExportTraceServiceRequest.FromString(body)
