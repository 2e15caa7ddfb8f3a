"""Turns that JSON can hold: telemetry carries bytes, huge numbers, lone surrogates, deep nests."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from stagewatch.core.codec import to_json

T = TypeVar("T")

_MAX_DEPTH = 20
_MAX_INT = 2**63


def storable(value: T) -> T:
    """`value` itself when it can be written as JSON, else a copy with what cannot be replaced.

    Lone surrogates become U+FFFD, numbers beyond 64 bits and bytes become text, nesting beyond 20
    levels is cut.
    """
    try:
        to_json(value)
    except (TypeError, RecursionError):
        return cast("T", scrubbed(value, 0))
    return value


def scrubbed(value: Any, depth: int) -> Any:  # noqa: ANN401 - any nest of plain data
    """A JSON-safe copy of dataclasses, mappings, lists and scalars."""
    if depth > _MAX_DEPTH:
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if -_MAX_INT <= value < _MAX_INT else str(value)[:100]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes):
        return value[:100].hex()
    if is_dataclass(value) and not isinstance(value, type):
        changes = {f.name: scrubbed(getattr(value, f.name), depth + 1) for f in fields(value)}
        return replace(value, **changes)
    if isinstance(value, dict):
        return {
            str(scrubbed(str(key), depth)): scrubbed(inner, depth + 1)
            for key, inner in value.items()
        }
    if isinstance(value, tuple):
        return tuple(scrubbed(inner, depth + 1) for inner in value)
    if isinstance(value, list):
        return [scrubbed(inner, depth + 1) for inner in value]
    return value
