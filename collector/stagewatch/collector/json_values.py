"""Values of OTLP/JSON: what each kind of field may hold, read leniently where senders err.

Every function here raises MalformedError for what does not fit.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from typing import Any

from opentelemetry.proto.common.v1.common_pb2 import (
    AnyValue,
    ArrayValue,
    KeyValue,
    KeyValueList,
)

from stagewatch.collector.pack_attributes import length, pack_plain

MAX_DEPTH = 90
"""Nesting of values that protobuf parsers still read (their limit is 100 messages)."""


class MalformedError(ValueError):
    """This item does not fit the mapping; the text names the field, never its value."""


def as_object(value: Any, name: str) -> dict[str, Any]:  # noqa: ANN401
    """The value, an object; `name` is for the error."""
    if not isinstance(value, dict):
        raise MalformedError(f"{name} holds something that is not an object")
    return value


def list_in(holder: dict[str, Any], name: str) -> list[Any]:
    """The list under `name`; empty when there is none."""
    value = holder.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise MalformedError(f"{name} is not a list")
    return value


def as_text(value: Any) -> str:  # noqa: ANN401
    """The text, "" for None; lone surrogates become U+FFFD."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise MalformedError("a text field is not a string")
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value


def _number(value: Any, name: str) -> int:  # noqa: ANN401
    if isinstance(value, bool):
        raise MalformedError(f"{name} is not an integer")
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            raise MalformedError(f"{name} is not an integer") from None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, int):
        return value
    raise MalformedError(f"{name} is not an integer")


def int_in(holder: dict[str, Any], name: str, above: int) -> int:
    """The integer under `name`, from 0 to below `above`; 0 when there is none."""
    value = holder.get(name)
    if value is None:
        return 0
    number = _number(value, name)
    if not 0 <= number < above:
        raise MalformedError(f"{name} is out of range")
    return number


def enum_in(holder: dict[str, Any], name: str, names: Any) -> int:  # noqa: ANN401 - an enum wrapper
    """The number of an enum, which may be given by its name too."""
    value = holder.get(name)
    if value is None:
        return 0
    if isinstance(value, str) and value in names.keys():  # noqa: SIM118 - not a mapping
        return int(names.Value(value))
    number = _number(value, name)
    if not -(2**31) <= number < 2**31:
        raise MalformedError(f"{name} is out of range")
    return number


def id_bytes(value: Any, size: int) -> bytes:  # noqa: ANN401
    """The id's bytes; b"" for what is no id, so that the check of ids names it."""
    if not isinstance(value, str):
        return b""
    try:
        if len(value) == 2 * size:
            return bytes.fromhex(value)
        # Senders that use protobuf's own JSON mapping: 24 or 12 characters, so never hex.
        if len(value) == (size + 2) // 3 * 4:
            return base64.b64decode(value, altchars=b"-_" if "-" in value or "_" in value else None)
    except (ValueError, binascii.Error):
        pass
    return b""


def _double(value: Any) -> float:  # noqa: ANN401
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise MalformedError("doubleValue is not a number")
    try:
        return float(value)
    except (ValueError, OverflowError):
        raise MalformedError("doubleValue is not a number") from None


def any_value(value: Any, depth: int = 0) -> AnyValue:  # noqa: ANN401
    """The AnyValue that the JSON stands for."""
    if value is None:
        return AnyValue()
    if depth > MAX_DEPTH // 3:
        raise MalformedError("values are nested too deep")
    held = as_object(value, "value")
    for name, inner in held.items():
        if inner is None:
            continue
        if name == "stringValue":
            return AnyValue(string_value=as_text(inner))
        if name in _ANY:
            return _ANY[name](inner, depth)
    return AnyValue()


def _any_bool(inner: Any, _depth: int) -> AnyValue:  # noqa: ANN401
    if not isinstance(inner, bool):
        raise MalformedError("boolValue is not true or false")
    return AnyValue(bool_value=inner)


def _any_int(inner: Any, _depth: int) -> AnyValue:  # noqa: ANN401
    number = _number(inner, "intValue")
    if not -(2**63) <= number < 2**63:
        raise MalformedError("intValue is out of range")
    return AnyValue(int_value=number)


def _any_bytes(inner: Any, _depth: int) -> AnyValue:  # noqa: ANN401
    try:
        return AnyValue(bytes_value=base64.b64decode(inner))
    except (ValueError, TypeError):
        raise MalformedError("bytesValue is not base64") from None


def _any_array(inner: Any, depth: int) -> AnyValue:  # noqa: ANN401
    values = [
        any_value(item, depth + 1) for item in list_in(as_object(inner, "arrayValue"), "values")
    ]
    return AnyValue(array_value=ArrayValue(values=values))


def _any_kvlist(inner: Any, depth: int) -> AnyValue:  # noqa: ANN401
    pairs = _pairs(list_in(as_object(inner, "kvlistValue"), "values"), depth + 1)
    return AnyValue(kvlist_value=KeyValueList(values=pairs))


_ANY: dict[str, Callable[[Any, int], AnyValue]] = {
    "boolValue": _any_bool,
    "intValue": _any_int,
    "doubleValue": lambda inner, _depth: AnyValue(double_value=_double(inner)),
    "bytesValue": _any_bytes,
    "arrayValue": _any_array,
    "kvlistValue": _any_kvlist,
}


def _pairs(items: Iterable[Any], depth: int) -> list[KeyValue]:
    return [
        KeyValue(
            key=as_text(as_object(item, "attributes").get("key")),
            value=any_value(item.get("value"), depth),
        )
        for item in items
        if item is not None
    ]


def attributes_in(holder: dict[str, Any]) -> list[KeyValue]:
    """The attributes of an object."""
    return _pairs(list_in(holder, "attributes"), 0)


def fill_attributes(message: Any, tag: bytes, holder: dict[str, Any]) -> None:  # noqa: ANN401
    """Add the attributes in `holder` to a message whose field with this tag they are."""
    packed: list[bytes] = []
    for item in list_in(holder, "attributes"):
        if item is None:
            continue
        plain = pack_plain(item)
        if plain is None:
            plain = _pairs([item], 0)[0].SerializeToString()
        packed += (tag, length(len(plain)), plain)
    if packed:
        message.MergeFromString(b"".join(packed))
