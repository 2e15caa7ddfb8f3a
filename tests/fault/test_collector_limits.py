"""A full disk, a clock that goes back, and the largest things that may be sent."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from tests.support.collector_process import CollectorProcess, a_request, grpc_call, post

pytestmark = pytest.mark.fault

MIB = 1 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A data folder whose spool lies on a disk of 40 MiB of its own."""
    spool = tmp_path / "data" / "spool"
    spool.mkdir(parents=True)
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", str(spool)],
        check=False,
        capture_output=True,
    )
    if mounted.returncode:
        pytest.skip("this machine lets nobody mount a small disk")
    try:
        yield tmp_path / "data"
    finally:
        subprocess.run(["umount", "--lazy", str(spool)], check=True)


@pytest.mark.parametrize("spared_mb", [0, 12])
def test_a_full_disk_is_a_retryable_no_and_all_that_got_a_yes_is_stored(
    small_disk: Path, spared_mb: int, tmp_path: Path
) -> None:
    """With a watermark the no comes while there is room, without it when writing fails."""
    mend = tmp_path / "mended"
    settings = {
        "COLLECTOR_STORE": "refuse",
        "COLLECTOR_MEND": str(mend),
        "STAGEWATCH_SPOOL_MIN_FREE_MB": str(spared_mb),
        "STAGEWATCH_SEGMENT_MB": "4",
    }
    with CollectorProcess(small_disk, **settings) as collector:
        taken = 0
        for _ in range(60):
            answer = post(collector.http_port, a_request(1, pad=MIB).SerializeToString())
            if answer.status != 200:
                break
            taken += 1
        assert answer.status == 503
        assert 1 <= int(answer.headers["retry-after"]) <= 3
        room = psutil.disk_usage(str(small_disk / "spool")).free
        assert room >= spared_mb * 1_000_000 - 4 * MIB
        assert 10 < taken < 40
        mend.touch()
        collector.wait_drained()
        collector.wait_for(
            lambda: post(collector.http_port, a_request(1).SerializeToString()).status == 200
        )
        collector.wait_drained()
        assert collector.value("SELECT countIf(mapContains(attrs, 'pad')) FROM spans") == taken


def test_a_clock_that_goes_back_an_hour_stops_neither_storing_nor_assembly(tmp_path: Path) -> None:
    back = tmp_path / "back"
    settings = {"COLLECTOR_CLOCK_BACK": str(back), "STAGEWATCH_QUIET_SECONDS": "0.3"}
    with CollectorProcess(tmp_path / "data", **settings) as collector:
        assert post(collector.http_port, a_turn(1)).status == 200
        collector.wait_for(lambda: collector.value("SELECT count() FROM turns") == 1)
        back.touch()
        for number in (2, 3):
            assert post(collector.http_port, a_turn(number)).status == 200
        assert post(collector.http_port, a_turn(1)).status == 200
        collector.wait_for(lambda: collector.value("SELECT uniqExact(turn_id) FROM turns") == 3)
        collector.wait_drained()
        assert collector.value("SELECT count() FROM spans") == 15
        assert collector.value("SELECT count() FROM bodies") == 3


def a_turn(number: int) -> bytes:
    """A trace with a question, a retrieval and an answer, so that it makes a turn."""
    request = a_request(5, seed=number)
    root, child, *_ = request.resource_spans[0].scope_spans[0].spans
    asked = {"input.value": f"question {number}?"}
    for span, facts in (
        (root, {"openinference.span.kind": "CHAIN", "output.value": "an answer", **asked}),
        (
            child,
            {
                "openinference.span.kind": "RETRIEVER",
                "retrieval.documents.0.document.id": "d1",
                "retrieval.documents.0.document.content": "a text",
                **asked,
            },
        ),
    ):
        for key, value in facts.items():
            pair = span.attributes.add()
            pair.key, pair.value.string_value = key, value
    return request.SerializeToString()


def padded_to(size: int) -> bytes:
    """A request of exactly `size` bytes."""
    request = a_request(1)
    note = request.resource_spans[0].scope_spans[0].spans[0].attributes.add()
    note.key, note.value.string_value = "pad", ""
    pad = size
    while True:
        note.value.string_value = "x" * pad
        over = request.ByteSize() - size
        if over == 0:
            return request.SerializeToString()
        pad -= over


def test_a_body_of_64_mib_is_stored_and_one_byte_more_is_refused_for_good(tmp_path: Path) -> None:
    with CollectorProcess(tmp_path / "data") as collector:
        assert post(collector.http_port, padded_to(64 * MIB)).status == 200
        refused = post(collector.http_port, padded_to(64 * MIB + 1))
        assert (refused.status, "retry-after" in refused.headers) == (413, False)
        collector.wait_drained()
        assert collector.value("SELECT count() FROM spans") == 1
        stored = collector.value("SELECT max(length(attrs['pad'])) FROM spans")
        assert 64 * MIB - 1000 < stored < 64 * MIB
        assert psutil.Process(collector.process.pid).memory_info().rss < 1 << 30


def test_a_trace_of_thirty_thousand_spans_is_one_turn_in_bounded_memory(tmp_path: Path) -> None:
    settings = {"STAGEWATCH_QUIET_SECONDS": "1", "STAGEWATCH_SEGMENT_SECONDS": "0.5"}
    with CollectorProcess(tmp_path / "data", **settings) as collector:
        process = psutil.Process(collector.process.pid)
        first = a_request(1, seed=7)
        first.ParseFromString(a_turn(7))
        root = first.resource_spans[0].scope_spans[0].spans[0]
        assert post(collector.http_port, first.SerializeToString()).status == 200
        for _ in range(30):
            more = a_request(1000, pad=300)
            for span in more.resource_spans[0].scope_spans[0].spans:
                span.trace_id, span.parent_span_id = root.trace_id, root.span_id
            assert post(collector.http_port, more.SerializeToString()).status == 200
        collector.wait_stored(30_005)
        peak = 0

        def settled() -> bool:
            nonlocal peak
            peak = max(peak, process.memory_info().rss)
            counted = collector.rows("SELECT uniqExact(turn_id) AS turns FROM turns")
            return bool(counted[0]["turns"] == 1)

        collector.wait_for(settled, deadline_s=60)
        assert peak < 1 << 30


def _status_of(error: Any) -> Status:
    return Status.FromString(dict(error.trailing_metadata())["grpc-status-details-bin"])


def test_grpc_calls_beyond_the_bound_are_told_to_come_again(tmp_path: Path) -> None:
    mend = tmp_path / "mended"
    settings = {
        "COLLECTOR_STORE": "hang",
        "COLLECTOR_MEND": str(mend),
        "STAGEWATCH_ACK": "insert",
        "STAGEWATCH_MAX_CONNECTIONS": "2",
    }
    with CollectorProcess(tmp_path / "data", **settings) as collector:
        channel = grpc.insecure_channel(f"127.0.0.1:{collector.grpc_port}")
        call = grpc_call(channel)
        # The store hangs and a yes waits for it: these two stay in hand.
        waiting = [call.future(a_request(1).SerializeToString(), timeout=60) for _ in range(2)]
        spool = tmp_path / "data" / "spool"
        collector.wait_for(lambda: len([*spool.glob("*.seg"), *spool.glob("*.open")]) > 0)
        with pytest.raises(grpc.RpcError) as refused:
            # On one connection calls arrive in order, so this one is the third.
            call(a_request(1).SerializeToString(), timeout=60)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        status = _status_of(refused.value)
        retry = RetryInfo()
        assert status.details[0].Unpack(retry)
        assert 1 <= retry.retry_delay.seconds <= 3
        mend.touch()
        for taken in waiting:
            taken.result(timeout=60)
        collector.wait_stored(2)
        channel.close()
