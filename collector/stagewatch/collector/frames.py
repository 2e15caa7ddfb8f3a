"""Frames: what stands before each body in a segment file.

A frame is a protobuf message in field 1000 of the request, a field that OTLP does not have: OTLP
parsers skip it, ours reads it, and frames and bodies in a row are still one valid message. So a
segment can be inserted as it is and also be cut apart again after a crash.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import xxhash

_TAG = b"\xc2\x3e"  # field 1000, length-delimited: varint of 1000 << 3 | 2
_FIXED_TAIL = struct.Struct("<sIsQ")
_MAX_FRAME = 1024


@dataclass(frozen=True, slots=True)
class Frame:
    """Whose body follows, when it came (Unix nanoseconds), how many resource entries it has.

    `digest` is the XXH3-128 of the body: checksum after a crash and key of duplicates. `segment` is
    the number of the file that the frame was written to.
    """

    project: str
    received_ns: int
    entries: int
    digest: bytes
    length: int
    segment: int = 0


class TornFrameError(ValueError):
    """The bytes here are not a whole frame with its whole body."""


def varint(number: int) -> bytes:
    """`number` (0 or more) as a protobuf varint."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_varint(data: bytes | bytearray | memoryview, at: int) -> tuple[int, int]:
    """The varint at offset `at` and the offset after it.

    Raises:
        TornFrameError: it does not end within the data or within ten bytes.
    """
    number = shift = 0
    for here in range(at, min(at + 10, len(data))):
        byte = data[here]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, here + 1
        shift += 7
    raise TornFrameError("varint")


@lru_cache(maxsize=1024)
def _project_field(project: str) -> bytes:
    name = project.encode()
    return b"\x0a" + varint(len(name)) + name


def pack(frame: Frame, segment: int = 0) -> bytes:
    """The bytes of a frame for a file of this number, tag and length included."""
    inner = b"".join(
        (
            _project_field(frame.project),
            struct.pack("<sQ", b"\x11", frame.received_ns),
            b"\x18" + varint(frame.entries),
            b"\x22\x10" + frame.digest,
            _FIXED_TAIL.pack(b"\x2d", frame.length, b"\x31", segment),
        )
    )
    return _TAG + varint(len(inner)) + inner


def unpack(data: bytes | memoryview, at: int) -> tuple[Frame, int]:
    """The frame at offset `at` and the offset of its body.

    Raises:
        TornFrameError: no whole frame as `pack` writes it stands there.
    """
    if bytes(data[at : at + 2]) != _TAG:
        raise TornFrameError("tag")
    size, start = read_varint(data, at + 2)
    inner = bytes(data[start : start + size])
    if size > _MAX_FRAME or len(inner) != size:
        raise TornFrameError("length")
    try:
        name_size, here = read_varint(inner, 1)
        project = inner[here : here + name_size].decode()
        here += name_size
        mark, received_ns = struct.unpack_from("<sQ", inner, here)
        entries, after = read_varint(inner, here + 10)
        digest = inner[after + 2 : after + 18]
        tail, length, last, segment = _FIXED_TAIL.unpack_from(inner, after + 18)
    except (struct.error, UnicodeDecodeError) as error:
        raise TornFrameError("fields") from error
    marks = (inner[:1], mark, tail, last)
    if marks != (b"\x0a", b"\x11", b"\x2d", b"\x31") or len(digest) != 16:
        raise TornFrameError("fields")
    return Frame(project, received_ns, entries, digest, length, segment), start + size


@dataclass(frozen=True, slots=True)
class Piece:
    """One frame with its body inside a segment: offsets of the frame, the body and what follows."""

    frame: Frame
    start: int
    body: int
    end: int


def pieces(data: bytes | memoryview) -> Iterator[Piece]:
    """The whole, undamaged pieces from the front of a segment; stops at the first torn one."""
    at = 0
    view = memoryview(data)
    while at < len(view):
        try:
            frame, body = unpack(view, at)
        except TornFrameError:
            return
        end = body + frame.length
        if end > len(view) or xxhash.xxh3_128_digest(view[body:end]) != frame.digest:
            return
        yield Piece(frame, at, body, end)
        at = end
