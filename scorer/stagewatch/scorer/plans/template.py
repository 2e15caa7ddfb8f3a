"""Filling the connector's template: text in, the same shape out, nothing evaluated. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

import orjson

from stagewatch.core.errors import InvalidInputError

_PLACE = re.compile(r"\{\{\s*([a-z_]+)\s*\}\}")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")

PLACES = frozenset({"question", "history", "context", "standalone_question", "row_id"})


def fill(template: Any, values: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON in, JSON out
    """`template` with its places filled from `values`.

    A string that is one place and nothing else becomes the value itself, of whatever type; in
    longer strings the value is written as text. Values are never looked at for places.
    """
    if isinstance(template, dict):
        return {key: fill(item, values) for key, item in template.items()}
    if isinstance(template, list):
        return [fill(item, values) for item in template]
    if not isinstance(template, str):
        return template
    whole = _PLACE.fullmatch(template)
    if whole is not None:
        return values[_known(whole.group(1))]
    return _PLACE.sub(lambda found: _text(values[_known(found.group(1))]), template)


def _known(name: str) -> str:
    if name not in PLACES:
        raise InvalidInputError(f"{{{{{name}}}}} is not known; use {', '.join(sorted(PLACES))}")
    return name


def _text(value: Any) -> str:  # noqa: ANN401
    if value is None:
        return ""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def fill_headers(
    headers: Mapping[str, str], environ: Mapping[str, str], allowed: Collection[str] | None
) -> dict[str, str]:
    """Headers with `${NAME}` filled from the environment.

    Args:
        headers: as the plan has them.
        environ: where the values come from.
        allowed: names that may be read; None allows all (the plan is the caller's own file).

    Raises:
        InvalidInputError: a name is not set or not allowed, or a value would break the header.
    """

    def value(found: re.Match[str]) -> str:
        name = found.group(1)
        if allowed is not None and name not in allowed:
            raise InvalidInputError(
                f"${{{name}}} may not be read by plans on this server: "
                "name it in STAGEWATCH_PLAN_ENV"
            )
        if name not in environ:
            raise InvalidInputError(f"${{{name}}} is not set in the environment")
        return environ[name]

    filled = {name: _VARIABLE.sub(value, text) for name, text in headers.items()}
    for name, text in filled.items():
        if not text.isascii() or any(ch in text for ch in "\r\n\0"):
            raise InvalidInputError(f"header {name!r}: not ASCII, or holds a line break")
    return filled
