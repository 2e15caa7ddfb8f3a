"""JSON text, written without looking at every character of a long text one by one.

A turn is mostly passages and a prompt: ten thousand characters and more, of which few need
escaping. The standard encoder inspects each of them; searching for the few is several times faster.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from json.encoder import encode_basestring
from typing import Any

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode
quote: Callable[[str], str] = encode_basestring
"""A text as a JSON string, quotes and all."""

_LONG = 600
"""Characters from which on searching first is faster."""

_ESCAPES = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))
_OTHER_CONTROLS = tuple(sorted(set(map(chr, range(32))) - set("\n\r\t")))
ROW_STARTS = ('[{"rank":1', *[f'}},{{"rank":{rank}' for rank in range(2, 129)])
"""The beginning of the row of each rank, after the end of the one before."""

_BETWEEN = "\x1f"
"""Stands between texts that are escaped together: a control character that none of them has."""


def compact(value: object) -> str:
    """`value` as compact JSON text; what JSON does not know becomes its `str`."""
    return _encode(value)


def escaped(text: str) -> str:
    """`text` as it stands between the quotes of a JSON string."""
    if len(text) < _LONG or type(text) is not str or _has_other_controls(text):
        return quote(text)[1:-1]
    return _replaced(text)


def _has_other_controls(text: str) -> bool:
    # Each is one memchr over the text, many bytes at a time; a class of them would be looked for
    # character by character.
    return True in [control in text for control in _OTHER_CONTROLS]


def _replaced(text: str) -> str:
    for character, escape in _ESCAPES:
        if character in text:
            text = text.replace(character, escape)
    return text


def escaped_together(texts: Sequence[str]) -> Sequence[str]:
    """`escaped` of each, searching them all at once."""
    joined = "".join(texts)
    if len(joined) < _LONG or set(map(type, texts)) != {str} or _has_other_controls(joined):
        return [escaped(text) for text in texts]
    if True not in [character in joined for character, _ in _ESCAPES]:
        return texts
    return _replaced(_BETWEEN.join(texts)).split(_BETWEEN)


def ranked_json(rows: Sequence[Mapping[str, Any]]) -> str:
    """A JSON list of the rows with their 1-based ranks.

    Args:
        rows: Each has a text as `content`. Their names are plain words and numbers among their
            values are finite.
    """
    # One flat list, joined once: texts are long, and each copy of them would be felt.
    parts: list[str] = []
    contents = escaped_together([row["content"] for row in rows])
    for rank, (row, content) in enumerate(zip(rows, contents, strict=True)):
        parts.append(ROW_STARTS[rank] if rank < len(ROW_STARTS) else f'}},{{"rank":{rank + 1}')
        for name, value in row.items():
            kind = type(value)
            if name == "content":
                parts += (',"content":"', content, '"')
            elif kind is str:
                parts.append(f',"{name}":{quote(value)}')
            elif kind is float:
                parts.append(f',"{name}":{value!r}')
            else:
                parts.append(f',"{name}":{_encode(value)}')
    if not parts:
        return "[]"
    parts.append("}]")
    return "".join(parts)


def messages_json(rows: Iterable[tuple[str, str]], finish_reason: str | None = None) -> str:
    """(role, text) pairs as messages of OpenTelemetry's GenAI conventions.

    Args:
        rows: The messages in order.
        finish_reason: Why the model stopped, for an answer.
    """
    end = "" if finish_reason is None else f',"finish_reason":{quote(finish_reason)}'
    found = [
        f'{{"role":{quote(role)},"parts":[{{"type":"text","content":"{escaped(text)}"}}]{end}}}'
        for role, text in rows
    ]
    return f"[{','.join(found)}]"
