"""Attributes of OTLP/JSON straight to the bytes of protobuf, for the values that nearly all have.

Filling a message for each key and each value costs three times what writing their few bytes does.
What is not a plain string, bool, integer or double under one name is left to the caller.
Wire format: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import struct
from typing import Any

from stagewatch.collector.frames import varint

_CACHED_KEY = 256
_DOUBLE = struct.Struct("<ccd")
_SMALL = [bytes([number]) for number in range(0x80)]
_TRUE, _FALSE = b"\x02\x10\x01", b"\x02\x10\x00"


def length(size: int) -> bytes:
    """`size` (0 or more) as a varint; small ones are looked up."""
    return _SMALL[size] if size < 0x80 else varint(size)


_KEYS: dict[str, bytes] = {}
_MOST_KEYS = 4096


def _key_field(key: str) -> bytes:
    """The key as field 1 of a KeyValue, with the tag of the value that follows it."""
    raw = key.encode()
    field = b"\x0a" + length(len(raw)) + raw + b"\x12"
    if len(key) <= _CACHED_KEY and len(_KEYS) < _MOST_KEYS:
        _KEYS[key] = field
    return field


def pack_plain(item: Any) -> bytes | None:  # noqa: ANN401 - JSON
    """The bytes of the KeyValue that `item` stands for, or None when it is not of the plain kind.

    None says nothing about the item's worth: the slow way decides, and names what is wrong.
    """
    try:
        key, held = item["key"], item["value"]
        ((name, inner),) = held.items()
        kind = type(inner)
        if name == "stringValue" and kind is str:
            raw = inner.encode()
            size = len(raw)
            if size < 0x7E:
                value = b"%c\x0a%c%b" % (size + 2, size, raw)
            else:
                field = b"\x0a" + varint(size)
                value = varint(len(field) + size) + field + raw
        elif name == "intValue" and (kind is int or (kind is str and inner.isdecimal())):
            number = int(inner)
            if not -(2**63) <= number < 2**63:
                return None
            packed = length(number & 0xFFFF_FFFF_FFFF_FFFF)
            value = b"%c\x18%b" % (len(packed) + 1, packed)
        elif name == "doubleValue" and kind is float:
            value = _DOUBLE.pack(b"\x09", b"\x21", inner)
        elif name == "boolValue" and kind is bool:
            value = _TRUE if inner else _FALSE
        else:
            return None
        return (_KEYS.get(key) or _key_field(key)) + value
    except (TypeError, KeyError, ValueError, AttributeError):
        return None
