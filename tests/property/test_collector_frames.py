"""Segments can be cut apart again, whatever bodies they hold and wherever they are torn."""

from __future__ import annotations

import xxhash
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from stagewatch.collector.frames import Frame, pack, pieces, read_varint, unpack, varint

projects = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=40)
bodies = st.lists(
    st.tuples(projects, st.integers(0, 2**63), st.integers(0, 2**31), st.binary(max_size=200)),
    max_size=6,
)


def frame_of(project: str, at: int, entries: int, body: bytes) -> Frame:
    return Frame(project, at, entries, xxhash.xxh3_128_digest(body), len(body))


@given(st.integers(0, 2**64 - 1))
def test_varints_read_back(number: int) -> None:
    assert read_varint(varint(number) + b"\xff", 0) == (number, len(varint(number)))


@given(bodies)
def test_a_segment_is_its_pieces(parts: list[tuple[str, int, int, bytes]]) -> None:
    frames = [frame_of(*part) for part in parts]
    segment = b"".join(pack(frame) + part[3] for frame, part in zip(frames, parts, strict=True))
    found = list(pieces(segment))
    assert [piece.frame for piece in found] == frames
    assert [segment[piece.body : piece.end] for piece in found] == [part[3] for part in parts]
    assert (found[-1].end if found else 0) == len(segment)


@given(bodies, st.data())
def test_a_torn_segment_keeps_exactly_its_whole_pieces(
    parts: list[tuple[str, int, int, bytes]], data: st.DataObject
) -> None:
    whole = [pack(frame_of(*part)) + part[3] for part in parts]
    segment = b"".join(whole)
    cut = data.draw(st.integers(0, len(segment)))
    kept = 0
    while kept < len(whole) and sum(map(len, whole[: kept + 1])) <= cut:
        kept += 1
    assert len(list(pieces(segment[:cut]))) == kept


@given(bodies.filter(bool), st.data())
def test_a_flipped_byte_never_passes(
    parts: list[tuple[str, int, int, bytes]], data: st.DataObject
) -> None:
    segment = bytearray(b"".join(pack(frame_of(*part)) + part[3] for part in parts))
    first = pack(frame_of(*parts[0]))
    if not parts[0][3]:
        return
    at = data.draw(st.integers(len(first), len(first) + len(parts[0][3]) - 1))
    segment[at] ^= data.draw(st.integers(1, 255))
    assert list(pieces(bytes(segment))) == []


@given(projects, st.integers(0, 2**63), st.integers(0, 2**31), st.binary(max_size=50))
def test_otlp_parsers_skip_frames(project: str, at: int, entries: int, body: bytes) -> None:
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.add(name="kept")
    framed = pack(frame_of(project, at, entries, body)) + request.SerializeToString()
    assert ExportTraceServiceRequest.FromString(framed).resource_spans == request.resource_spans
    assert unpack(framed, 0)[0] == frame_of(project, at, entries, body)
