"""The window: which chunks were put in front of the model, and how that is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from stagewatch.collector.assemble.documents import chunks_of
from stagewatch.collector.assemble.facts import Facts
from stagewatch.collector.assemble.lenient import loaded
from stagewatch.collector.assemble.outline import Stages
from stagewatch.collector.assemble.prompts import context_blocks
from stagewatch.collector.assemble.shapes import squash
from stagewatch.collector.assemble.steps import Found, withheld
from stagewatch.core.model import Chunk, Retrieval

_MIN_TEXT = 16
"""Shorter texts occur in prompts by chance."""

Prompt = tuple[list[tuple[str, str]], Found]


def find_window(
    facts: Facts,
    stages: Stages,
    retrievals: Sequence[Retrieval],
    reranked: tuple[Chunk, ...] | None,
    prompt: Prompt | None,
) -> tuple[tuple[Chunk, ...], str | None]:
    """(chunks in prompt order, how it is known).

    `ids` or `documents`: the app said so. `prompt`: chunks whose id or text occurs in the model's
    prompt, or `[id] text` blocks of it when no chunk was captured. `reranked`: assumed, since the
    prompt was not captured. None: not known. Ranks are positions in the window, from 1.
    """
    known = _known(retrievals, reranked)
    told = _told(facts, stages, known)
    if told is not None:
        return told
    if prompt is not None:
        text = "\n\n".join(body for role, body in prompt[0] if role != "assistant")
        seen = _with_texts(_in_text(known, text), text) if known else _blocks(text)
        if seen and stages.answer is not None:
            found = prompt[1]
            facts.note("window", stages.answer, found.key, found.convention, cut=found.cut)
            if found.cut and reranked:
                # What stood behind the cut is not known to be missing from the prompt.
                return _ranked(list(reranked)), "reranked"
            return _ranked(seen), "prompt"
        # The prompt is there and holds none of them: nothing to assume.
        return (), None
    if reranked:
        return _ranked(list(reranked)), "reranked"
    return (), None


def _known(retrievals: Sequence[Retrieval], reranked: tuple[Chunk, ...] | None) -> list[Chunk]:
    """Every captured chunk once; the reranker's copy first, since its score is the later one."""
    found: dict[str, Chunk] = {}
    for chunk in [*(reranked or ()), *(c for r in retrievals for c in r.chunks)]:
        found.setdefault(chunk.chunk_id or squash(chunk.content), chunk)
    return list(found.values())


def _ranked(chunks: Sequence[Chunk]) -> tuple[Chunk, ...]:
    return tuple(
        replace(chunk, rank=rank, in_prompt=True) for rank, chunk in enumerate(chunks, start=1)
    )


def _told(
    facts: Facts, stages: Stages, known: Sequence[Chunk]
) -> tuple[tuple[Chunk, ...], str] | None:
    for step in [*([stages.answer] if stages.answer else []), *facts.group.steps]:
        documents = step.read("context_documents")
        chunks = chunks_of(documents.value) if documents is not None else ()
        if documents is not None and chunks:
            facts.note("window", step, documents.key, documents.convention)
            return _ranked([_unmarked(chunk) for chunk in chunks]), "documents"
        ids = step.read("context_ids")
        listed = loaded(ids.value)[0] if ids is not None else None
        if ids is not None and isinstance(listed, (list, tuple)):
            facts.note("window", step, ids.key, ids.convention)
            return _ranked(_by_ids(listed, known)), "ids"
    return None


def _by_ids(ids: Sequence[Any], known: Sequence[Chunk]) -> list[Chunk]:
    by_id: Mapping[str | None, Chunk] = {chunk.chunk_id: chunk for chunk in reversed(known)}
    return [
        by_id.get(str(item), Chunk(rank=1, chunk_id=str(item)))
        for item in ids
        if isinstance(item, (str, int))
    ]


def _in_text(known: Sequence[Chunk], text: str) -> list[Chunk]:
    flat = squash(text)
    at: list[tuple[int, int, Chunk]] = []
    for number, chunk in enumerate(known):
        content = squash(chunk.content)
        place = flat.find(content) if len(content) >= _MIN_TEXT else -1
        if place < 0 and chunk.chunk_id:
            place = _bracketed(flat, chunk.chunk_id)
        if place >= 0:
            at.append((place, number, chunk))
    at.sort(key=lambda found: found[:2])
    return [chunk for _, _, chunk in at]


def _bracketed(text: str, chunk_id: str) -> int:
    """Where `chunk_id` stands as a label; bare ids such as "1" occur by chance."""
    for left, right in (("[", "]"), ("(", ")"), ('"', '"'), ("<", ">")):
        place = text.find(left + chunk_id + right)
        if place >= 0:
            return place
    return text.find(chunk_id) if len(chunk_id) >= _MIN_TEXT else -1


def _with_texts(chunks: list[Chunk], text: str) -> list[Chunk]:
    """Chunks whose words were not captured, with those that stand in the prompt behind their id."""
    if all(chunk.content for chunk in chunks):
        return chunks
    blocks = dict(context_blocks(text))
    return [
        chunk
        if chunk.content
        else _unmarked(replace(chunk, content=blocks.get(chunk.chunk_id or "", "")))
        for chunk in chunks
    ]


def _blocks(text: str) -> list[Chunk]:
    return [
        _unmarked(Chunk(rank=1, chunk_id=name, content=body)) for name, body in context_blocks(text)
    ]


def _unmarked(chunk: Chunk) -> Chunk:
    """A mark that stands for a text is no text."""
    return replace(chunk, content="") if withheld(chunk.content) else chunk
