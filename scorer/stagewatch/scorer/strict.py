"""Bodies that people write, read strictly: a number is a number, and the error says which is not.

A client that sends `"0.5"` for a rate has a fault that would show elsewhere later, and `true` is
not the rate 1. Texts of the environment are another matter: they are read by the settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import ConfigDict, Strict, ValidationError

T = TypeVar("T")

STRICT = ConfigDict(extra="forbid", frozen=True, strict=True)
"""Of models that are read from JSON or TOML: no other fields, no conversions."""

Many = Annotated[tuple[T, ...], Strict(strict=False)]
"""A list of JSON, kept as a tuple; what is in it is read strictly."""

_WANTED: Mapping[str, str] = {
    "float_type": "a number",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "string_type": "text",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a table of fields",
    "model_type": "a table of fields",
}


def fault(error: ValidationError) -> str:
    """The first thing wrong with a body: `field: what is wanted, and what came`.

    Never holds a value: some of them are secrets.
    """
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {fault_words(first)}" if where else fault_words(first)


def fault_words(item: Mapping[str, Any]) -> str:
    """One entry of a pydantic error in words; other kinds than wrong types keep pydantic's."""
    wanted = _WANTED.get(str(item["type"]))
    if wanted is None:
        return str(item["msg"]).removeprefix("Value error, ")
    return f"{wanted} is wanted, not {_came(item.get('input'))}"


def _came(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number" if isinstance(value, int) else "a number with a fraction"
    if isinstance(value, str):
        return "text"
    if isinstance(value, list | tuple):
        return "a list"
    return "a table of fields" if isinstance(value, Mapping) else type(value).__name__
