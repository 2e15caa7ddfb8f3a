"""The document lists of a turn: retrievals and reranks, each told once."""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from stagewatch.collector.assemble.documents import bare_words, chunks_of
from stagewatch.collector.assemble.lenient import loaded
from stagewatch.collector.assemble.outline import Listing, Stages, names_say, nearest
from stagewatch.collector.assemble.shapes import question_of, squash
from stagewatch.collector.assemble.steps import Found, Step
from stagewatch.core.model import Chunk


def _listing(step: Step, field_name: str, *, reranked: bool) -> Listing | None:
    kind = step.read("score_kind")
    score_kind = kind.value if kind is not None and isinstance(kind.value, str) else None
    for found in step.read_all(field_name):
        chunks = chunks_of(found.value, reranked=reranked, score_kind=score_kind)
        if chunks:
            return Listing(step, chunks, found)
    return None


def _nothing_found(step: Step) -> Listing:
    """A retrieval without documents; `found` is set when its list was captured and is empty."""
    told = (found for found in step.read_all("documents") if loaded(found.value)[0] in ([], ()))
    return Listing(step, (), next(told, None))


def _query_of(step: Step, name: str) -> tuple[str | None, Found | None]:
    return step.text(name, question_of) or (None, None)


def find_documents(steps: Sequence[Step], stages: Stages) -> None:
    """Fill in the retrievals and the reranked list."""
    retrieved: list[Listing] = []
    reranked: list[Listing] = []
    for step in steps:
        if step.kind == "retrieve":
            listing = _listing(step, "documents", reranked=False)
            listing = listing or _nothing_found(step)
            listing.query, listing.query_found = _query_of(step, "query")
            retrieved.append(listing)
        elif step.kind == "rerank":
            found = _listing(step, "rerank_out", reranked=True)
            found = found or _listing(step, "documents", reranked=True)
            if found is None:
                stages.unlisted.append(step)
            else:
                found.query, found.query_found = _query_of(step, "rerank_query")
                reranked.append(found)
        elif step.kind in {"chain", "tool"} and step.by:
            _by_name(step, retrieved, reranked)
    _nested(retrieved, reranked, stages)
    stages.retrievals = _named_queries(retrieved, reranked, steps)
    stages.reranked = max(reranked, key=lambda r: (r.step.span.end_ns, r.step.order), default=None)


def _by_name(step: Step, retrieved: list[Listing], reranked: list[Listing]) -> None:
    """Steps that only their name and the shape of their output tell: decorated functions, and the
    tools by which agents search.
    """
    if names_say(step, "rerank"):
        listing = _listing(step, "output", reranked=True)
        target = reranked
    elif names_say(step, "retrieve") and not names_say(step, "other_search"):
        listing = _listing(step, "output", reranked=False)
        target = retrieved
    else:
        return
    if listing is None or (listing.found is not None and bare_words(listing.found.value)):
        return
    # A search for orders gives back rows with ids too, but neither texts nor scores.
    if any(c.content or c.score is not None for c in listing.chunks):
        listing.query, listing.query_found = _query_of(step, "input")
        target.append(listing)


def key_of(chunk: Chunk) -> str:
    """What makes two chunks the same: the id, else the text."""
    return chunk.chunk_id or squash(chunk.content)


def _nested(retrieved: list[Listing], reranked: list[Listing], stages: Stages) -> None:
    """Sort out retrievals inside retrievals: the same list told twice, a wrapper without
    documents, or a compressor around the retriever whose result is the reranked list.
    """
    by_id = {listing.step.id: listing for listing in retrieved}
    around = nearest(stages, set(by_id))
    inner: dict[str, list[Listing]] = {}
    for listing in retrieved:
        above = around.get(listing.step.id)
        if above is not None:
            inner.setdefault(above.id, []).append(listing)
    if not inner:
        return
    kept = dict(by_id)
    for step in reversed(stages.downward):
        below = [listing for listing in inner.get(step.id, []) if listing.step.id in kept]
        if below:
            _judge(by_id[step.id], below, kept, reranked)
    retrieved[:] = [listing for listing in retrieved if listing.step.id in kept]


def _judge(
    outer: Listing, below: list[Listing], kept: dict[str, Listing], reranked: list[Listing]
) -> None:
    """Drop from `kept` what tells the same twice; move a compressor's list to `reranked`."""
    filled = [listing for listing in below if listing.chunks]
    for listing in below:
        if not listing.chunks:
            del kept[listing.step.id]
            if not outer.query:
                outer.query, outer.query_found = listing.query, listing.query_found
                outer.query_step = listing.step
    if not filled:
        return
    if not outer.chunks:
        del kept[outer.step.id]
        for listing in filled:
            if not listing.query:
                listing.query, listing.query_found = outer.query, outer.query_found
                listing.query_step = outer.step
        return
    outside = [key_of(chunk) for chunk in outer.chunks]
    inside = [key_of(chunk) for chunk in filled[0].chunks]
    if len(filled) == 1 and (outside == inside or len(outside) > len(inside)):
        # The same call told twice, or by an instrumentation that saw only a part of it.
        del kept[filled[0].step.id]
        return
    del kept[outer.step.id]
    again = chunks_of(outer.found.value, reranked=True) if outer.found is not None else ()
    reranked.append(Listing(outer.step, again or outer.chunks, outer.found))


def _named_queries(
    retrieved: list[Listing], reranked: list[Listing], steps: Sequence[Step]
) -> list[Listing]:
    """Queries of vector-store spans, which carry none: the reranker's, or the text embedded just
    before.
    """
    retrieved = [
        listing
        for listing in retrieved
        if listing.chunks
        or listing.query
        or listing.step.failed
        or listing.step.read("top_k") is not None
    ]
    embeds = [step for step in steps if step.kind == "embed"]
    starts = [step.span.start_ns for step in embeds]
    for listing in retrieved:
        if listing.query:
            continue
        before = bisect.bisect_right(starts, listing.step.span.end_ns)
        if before:
            listing.query, listing.query_found = _embedded(embeds[before - 1])
            listing.query_step = embeds[before - 1]
        if not listing.query and reranked:
            listing.query, listing.query_found = reranked[-1].query, reranked[-1].query_found
            listing.query_step = reranked[-1].step
    return retrieved


def _embedded(step: Step) -> tuple[str | None, Found | None]:
    for name in ("embedded_text", "input", "messages"):
        text, found = _query_of(step, name)
        if text:
            return text, found
    return None, None
