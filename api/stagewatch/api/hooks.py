"""Feedback that another system posts: signed bodies and where things stand in them. Pure.

The signature is HMAC-SHA256 (RFC 2104) of the raw body, in hex, with or without `sha256=` before
it, as most help desks send it.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from stagewatch.api.tickets import TARGETS, Ticket, read_tickets
from stagewatch.core.errors import InvalidInputError, UnauthorizedError
from stagewatch.scorer.plans.paths import NOTHING, find, parse_path

SIGNATURE_HEADER = "x-stagewatch-signature"
_HEX_CHARS = 64


@dataclass(frozen=True, slots=True)
class Hook:
    """A source that may post: its secret, the header of its signature, target → path."""

    source: str
    secret: str
    header: str
    mapping: dict[str, str]
    by: str
    at: str

    def shown(self) -> dict[str, Any]:
        """Everything but the secret."""
        return {"source": self.source, "header": self.header, "mapping": self.mapping,
                "by": self.by, "at": self.at}  # fmt: skip


def check_mapping(mapping: Mapping[str, str]) -> None:
    """Raise InvalidInputError unless every target is known, every path reads, and a turn and an
    external id can be found: without the latter a repeated delivery could not be told from a
    second complaint.
    """
    unknown = sorted(set(mapping) - set(TARGETS))
    if unknown:
        raise InvalidInputError(f"mapping: unknown target {unknown[0]!r}; use {', '.join(TARGETS)}")
    if "trace_id" not in mapping and "question" not in mapping:
        raise InvalidInputError("mapping: trace_id, or question (with at), must be mapped")
    if mapping.get("external_id", "=").startswith("="):
        raise InvalidInputError("mapping: external_id needs a path: it makes repeats harmless")
    for path in mapping.values():
        if not path.startswith("="):
            parse_path(path)


def check_signature(secret: str, body: bytes, header: str | None) -> None:
    """Raise UnauthorizedError unless `header` signs `body`; compared in constant time."""
    told = (header or "").strip().lower().removeprefix("sha256=")
    right = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    if len(told) != _HEX_CHARS or not hmac.compare_digest(right.encode(), told.encode()):
        raise UnauthorizedError("the signature does not fit: HMAC-SHA256 of the raw body, in hex")


def ticket_of(body: bytes, mapping: Mapping[str, str]) -> Ticket:
    """The one ticket in a delivery; what is wrong with it is in its `problem`.

    Raises:
        InvalidInputError: not a JSON object, or no external id where the path leads.
    """
    try:
        sent = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise InvalidInputError("not JSON") from None
    if not isinstance(sent, dict):
        raise InvalidInputError("not a JSON object")
    line: dict[str, str] = {}
    fixed: dict[str, str] = {}
    for target, path in mapping.items():
        fixed[target] = path if path.startswith("=") else target
        if not path.startswith("="):
            line[target] = _text(find(sent, path))
    if not line["external_id"]:
        raise InvalidInputError(f"external_id: nothing at {mapping['external_id']}")
    return read_tickets([line], fixed)[0]


def _text(value: Any) -> str:  # noqa: ANN401 - JSON has any type
    """Texts and numbers as text; what has a shape of its own is not one value."""
    if value is NOTHING or value is None or isinstance(value, (dict, list, bool)):
        return ""
    return str(value)
