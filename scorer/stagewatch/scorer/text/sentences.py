"""Sentences with their offsets: lines first (lists, headings), then nupunkt within a line."""

from __future__ import annotations

import re

from nupunkt import sent_spans

_LINE = re.compile(r"[^\n]+")
_RUN = re.compile(r"[.!?]{8,}|[^\S\n]{16,}")
"""Runs of end marks or blanks are kept from the splitter: it looks at each and at all that follow,
and a page of question marks would keep it busy for seconds."""
LONGEST = 1000
"""Characters. Text without punctuation (a table, a dump) is read in pieces of this size: the
comparison of two sentences costs the product of their lengths."""
VERSION = "nupunkt-lines-1"
"""Part of every judge fingerprint: another splitter gives other claims and denominators."""


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """(start, end) of each sentence of `text`, without the white space around it."""
    spans: list[tuple[int, int]] = []
    for line in _LINE.finditer(text):
        at = line.start()
        for run in _RUN.finditer(text, line.start(), line.end()):
            _split(text, at, run.start(), spans)
            _add(text, run.start(), run.end(), spans)
            at = run.end()
        _split(text, at, line.end(), spans)
    return spans


def _split(text: str, start: int, end: int, spans: list[tuple[int, int]]) -> None:
    body = text[start:end]
    if not body.strip():
        return
    # Most lines hold one sentence; asking the splitter would cost more than it tells.
    several = any(mark in body[:-1] for mark in ".!?")
    for first, last in sent_spans(body) if several else [(0, len(body))]:
        _add(text, start + first, start + last, spans)


def _add(text: str, start: int, end: int, spans: list[tuple[int, int]]) -> None:
    piece = text[start:end]
    left = start + len(piece) - len(piece.lstrip())
    right = start + len(piece.rstrip())
    if right > left:
        spans.extend(_pieces(text, left, right))


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
