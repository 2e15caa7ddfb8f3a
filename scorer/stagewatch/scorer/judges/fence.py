"""Fences around texts that others wrote, which the texts themselves cannot close or fake."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import xxhash

_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e007f]"
)
_ANGLES = re.compile(
    "[<\u2039\u00ab\u2329\u27e8\u3008\u300a\ufe64\uff1c\u226a\u22d8\u2770\u276e]{2,}"
)
_CLOSING = re.compile(
    "[>\u203a\u00bb\u232a\u27e9\u3009\u300b\ufe65\uff1e\u226b\u22d9\u2771\u276f]{2,}"
)


def neutral(text: str) -> str:
    """`text` without characters that a reader cannot see and without anything like a fence.

    Runs of two or more angle brackets of any kind become one single quotation mark; look-alike
    letters are folded to their plain form (NFKC) first, so that none can stand in for a fence.
    """
    plain = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text))
    plain = _ANGLES.sub("\u2039", plain)
    return _CLOSING.sub("\u203a", plain)


def fence(name: str, texts: Sequence[str]) -> str:
    """The texts as numbered blocks from 1. The mark is a hash of all of them: it is the same for
    the same input, so replies can be cached, and no text can hold the hash of itself.
    """
    bodies = [neutral(text) for text in texts]
    mark = xxhash.xxh3_64_hexdigest("\x00".join([name, *bodies]).encode())
    return "\n".join(
        f"<<<BEGIN {name} {number} #{mark}>>>\n{body}\n<<<END {name} {number} #{mark}>>>"
        for number, body in enumerate(bodies, start=1)
    )
