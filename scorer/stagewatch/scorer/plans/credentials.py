"""Credentials in a connector: which values name a variable, and what readers are shown. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

HIDDEN = "•••"

_NAMES_SECRET = re.compile(
    r"auth|key|token|secret|cookie|passw|pwd|credential|jwt|bearer|signature|session",
    re.IGNORECASE,
)
# `max_tokens: 512` is a number that hides nothing.
_NUMBERS_SECRET = re.compile(r"secret|passw|pwd|(^|[_-])pin($|[_-])", re.IGNORECASE)
_LOOKS_SECRET = re.compile(r"(?:Bearer|Basic)\s+(?!\$\{|\{\{)\S", re.IGNORECASE)
# A variable behind scheme words, or behind the name of a cookie or parameter: `Bearer ${NAME}`,
# `session=${A}; csrf=${B}`, `Token token=${NAME}`.
_PART = r"\s*(?:[A-Za-z][A-Za-z-]{0,30}\s+)?(?:[\w.-]{1,60}=)?\"?\$\{[A-Za-z_]\w*\}\"?\s*"
_REFERENCE = re.compile(f"{_PART}(?:[;,]{_PART})*", re.ASCII)
_PLACES_ONLY = re.compile(r"(?:\s*\{\{\s*[a-z_]+\s*\}\}\s*)*")


def literal_secret(name: str, value: str) -> bool:
    """Whether a header's value is a credential itself: it should be one, and names no variable."""
    if _LOOKS_SECRET.search(value):
        return True
    return _NAMES_SECRET.search(name) is not None and _REFERENCE.fullmatch(value) is None


def shown_plan(body: Mapping[str, Any], *, whole: bool) -> dict[str, Any]:
    """A plan's stored body as it is shown.

    Args:
        body: as `plan_body` has it; not changed.
        whole: True for who may write: nothing is hidden then.

    Returns:
        The body without what looks like a credential in its connector: literal values in `body`
        and `headers` under such names, and such parameters in `url`.
    """
    if whole or not isinstance(body.get("connector"), Mapping):
        return dict(body)
    return {**body, "connector": shown_connector(body["connector"])}


def shown_connector(connector: Mapping[str, Any]) -> dict[str, Any]:
    """A connector without what looks like a credential; see `shown_plan`."""
    headers = connector.get("headers") or {}
    return {
        **connector,
        "url": shown_url(str(connector.get("url", ""))),
        "headers": {n: HIDDEN if literal_secret(n, str(v)) else v for n, v in headers.items()},
        "body": shown_literals(connector.get("body")),
    }


def shown_literals(value: Any, *, secret: bool = False, numbers: bool = False) -> Any:  # noqa: ANN401 - JSON in, JSON out
    """JSON data with the values under names like `token` or `password` hidden, at any depth.

    Places such as `{{question}}`, booleans and null stay: they are no secret.
    """
    if isinstance(value, Mapping):
        return {
            name: shown_literals(
                item,
                secret=secret or _NAMES_SECRET.search(name) is not None,
                numbers=numbers or _NUMBERS_SECRET.search(name) is not None,
            )
            for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [shown_literals(item, secret=secret, numbers=numbers) for item in value]
    if isinstance(value, str):
        hides = secret or numbers or _LOOKS_SECRET.search(value) is not None
        return HIDDEN if hides and _PLACES_ONLY.fullmatch(value) is None else value
    if numbers and isinstance(value, int | float) and not isinstance(value, bool):
        return HIDDEN
    return value


def shown_url(url: str) -> str:
    """An address without user and password, and without parameters named like credentials."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return HIDDEN
    query = "&".join(_shown_parameter(item) for item in parts.query.split("&"))
    netloc = f"{HIDDEN}@{host}" if "@" in parts.netloc else host
    return urlunsplit((parts.scheme, netloc, parts.path, query, parts.fragment))


def _shown_parameter(item: str) -> str:
    name, equals, value = item.partition("=")
    hides = equals and _NAMES_SECRET.search(name) and not _PLACES_ONLY.fullmatch(value)
    return f"{name}={HIDDEN}" if hides else item
