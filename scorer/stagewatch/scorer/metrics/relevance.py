"""Which chunks count as relevant: by the labels of a row (gold) or by a judge's marks.

A mark is True, False or None (the judge did not say). The first copy of a chunk keeps its mark,
later copies are noise: they hold nothing the reader has not seen.
"""

from __future__ import annotations

from collections.abc import Sequence

from stagewatch.core.model import Chunk, Need, Passage

Mark = bool | None


def same_text(content: str) -> str:
    """`content` with case and white space evened out: equal results are copies of one passage."""
    return " ".join(content.casefold().split())


def copies(chunks: Sequence[Chunk]) -> list[bool]:
    """For each chunk whether an earlier one has the same id or the same (non-empty) text."""
    ids: set[str] = set()
    texts: set[str] = set()
    found = []
    for chunk in chunks:
        text = same_text(chunk.content)
        found.append(
            (chunk.chunk_id is not None and chunk.chunk_id in ids) or (text != "" and text in texts)
        )
        if chunk.chunk_id is not None:
            ids.add(chunk.chunk_id)
        if text:
            texts.add(text)
    return found


def without_copies(chunks: Sequence[Chunk], marks: Sequence[Mark]) -> list[Mark]:
    """`marks` with every later copy of a chunk set to False. Lengths must be equal."""
    pairs = zip(copies(chunks), marks, strict=True)
    return [False if copy else mark for copy, mark in pairs]


def meets(passage: Passage, chunk: Chunk, *, superseded: bool) -> bool:
    """Whether `chunk` is the passage a label names.

    A label with a chunk id needs that id; one with a document id needs that document, and that
    version when it gives one. A superseded chunk only counts when the label names the chunk or
    its version: an old policy does not answer today's question.
    """
    if passage.chunk_id is not None:
        return chunk.chunk_id == passage.chunk_id
    if passage.document_id is None or chunk.document_id != passage.document_id:
        return False
    if passage.version is not None:
        return chunk.version == passage.version
    return not superseded


def needs_met(
    needs: Sequence[Need], chunks: Sequence[Chunk], superseded: Sequence[bool]
) -> list[bool]:
    """For each need whether any chunk meets any of its interchangeable passages."""
    return [
        any(
            meets(passage, chunk, superseded=old)
            for chunk, old in zip(chunks, superseded, strict=True)
            for passage in need.any_of
        )
        for need in needs
    ]


def gold_marks(
    needs: Sequence[Need], chunks: Sequence[Chunk], superseded: Sequence[bool]
) -> list[Mark]:
    """True for each chunk that meets at least one need; later copies are False."""
    marks: list[Mark] = [
        any(meets(passage, chunk, superseded=old) for need in needs for passage in need.any_of)
        for chunk, old in zip(chunks, superseded, strict=True)
    ]
    return without_copies(chunks, marks)


def judged_marks(
    chunks: Sequence[Chunk], marks: Sequence[Mark], superseded: Sequence[bool]
) -> list[Mark]:
    """A judge's marks with superseded versions and later copies set to False."""
    current: list[Mark] = [
        False if old else mark for mark, old in zip(marks, superseded, strict=True)
    ]
    return without_copies(chunks, current)
