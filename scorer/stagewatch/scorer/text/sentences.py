"""Sentences with their offsets: lines first (lists, headings), then nupunkt within a line."""

from __future__ import annotations

import re

from nupunkt import sent_spans

_LINE = re.compile(r"[^\n]+")
_RUN = re.compile(r"[.!?]{8,}")
LONGEST = 1000
"""Characters. Text without punctuation (a table, a dump) is read in pieces of this size: the
comparison of two sentences costs the product of their lengths."""
VERSION = "nupunkt-lines-1"
"""Part of every judge fingerprint: another splitter gives other claims and denominators."""


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """(start, end) of each sentence of `text`, without the white space around it."""
    spans = []
    for line in _LINE.finditer(text):
        body = line.group()
        if not body.strip():
            continue
        # Short lines hold one sentence; asking the splitter would cost more than it tells.
        inner = sent_spans(body) if any(mark in body[:-1] for mark in ".!?") else [(0, len(body))]
        for start, end in inner:
            piece = body[start:end]
            left = len(piece) - len(piece.lstrip())
            right = len(piece.rstrip())
            if right > left:
                spans.extend(
                    _pieces(text, line.start() + start + left, line.start() + start + right)
                )
    return spans


def _shortened(run: re.Match[str]) -> str:
    """A long run of end marks as three of them and blanks: the splitter looks at each mark and
    at all that follow, and a page of question marks would keep it busy for seconds.
    """
    return run.group()[:3].ljust(len(run.group()))


def _pieces(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """The span itself, or pieces of it cut between words when it is longer than any sentence."""
    pieces = []
    while end - start > LONGEST:
        cut = text.rfind(" ", start + LONGEST // 2, start + LONGEST)
        if cut < 0:
            cut = start + LONGEST
        pieces.append((start, cut))
        start = cut + (text[cut : cut + 1] == " ")
    if text[start:end].strip():
        pieces.append((start, end))
    return pieces
