"""Attributes of OTLP/JSON straight to the bytes of protobuf, for the values that nearly all have.

Filling a message for each key and each value costs three times what writing their few bytes does.
What is not a plain string, bool, integer or double under one name is left to the caller.
Wire format: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any

from stagewatch.collector.frames import varint

_CACHED_KEY = 256
_DOUBLE = struct.Struct("<cd")
_SMALL = [bytes([number]) for number in range(0x80)]
_TRUE, _FALSE = b"\x10\x01", b"\x10\x00"


def length(size: int) -> bytes:
    """`size` (0 or more) as a varint; small ones are looked up."""
    return _SMALL[size] if size < 0x80 else varint(size)


@lru_cache(maxsize=4096)
def _key_field(key: str) -> bytes:
    raw = key.encode()
    return b"\x0a" + length(len(raw)) + raw


def pack_plain(item: Any) -> bytes | None:  # noqa: ANN401 - JSON
    """The bytes of the KeyValue that `item` stands for, or None when it is not of the plain kind.

    None says nothing about the item's worth: the slow way decides, and names what is wrong.
    """
    try:
        key, held = item["key"], item["value"]
        ((name, inner),) = held.items()
        kind = type(inner)
        value: bytes
        if name == "stringValue" and kind is str:
            raw = inner.encode()
            value = b"\x0a" + length(len(raw)) + raw
        elif name == "intValue" and (kind is int or (kind is str and inner.isdecimal())):
            number = int(inner)
            if not -(2**63) <= number < 2**63:
                return None
            value = b"\x18" + length(number & 0xFFFF_FFFF_FFFF_FFFF)
        elif name == "doubleValue" and kind is float:
            value = _DOUBLE.pack(b"\x21", inner)
        elif name == "boolValue" and kind is bool:
            value = _TRUE if inner else _FALSE
        else:
            return None
        raw_key: bytes = _key_field(key) if len(key) <= _CACHED_KEY else _key_field.__wrapped__(key)
    except (TypeError, KeyError, ValueError, AttributeError):
        return None
    return raw_key + b"\x12" + length(len(value)) + value
