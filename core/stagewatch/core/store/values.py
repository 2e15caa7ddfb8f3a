"""OTLP values as stored (text plus a kind number, or raw protobuf) into plain Python values."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import orjson
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList

UNSET, STRING, BOOL, INT, DOUBLE, ARRAY, KVLIST, BYTES = range(8)
"""What a stored value was in OTLP: the numbers in `kinds` columns, AnyValue's field numbers."""


def plain(value: AnyValue) -> Any:  # noqa: ANN401 - the value's own type is the point
    """An AnyValue as None, str, bool, int, float, list or dict; bytes become base64 text, as in
    OTLP/JSON, so that every result can be written as JSON. Of a repeated key the last value wins.
    """
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [plain(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        return plain_map(value.kvlist_value.values)
    if kind == "bytes_value":
        return base64.b64encode(value.bytes_value).decode()
    return getattr(value, kind) if kind in _SCALARS else None


_SCALARS = frozenset({"string_value", "bool_value", "int_value", "double_value"})


def plain_map(pairs: Iterable[KeyValue]) -> dict[str, Any]:
    """KeyValues as a dict; of a repeated key the last value wins."""
    return {pair.key: plain(pair.value) for pair in pairs}


def _array(stored: str) -> list[Any]:
    message = ArrayValue.FromString(base64.b64decode(stored))
    return [plain(item) for item in message.values]


def _kvlist(stored: str) -> dict[str, Any]:
    return plain_map(KeyValueList.FromString(base64.b64decode(stored)).values)


_READ: Mapping[int, Callable[[str], Any]] = {
    UNSET: lambda _: None,
    STRING: str,
    BOOL: lambda text: text == "true",
    INT: int,
    DOUBLE: float,
    ARRAY: _array,
    KVLIST: _kvlist,
    BYTES: str,
}


def stored_map(keys: Sequence[str], kinds: Sequence[int], values: Sequence[str]) -> dict[str, Any]:
    """Attributes from their three columns; values of kind ARRAY and above come as base64."""
    found: dict[str, Any] = dict(zip(keys, values, strict=True))
    if len(found) < len(keys):
        # A key that comes twice: the kind of the last one counts, as its value does.
        places = {key: at for at, key in enumerate(keys)}
        return {key: _READ[kinds[at]](values[at]) for key, at in places.items()}
    for key, kind in zip(keys, kinds, strict=True):
        if kind != STRING:
            found[key] = _READ[kind](found[key])
    return found


def _head_value(text: str) -> Any:  # noqa: ANN401 - the value's own type is the point
    return stored_any(text[1:]) if text.startswith("\0") else text


@lru_cache(maxsize=1024)
def _stored_json(text: str) -> dict[str, Any]:
    keys, values, _dropped = orjson.loads(text)
    return {key: _head_value(value) for key, value in zip(keys, values, strict=True)}


def stored_json(text: str) -> dict[str, Any]:
    """Attributes from the JSON form of `resource` and `scope_attrs` ("" is none)."""
    return dict(_stored_json(text)) if text else {}


def stored_any(raw: str) -> Any:  # noqa: ANN401 - the value's own type is the point
    """A plain value from the base64 of a raw AnyValue."""
    return plain(AnyValue.FromString(base64.b64decode(raw)))
