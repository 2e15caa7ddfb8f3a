"""JSON text, written without looking at every character of a long text one by one.

A turn is mostly passages and a prompt: ten thousand characters and more, of which few need
escaping. The standard encoder inspects each of them; searching for the few is several times faster.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from json.encoder import encode_basestring
from typing import Any

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode
_quote: Callable[[str], str] = encode_basestring

_LONG = 256
"""Characters from which on searching first is faster."""

_ESCAPES = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))
_OTHER_CONTROLS = bytes(set(range(32)) - set(b"\n\r\t"))


def compact(value: object) -> str:
    """`value` as compact JSON text; what JSON does not know becomes its `str`."""
    return _encode(value)


def escaped(text: str) -> str:
    """`text` as it stands between the quotes of a JSON string."""
    if len(text) < _LONG or type(text) is not str or not text.isascii():
        return _quote(text)[1:-1]
    data = text.encode()
    if len(data.translate(None, _OTHER_CONTROLS)) != len(data):
        return _quote(text)[1:-1]
    for character, escape in _ESCAPES:
        if character in text:
            text = text.replace(character, escape)
    return text


def ranked_json(rows: Iterable[Mapping[str, Any]]) -> str:
    """A JSON list of the rows with their 1-based ranks.

    Args:
        rows: Their names are plain words and numbers among their values are finite.
    """
    # One flat list, joined once: texts are long, and each copy of them would be felt.
    parts: list[str] = []
    for rank, row in enumerate(rows, start=1):
        parts.append(f'{{"rank":{rank}' if rank == 1 else f'}},{{"rank":{rank}')
        for name, value in row.items():
            kind = type(value)
            if kind is str:
                if len(value) < _LONG:
                    parts.append(f',"{name}":{_quote(value)}')
                else:
                    parts += (f',"{name}":"', escaped(value), '"')
            elif kind is float:
                parts.append(f',"{name}":{value!r}')
            else:
                parts.append(f',"{name}":{_encode(value)}')
    return f"[{''.join(parts)}}}]" if parts else "[]"


def messages_json(rows: Iterable[tuple[str, str]], finish_reason: str | None = None) -> str:
    """(role, text) pairs as messages of OpenTelemetry's GenAI conventions.

    Args:
        rows: The messages in order.
        finish_reason: Why the model stopped, for an answer.
    """
    end = "" if finish_reason is None else f',"finish_reason":{_quote(finish_reason)}'
    found = [
        f'{{"role":{_quote(role)},"parts":[{{"type":"text","content":"{escaped(text)}"}}]{end}}}'
        for role, text in rows
    ]
    return f"[{','.join(found)}]"
