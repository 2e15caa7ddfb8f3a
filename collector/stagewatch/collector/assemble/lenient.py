"""JSON that may have been cut off: what can be read is read, and the cut is said."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_DECODER = json.JSONDecoder()
_BLANKS = " \t\n\r"
_OPEN = {"[": "]", "{": "}"}


def parse_json(text: str) -> tuple[Any, bool]:
    """(value, was it cut). The value is None when `text` holds no JSON at all.

    An attribute length limit cuts JSON mid-string without a mark: then the open string is closed
    and so are the open lists and objects, or else the last element that was not finished is left
    out. Linear in the length of the text; never raises.
    """
    stripped = text.strip(_BLANKS)
    try:
        # `raw_decode` alone: much of what is parsed is so short that the wrapper costs more.
        value, end = _DECODER.raw_decode(stripped)
    except (ValueError, RecursionError):
        pass
    else:
        if end == len(stripped):
            return value, False
    if not text.lstrip().startswith(("[", "{")):
        return None, False
    for candidate in _repairs(text):
        try:
            return json.loads(candidate), True
        except (ValueError, RecursionError):
            continue
    return None, True


def _repairs(text: str) -> list[str]:
    """Texts that may parse: the open string closed, and everything after the last whole element
    left out.
    """
    scan = _Scan()
    for at, letter in enumerate(text):
        if not scan.step(at, letter):
            return []
    found = []
    if scan.in_string:
        # An escape that was itself cut would spoil the closing quote.
        body = text[:-1] if scan.escaped else _without_partial_escape(text)
        found.append(body + '"' + scan.closing())
    elif scan.closers:
        found.append(text + scan.closing())
    if scan.safe_at:
        found.append(text[: scan.safe_at] + scan.safe_closing)
    return found


class _Scan:
    """Where a JSON text stands: in a string or not, open brackets, the last whole element."""

    __slots__ = ("closers", "escaped", "in_string", "safe_at", "safe_closing")

    def __init__(self) -> None:
        self.closers: list[str] = []
        self.in_string = False
        self.escaped = False
        self.safe_at = 0
        self.safe_closing = ""

    def closing(self) -> str:
        return "".join(reversed(self.closers))

    def step(self, at: int, letter: str) -> bool:
        """Take one more letter; False when this cannot be JSON."""
        if self.in_string:
            if self.escaped:
                self.escaped = False
            elif letter == "\\":
                self.escaped = True
            elif letter == '"':
                self.in_string = False
            return True
        return self._outside(at, letter)

    def _outside(self, at: int, letter: str) -> bool:
        if letter == '"':
            self.in_string = True
        elif letter in _OPEN:
            self.closers.append(_OPEN[letter])
            return len(self.closers) <= _MAX_DEPTH
        elif letter in "]}":
            if not self.closers or self.closers.pop() != letter:
                return False
            self.safe_at, self.safe_closing = at + 1, self.closing()
        elif letter == "," and self.closers:
            self.safe_at, self.safe_closing = at, self.closing()
        return True


_MAX_DEPTH = 200
"""Deeper nesting is no telemetry; the snapshots of open brackets stay small."""


def _without_partial_escape(text: str) -> str:
    tail = text[-6:]
    at = tail.rfind("\\u")
    if at >= 0 and len(tail) - at < 6:
        return text[: len(text) - len(tail) + at]
    return text


def loaded(value: Any) -> tuple[Any, bool]:  # noqa: ANN401 - telemetry may hold anything
    """(value with JSON text parsed, was it cut); text that is not JSON stays text."""
    if isinstance(value, str) and value[:64].lstrip().startswith(("[", "{", '"')):
        parsed, cut = parse_json(value)
        if parsed is not None:
            return parsed, cut
        return value, cut
    return value, False


_MIN_LIMIT = 32
# Not a text that starts with a reference, such as "[1] …".
_JSON_START = re.compile(r'\s*(?:\{\s*"|\[\s*[\[{"])')


def value_limit(attributes: Mapping[str, Any]) -> int:
    """The value length limit that cut texts of these attributes, or 0 when none is seen.

    An SDK cuts without a mark, but all at the same length, and JSON that ends in the middle gives
    it away. Equal lengths alone say nothing: many apps cut their passages to one size.
    """
    texts = [value for value in attributes.values() if isinstance(value, str)]
    longest = max(map(len, texts), default=0)
    if longest < _MIN_LIMIT:
        return 0
    return longest if any(len(t) == longest and _is_cut_json(t) for t in texts) else 0


def _is_cut_json(text: str) -> bool:
    # Looking at the ends first spares parsing what is whole, which is nearly everything.
    if not _JSON_START.match(text) or text.endswith(("]", "}")):
        return False
    return loaded(text)[1]


def holds_length(value: Any, length: int) -> bool:  # noqa: ANN401
    """Whether a text in `value` has exactly `length` characters."""
    if isinstance(value, str):
        return len(value) == length
    if isinstance(value, Mapping):
        return any(holds_length(inner, length) for inner in value.values())
    return False
