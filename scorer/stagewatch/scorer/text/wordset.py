"""Word lists written as running text, which reads and reviews better than a column of quotes."""

from __future__ import annotations


def word_set(text: str) -> frozenset[str]:
    """The words of `text`, split at white space."""
    return frozenset(text.split())
