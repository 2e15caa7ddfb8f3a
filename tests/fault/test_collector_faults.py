"""Things go wrong on purpose; afterwards every acknowledged body is stored exactly once."""

from __future__ import annotations

import http.client
import os
import random
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.support.collector_process import PROTOBUF, CollectorProcess, a_request, post

pytestmark = pytest.mark.fault

KILLS = int(os.environ.get("STAGEWATCH_TEST_KILLS", "5"))
SPANS = 20


class Sender(threading.Thread):
    """Sends body after body, the same one again until it gets its yes, as exporters do."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.port = 0
        self.acknowledged: list[int] = []
        self.stop = threading.Event()
        self.unknown = 0

    def run(self) -> None:
        while not self.stop.is_set():
            number = random.getrandbits(48)
            body = a_request(SPANS, seed=number).SerializeToString()
            while not self.stop.is_set():
                try:
                    status = post(self.port, body).status
                except (OSError, http.client.HTTPException):
                    time.sleep(0.01)
                    continue
                if status == 200:
                    self.acknowledged.append(number)
                    break
                assert status in {429, 503}
                time.sleep(0.01)


def assert_stored_once(collector: CollectorProcess, acknowledged: list[int]) -> None:
    """Each acknowledged body is there once, in spans, index and rollups; others at most once."""
    rows = collector.rows(
        "SELECT hex(trace_id) AS trace, count() AS n, uniqExact(span_id) AS ids "
        "FROM spans GROUP BY trace_id"
    )
    found = {int(row["trace"], 16): (row["n"], row["ids"]) for row in rows}
    assert {number: found.get(number) for number in acknowledged} == dict.fromkeys(
        acknowledged, (SPANS, SPANS)
    )
    assert set(found.values()) == {(SPANS, SPANS)}
    total = SPANS * len(found)
    for column, table in (
        ("spans", "trace_index"),
        ("spans", "rollup_minute"),
        ("n", "trace_touch"),
    ):
        assert collector.value(f"SELECT sum({column}) FROM {table}") == total, table
    assert collector.value("SELECT count() FROM bodies") == len(found)


@pytest.mark.timeout(900)
def test_kills_at_any_moment_under_load_lose_and_double_nothing(tmp_path: Path) -> None:
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}, {KILLS} kills")
    chance = random.Random(seed)
    folder = tmp_path / "data"
    senders = [Sender() for _ in range(4)]
    settings = {"STAGEWATCH_SEGMENT_SECONDS": "0.1"}
    for number in range(KILLS):
        with CollectorProcess(folder, **settings) as collector:
            for sender in senders:
                sender.port = collector.http_port
                if not sender.is_alive():
                    sender.start()
            time.sleep(chance.uniform(0.05, 1.5))
            collector.kill()
        assert all(sender.is_alive() for sender in senders), f"round {number}"
    with CollectorProcess(folder, **settings) as collector:
        before = [len(sender.acknowledged) for sender in senders]
        for sender in senders:
            sender.port = collector.http_port
        collector.wait_for(
            lambda: all(len(s.acknowledged) > n + 2 for s, n in zip(senders, before, strict=True))
        )
        for sender in senders:
            sender.stop.set()
        for sender in senders:
            sender.join()
        collector.wait_drained()
        acknowledged = [number for sender in senders for number in sender.acknowledged]
        print(f"{len(acknowledged)} bodies acknowledged")
        assert_stored_once(collector, acknowledged)


@pytest.mark.parametrize("mode", ["refuse", "hang", "lost-answer"])
def test_a_store_that_misbehaves_delays_but_neither_loses_nor_doubles(
    mode: str, tmp_path: Path
) -> None:
    mend = tmp_path / "mended"
    settings = {"COLLECTOR_STORE": mode, "COLLECTOR_MEND": str(mend)}
    with CollectorProcess(tmp_path / "data", **settings) as collector:
        sent = []
        for _ in range(3):
            number = random.getrandbits(48)
            body = a_request(SPANS, seed=number).SerializeToString()
            assert post(collector.http_port, body).status == 200
            sent.append(number)
            time.sleep(0.3)
        if mode != "lost-answer":
            assert collector.value("SELECT count() FROM spans") == 0
        mend.touch()
        collector.wait_drained()
        assert_stored_once(collector, sent)


def test_a_view_that_throws_half_way_is_completed_without_counting_twice(tmp_path: Path) -> None:
    numbers = [random.getrandbits(48) for _ in range(3)]
    with CollectorProcess(tmp_path / "data") as collector:
        # From here on one target of the chain refuses every row; the others take them.
        collector.rows("SELECT 1")
        assert (
            collector.rows("ALTER TABLE rollup_minute ADD CONSTRAINT broken CHECK spans < 0") == []
        )
        for number in numbers:
            body = a_request(SPANS, seed=number).SerializeToString()
            assert post(collector.http_port, body).status == 200
        collector.wait_for(lambda: "an insert fails" in collector.log.read_text())
        assert list((tmp_path / "data" / "spool").glob("*.seg"))
        assert collector.rows("ALTER TABLE rollup_minute DROP CONSTRAINT broken") == []
        collector.kill()
    with CollectorProcess(tmp_path / "data") as collector:
        collector.wait_drained()
        assert_stored_once(collector, numbers)


def test_a_poison_body_ends_in_the_dead_folder_and_its_neighbours_are_stored(
    tmp_path: Path,
) -> None:
    """A body that the check passes and the engine cannot decode does not exist that we know of, so
    one is put into a sealed segment by hand, among good ones.
    """
    script = """
import sys, time
from pathlib import Path
import xxhash
from stagewatch.collector.frames import Frame, pack
from stagewatch.collector.segments import TokenHash
from tests.support.collector_process import a_request
folder = Path(sys.argv[1]); folder.mkdir(parents=True)
token = TokenHash(); data = b""
for number in range(1, 9):
    body = a_request(20, seed=number).SerializeToString()
    if number == 5:
        body = body[:-7]
    frame = Frame("default", time.time_ns(), 1, xxhash.xxh3_128_digest(body), len(body))
    token.add(frame, pack(frame)); data += pack(frame) + body
(folder / token.name("traces")).write_bytes(data)
"""
    spool = tmp_path / "data" / "spool"
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", script, str(spool)], check=True, cwd=root)
    with CollectorProcess(tmp_path / "data") as collector:
        collector.wait_drained()
        assert_stored_once(collector, [1, 2, 3, 4, 6, 7, 8])
        assert post(collector.http_port, a_request(SPANS, seed=9).SerializeToString()).status == 200
        collector.wait_drained()
        assert_stored_once(collector, [1, 2, 3, 4, 6, 7, 8, 9])
    dead = list((spool / "dead").glob("*.seg"))
    assert len(dead) == 1
    assert "cannot decode" in dead[0].with_suffix(".json").read_text()


def test_a_disk_that_takes_no_more_is_a_retryable_no_and_spoils_nothing(tmp_path: Path) -> None:
    """Writes beyond a file size fail in the middle of a group, as on a full disk."""
    folder = tmp_path / "data"
    with CollectorProcess(folder, STAGEWATCH_SEGMENT_SECONDS="3600") as collector:
        assert post(collector.http_port, a_request(SPANS, seed=1).SerializeToString()).status == 200
        # The first one: it has no room made ahead, so its size is that of the bodies.
        size = next((folder / "spool").glob("*.open")).stat().st_size
        resource.prlimit(collector.process.pid, resource.RLIMIT_FSIZE, (size + 500, -1))
        answer = post(collector.http_port, a_request(SPANS, seed=2).SerializeToString())
        assert answer.status == 503
        resource.prlimit(collector.process.pid, resource.RLIMIT_FSIZE, (-1, -1))
        assert post(collector.http_port, a_request(SPANS, seed=3).SerializeToString()).status == 200
        collector.kill()
    with CollectorProcess(folder) as collector:
        collector.wait_drained()
        assert_stored_once(collector, [1, 3])


def test_less_free_disk_than_the_watermark_is_a_no_before_the_disk_is_full(tmp_path: Path) -> None:
    settings = {"STAGEWATCH_SPOOL_MIN_FREE_MB": str(10**9)}
    with CollectorProcess(tmp_path / "data", **settings) as collector:
        answer = post(collector.http_port, a_request(1).SerializeToString(), PROTOBUF)
        assert answer.status == 503
        assert b"nearly full" in answer.body
