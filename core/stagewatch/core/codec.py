"""JSON in and out of the model: pydantic checks what enters, orjson writes what leaves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

import orjson
from pydantic import TypeAdapter, ValidationError

from stagewatch.core.errors import InvalidInputError

T = TypeVar("T")

_OPTIONS = orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS | orjson.OPT_NAIVE_UTC


_ADAPTERS: dict[Any, TypeAdapter[Any]] = {}


def _adapter(kind: type[T]) -> TypeAdapter[T]:
    found = _ADAPTERS.get(kind)
    if found is None:
        found = _ADAPTERS.setdefault(kind, TypeAdapter(kind))
    return found


def to_json(value: object) -> bytes:
    """`value` (dataclasses, datetimes and plain data) as compact UTF-8 JSON; NaN becomes null."""
    return orjson.dumps(value, option=_OPTIONS)


def to_text(value: object) -> str:
    """`to_json` as a str, for columns and terminals."""
    return to_json(value).decode()


def to_plain(value: object) -> Any:  # noqa: ANN401
    """`value` as the dicts, lists and scalars its JSON would hold."""
    return orjson.loads(to_json(value))


def from_json(kind: type[T], body: str | bytes) -> T:
    """A `kind` read from JSON text.

    Raises:
        InvalidInputError: naming the first field that does not fit.
    """
    try:
        return _adapter(kind).validate_json(body)
    except ValidationError as error:
        raise InvalidInputError(_explain(kind, error)) from None


def from_plain(kind: type[T], value: Mapping[str, Any]) -> T:
    """A `kind` read from plain data; raises as `from_json`."""
    try:
        return _adapter(kind).validate_python(value)
    except ValidationError as error:
        raise InvalidInputError(_explain(kind, error)) from None


def _explain(kind: type[object], error: ValidationError) -> str:
    # The input itself is left out: it is trace content.
    first = cast("dict[str, Any]", error.errors(include_input=False, include_url=False)[0])
    where = ".".join(str(part) for part in first["loc"]) or "(top level)"
    more = error.error_count() - 1
    tail = f" (and {more} more)" if more else ""
    return f"not a valid {getattr(kind, '__name__', kind)}: {where}: {first['msg']}{tail}"
