"""Parts of the collector that need no engine: encodings, recent bodies, segments, the spool."""

from __future__ import annotations

import gzip
import json
import queue
import threading
import zlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import xxhash
import zstandard
from tests.support.server import until

from stagewatch.collector.duplicates import RecentBodies, body_key
from stagewatch.collector.frames import Frame, pieces
from stagewatch.collector.http_answers import content_form, refusal
from stagewatch.collector.inflate import inflate, known_encoding
from stagewatch.collector.pending import Pending, compare
from stagewatch.collector.refusal import RefusedError, overloaded
from stagewatch.collector.segments import Sealed, bury, frames_of, halve, recover, sealed_segments
from stagewatch.collector.spool import Entry, Limits, Spool
from stagewatch.collector.spool_admin import drop_dead, list_spool, replay_dead
from stagewatch.core.errors import NotFoundError, OverloadedError
from stagewatch.core.model import Turn

ROOMY = Limits(segment_bytes=1 << 20, segment_seconds=3600, max_bytes=1 << 30, min_free_bytes=0)


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        ("gzip", gzip.compress(b"hello " * 100, mtime=0)),
        ("gzip", gzip.compress(b"hello " * 60, mtime=0) + gzip.compress(b"hello " * 40, mtime=0)),
        ("deflate", zlib.compress(b"hello " * 100)),
        ("deflate", raw_deflate(b"hello " * 100)),
        ("zstd", zstandard.compress(b"hello " * 100)),
        ("zstd", zstandard.compress(b"hello " * 60) + zstandard.compress(b"hello " * 40)),
        ("", b"hello " * 100),
    ],
)
def test_encodings_are_undone_up_to_the_limit(encoding: str, packed: bytes) -> None:
    assert bytes(inflate(encoding, packed, 600)) == b"hello " * 100
    if encoding:
        with pytest.raises(RefusedError) as refused:
            inflate(encoding, packed, 599)
        assert refused.value.http == 413


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd"])
def test_what_is_not_in_the_encoding_is_refused(encoding: str) -> None:
    good: dict[str, Callable[[bytes], bytes]] = {
        "gzip": gzip.compress,
        "deflate": zlib.compress,
        "zstd": zstandard.compress,
    }
    for body in (b"plain text", good[encoding](b"x" * 10_000)[:-6], b"\x00" * 20):
        with pytest.raises(RefusedError) as refused:
            inflate(encoding, body, 1 << 20)
        assert refused.value.http == 400


def test_encodings_are_known_in_any_case_and_others_refused() -> None:
    assert [known_encoding(name) for name in ("", " Identity", "GZip", "zstd")] == [
        "",
        "",
        "gzip",
        "zstd",
    ]
    with pytest.raises(RefusedError) as refused:
        known_encoding("br")
    assert refused.value.http == 415


def test_content_types() -> None:
    assert content_form("Application/JSON; charset=utf-8") == "json"
    assert content_form("application/x-protobuf") == "protobuf"
    assert content_form("text/json") is None


def test_recent_bodies_are_known_for_the_window_and_bounded_in_number() -> None:
    recent = RecentBodies(window_s=600, limit=10)
    keys = [body_key("p", n.to_bytes(16, "big")) for n in range(30)]
    recent.add(keys[0], now=1000.0)
    recent.add(keys[1], now=1599.0)
    assert keys[0] in recent
    recent.add(keys[2], now=1700.0)
    assert keys[1] in recent
    recent.add(keys[3], now=2400.0)
    assert keys[0] not in recent
    assert keys[2] in recent
    for key in keys:
        recent.add(key, now=2400.0)
    assert len(recent) <= 10
    assert keys[-1] in recent
    assert body_key("p", bytes(16)) != body_key("q", bytes(16))


class Bodies:
    """Appends bodies to a spool and waits for their fate."""

    def __init__(self, spool: Spool) -> None:
        self.spool = spool

    def put(self, body: bytes, signal: str = "traces", project: str = "p") -> Exception | None:
        fate: list[Exception | None] = []
        known = threading.Event()

        def done(error: Exception | None) -> None:
            fate.append(error)
            known.set()

        frame = Frame(
            project, 1_790_000_000_000_000_000, 1, xxhash.xxh3_128_digest(body), len(body)
        )
        self.spool.append(Entry(signal, frame, body, done))
        assert known.wait(30)
        return fate[0]


def test_a_body_is_on_disk_when_its_yes_comes_and_is_recovered_without_the_torn_tail(
    tmp_path: Path,
) -> None:
    spool = Spool(tmp_path, ROOMY, on_sealed=lambda sealed: None)
    spool.start()
    bodies = Bodies(spool)
    assert bodies.put(b"one") is None
    assert bodies.put(b"two", project="q") is None
    assert bodies.put(b"log", signal="logs") is None
    open_files = sorted(tmp_path.glob("*.open"))
    assert len(open_files) == 2
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for path in open_files:
        (crashed / path.name).write_bytes(path.read_bytes() + path.read_bytes()[:30])
    (crashed / f"traces-00000009-{9:016x}.open").write_bytes(b"\xc2")
    (crashed / f"traces-00000010-{10:016x}.next").write_bytes(bytes(100))
    (crashed / "00000011.free").write_bytes(open_files[-1].read_bytes())
    (crashed / "traces-1.tmp").write_bytes(b"half of a half")
    found = recover(crashed)
    spool.stop()
    assert [(s.signal, [(f.project, f.length) for f in frames_of(s.path)]) for s in found] == [
        (s.signal, [(f.project, f.length) for f in frames_of(s.path)])
        for s in sealed_segments(tmp_path)
    ]
    assert {s.token for s in found} == {s.token for s in sealed_segments(tmp_path)}
    assert {path.suffix for path in tmp_path.iterdir() if path != crashed} == {".seg"}
    assert sorted(path.suffix for path in crashed.iterdir()) == [".seg", ".seg"]


def test_a_file_that_is_used_again_gives_back_nothing_that_was_in_it_before(
    tmp_path: Path,
) -> None:
    limits = Limits(segment_bytes=100_000, segment_seconds=3600, max_bytes=10**9, min_free_bytes=0)
    sealed: queue.SimpleQueue[Sealed] = queue.SimpleQueue()
    spool = Spool(tmp_path, limits, on_sealed=sealed.put)
    spool.start()
    bodies = Bodies(spool)
    # Bodies of one length: the frames of a file's next use end where old ones begin.
    for number in range(0, 6, 2):
        assert bodies.put(bytes([number]) * 60_000) is None
        assert bodies.put(bytes([number + 1]) * 60_000) is None
        spool.release(sealed.get(timeout=30))
    assert bodies.put(b"n" * 60_000) is None
    (path,) = tmp_path.glob("*.open")
    content = path.read_bytes()
    spool.stop()
    assert len(list(pieces(content))) == 2
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    (crashed / path.name).write_bytes(content)
    (found,) = recover(crashed)
    assert [(f.length, f.digest) for f in frames_of(found.path)] == [
        (60_000, xxhash.xxh3_128_digest(b"n" * 60_000))
    ]
    assert found.path.stat().st_size < 61_000
    assert {path.suffix for path in tmp_path.iterdir() if path != crashed} == {".seg"}


def test_files_kept_for_later_go_when_nothing_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stagewatch.collector.spool.IDLE_SECONDS", 0.1)
    limits = Limits(segment_bytes=1000, segment_seconds=3600, max_bytes=10**9, min_free_bytes=0)
    sealed: queue.SimpleQueue[Sealed] = queue.SimpleQueue()
    spool = Spool(tmp_path, limits, on_sealed=sealed.put)
    spool.start()
    for _ in range(3):
        assert Bodies(spool).put(b"x" * 70_000) is None
        spool.release(sealed.get(timeout=30))
    until("an empty folder", lambda: not list(tmp_path.iterdir()))
    assert Bodies(spool).put(b"y" * 70_000) is None
    sealed.get(timeout=30)
    spool.stop()


def test_segments_are_sealed_by_size_and_the_spool_counts_its_bytes(tmp_path: Path) -> None:
    sealed: list[Sealed] = []
    limits = Limits(segment_bytes=1000, segment_seconds=3600, max_bytes=5000, min_free_bytes=0)
    spool = Spool(tmp_path, limits, on_sealed=sealed.append)
    spool.start()
    bodies = Bodies(spool)
    for number in range(4):
        assert bodies.put(bytes([number]) * 1100) is None
    with pytest.raises(OverloadedError):
        for number in range(4):
            bodies.put(bytes([number]) * 1101)
    spool.stop()
    assert spool.bytes == sum(path.stat().st_size for path in tmp_path.glob("*.seg"))
    assert spool.bytes == sum(item.size for item in sealed) > 4400
    for item in sealed:
        spool.stored(item.size)
    assert spool.bytes == 0
    with pytest.raises(OverloadedError):
        bodies.put(b"after the end")


def test_halving_is_repeatable_and_ends_at_single_bodies(tmp_path: Path) -> None:
    sealed: list[Sealed] = []
    spool = Spool(tmp_path, ROOMY, on_sealed=sealed.append)
    spool.start()
    for number in range(5):
        assert Bodies(spool).put(b"body %d" % number) is None
    spool.stop()
    raw = sealed[0].path.read_bytes()
    halves = halve(sealed[0])
    assert not sealed[0].path.exists()
    assert [len(frames_of(half.path)) for half in halves] == [2, 3]
    assert b"".join(half.path.read_bytes() for half in halves) == raw
    sealed[0].path.write_bytes(raw)
    assert [half.token for half in halve(sealed[0])] == [half.token for half in halves]
    single = halve(halves[0])[0]
    assert halve(single) == []
    bury(single, "no good")

    data_dir = tmp_path.parent / f"{tmp_path.name}-data"
    data_dir.mkdir()
    (data_dir / "spool").symlink_to(tmp_path)
    listed = list_spool(data_dir)
    assert sorted((item.state, item.bodies) for item in listed) == [
        ("dead", 1),
        ("waiting", 1),
        ("waiting", 3),
    ]
    dead = next(item for item in listed if item.state == "dead")
    assert (dead.reason, dead.projects, dead.signal) == ("no good", ("p",), "traces")
    assert dead.received_at == datetime.fromtimestamp(1_790_000_000, UTC)
    assert replay_dead(data_dir, dead.name) == [dead.name]
    assert {item.state for item in list_spool(data_dir)} == {"waiting"}
    with pytest.raises(NotFoundError):
        drop_dead(data_dir, dead.name)
    bury(sealed_segments(tmp_path)[0], "again")
    assert len(drop_dead(data_dir)) == 1
    assert len(list_spool(data_dir)) == 2


T0 = datetime(2026, 11, 30, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def test_a_trace_is_due_after_its_quiet_time_or_as_an_orphan() -> None:
    pending = Pending(timedelta(seconds=5), timedelta(seconds=30))
    pending.touch("p", "rooted", at(0), now=at(0), has_root=True)
    pending.touch("p", "orphan", at(0), now=at(0), has_root=False)
    pending.touch("p", "busy", at(0), now=at(0), has_root=True)
    pending.touch("p", "busy", at(4), now=at(4), has_root=False)
    assert [trace for _, trace, _ in pending.take_due(at(5), 10)] == ["rooted"]
    assert [trace for _, trace, _ in pending.take_due(at(9), 10)] == ["busy"]
    assert pending.take_due(at(29), 10) == []
    assert [trace for _, trace, _ in pending.take_due(at(30), 10)] == ["orphan"]
    # Late spans of a trace whose root is known do not wait as long as an orphan.
    pending.touch("p", "rooted", at(40), now=at(40), has_root=False)
    assert [trace for _, trace, _ in pending.take_due(at(45), 10)] == ["rooted"]


def test_touches_read_again_count_once_and_the_watermark_stays_behind_what_waits() -> None:
    pending = Pending(timedelta(seconds=5), timedelta(seconds=30))
    pending.touch("p", "a", at(0), now=at(0), has_root=True)
    pending.touch("p", "b", at(100), now=at(100), has_root=True)
    assert pending.watermark() == at(0)
    due = pending.take_due(at(6), 10)
    assert [trace for _, trace, _ in due] == ["a"]
    pending.touch("p", "a", at(0), now=at(0), has_root=True)
    assert list(pending.traces) == [("p", "b")]
    assert pending.watermark() == at(70)
    pending.put_back(due)
    assert pending.watermark() == at(0)
    pending.take_due(at(200), 10)
    pending.forget()
    pending.touch("p", "b", at(100), now=at(100), has_root=True)
    assert pending.traces == {}


def test_after_the_clock_went_back_nothing_waits_for_the_old_time_to_come_again() -> None:
    pending = Pending(timedelta(seconds=5), timedelta(seconds=30))
    pending.touch("p", "before", at(3600), now=at(3600), has_root=True)
    pending.rewind(at(0))
    assert pending.since(timedelta(0)) == at(0)
    pending.touch("p", "before", at(3600), now=at(0), has_root=True)
    pending.touch("p", "after", at(1), now=at(2), has_root=True)
    assert pending.since(timedelta(0)) == at(1)
    assert [trace for _, trace, _ in pending.take_due(at(6), 10)] == ["before", "after"]
    # Of the touches that lie in the future now, none is taken for a new one.
    pending.forget()
    pending.touch("p", "before", at(3600), now=at(7), has_root=True)
    assert pending.traces == {}


def turn(turn_id: str, started: datetime = T0, answer: str = "a") -> Turn:
    return Turn(turn_id, "t", "s", "p", "svc", started, 1.0, "q", answer)


def test_only_what_changed_is_written_and_only_what_is_gone_or_moved_is_retired() -> None:
    same, changed, gone, moved = turn("same"), turn("changed"), turn("gone"), turn("moved")
    fresh = [same, turn("changed", answer="b"), turn("moved", at(-90)), turn("new")]
    change = compare([same, changed, gone, moved], fresh)
    assert [t.turn_id for t in change.write] == ["changed", "moved", "new"]
    assert list(change.retire) == [gone, moved]
    assert compare(fresh, fresh).write == compare(fresh, fresh).retire == ()


def test_a_refusal_in_json_says_when_to_come_again() -> None:
    head, _, body = refusal(overloaded("full", 3), "json", close=False).partition(b"\r\n\r\n")
    assert b"Retry-After: 3\r\n" in head
    assert json.loads(body) == {
        "code": 14,
        "message": "full",
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3s"}],
    }
