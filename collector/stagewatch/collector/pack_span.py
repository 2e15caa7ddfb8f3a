"""Spans of OTLP/JSON straight to the bytes of protobuf, for the spans that nearly all are.

Filling a message costs several times what writing its bytes does. A span with anything unusual is
left to the caller. Field numbers: opentelemetry/proto/trace/v1/trace.proto.
"""

from __future__ import annotations

import struct
from typing import Any

from stagewatch.collector.frames import varint
from stagewatch.collector.pack_attributes import length, pack_plain

_START = struct.Struct("<cQ")
_FLAGS = struct.Struct("<2sI")
_ZERO_TRACE, _ZERO_SPAN = bytes(16), bytes(8)
_COUNTS = (
    ("droppedAttributesCount", b"\x50"),
    ("droppedEventsCount", b"\x60"),
    ("droppedLinksCount", b"\x70"),
)
# Whoever sends something else means it: it is read the slow way, or ignored by the mapping there.
_PLAIN = frozenset(
    {
        "traceId", "spanId", "traceState", "parentSpanId", "flags", "name", "kind",
        "startTimeUnixNano", "endTimeUnixNano", "attributes", "droppedAttributesCount", "events",
        "droppedEventsCount", "links", "droppedLinksCount", "status",
    }
)  # fmt: skip


class _UnusualError(Exception):
    """This span is for the slow way."""


def pack_span(held: dict[str, Any]) -> bytes | None:
    """The bytes of the Span that `held` stands for, its ids checked; None when it is not plain.

    None says nothing about the span's worth: the slow way decides, and names what is wrong.
    """
    if not _PLAIN.issuperset(held) or held.get("events") or held.get("links"):
        return None
    try:
        trace, span = bytes.fromhex(held["traceId"]), bytes.fromhex(held["spanId"])
        if len(trace) != 16 or len(span) != 8 or trace == _ZERO_TRACE or span == _ZERO_SPAN:
            return None
        parts = [b"\x0a\x10", trace, b"\x12\x08", span]
        _text(parts, b"\x1a", held.get("traceState"))
        parent = held.get("parentSpanId")
        if parent:
            parent_id = bytes.fromhex(parent)
            if len(parent_id) != 8:
                return None
            parts += (b"\x22\x08", parent_id)
        _text(parts, b"\x2a", held.get("name"))
        _count(parts, b"\x30", held.get("kind"), 2**31)
        _time(parts, b"\x39", held.get("startTimeUnixNano"))
        _time(parts, b"\x41", held.get("endTimeUnixNano"))
        for item in held.get("attributes") or ():
            plain = pack_plain(item)
            if plain is None:
                return None
            size = len(plain)
            parts += (b"\x4a", length(size), plain)
        for name, tag in _COUNTS:
            if name in held:
                _count(parts, tag, held[name], 2**32)
        _status(parts, held.get("status"))
        flags = held.get("flags")
        if flags:
            parts.append(_FLAGS.pack(b"\x85\x01", _whole(flags, 2**32)))
    except (KeyError, TypeError, ValueError, AttributeError, _UnusualError):
        return None
    return b"".join(parts)


def _text(parts: list[bytes], tag: bytes, value: Any) -> None:  # noqa: ANN401 - JSON
    if value:
        raw = value.encode()
        parts += (tag, length(len(raw)), raw)


def _whole(value: Any, above: int) -> int:  # noqa: ANN401 - JSON
    if type(value) is not int and not (type(value) is str and value.isdecimal()):
        raise _UnusualError
    number = int(value)
    if not 0 <= number < above:
        raise _UnusualError
    return number


def _count(parts: list[bytes], tag: bytes, value: Any, above: int) -> None:  # noqa: ANN401 - JSON
    if value:
        number = _whole(value, above)
        parts += (tag, length(number) if number < 0x80 else varint(number))


def _time(parts: list[bytes], tag: bytes, value: Any) -> None:  # noqa: ANN401 - JSON
    if value:
        number = _whole(value, 2**64)
        if number:
            parts.append(_START.pack(tag, number))


def _status(parts: list[bytes], value: Any) -> None:  # noqa: ANN401 - JSON
    if value is None:
        return
    if type(value) is not dict:
        raise _UnusualError
    inner: list[bytes] = []
    _text(inner, b"\x12", value.get("message"))
    _count(inner, b"\x18", value.get("code"), 2**31)
    raw = b"".join(inner)
    parts += (b"\x7a", length(len(raw)), raw)
