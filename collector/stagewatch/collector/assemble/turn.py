"""From the stages of one turn to the `Turn`: every field with its source, what is missing said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from stagewatch.collector.assemble.facts import Facts
from stagewatch.collector.assemble.listings import key_of
from stagewatch.collector.assemble.measures import error_of, models_of, usage_of
from stagewatch.collector.assemble.outline import Listing, Stages
from stagewatch.collector.assemble.shapes import squash
from stagewatch.collector.assemble.spoken import (
    answer_of_turn,
    history_of,
    question_of_turn,
    told_answer,
)
from stagewatch.collector.assemble.stages import call_messages, find_stages, rewrite_output
from stagewatch.collector.assemble.steps import Step, withheld
from stagewatch.collector.assemble.tree import Group
from stagewatch.collector.assemble.turnless import is_turn
from stagewatch.collector.assemble.window import find_window
from stagewatch.core.model import Chunk, Retrieval, Turn

_MAX_NS = 253_370_764_800_000_000_000
"""The year 9999: later times are no times."""


def build_turn(group: Group, attribute_map: Mapping[str, str]) -> Turn | None:
    """The turn of `group`, or None when it holds none: an ingest, a health check, a search."""
    facts = Facts(group, attribute_map)
    told = told_answer(facts)
    stages = find_stages(group.steps, told)
    question = question_of_turn(facts, stages)
    answer = answer_of_turn(facts, stages, told)
    if not is_turn(facts, stages, question, answer):
        return None
    retrievals = _retrievals(facts, stages)
    reranked = _completed(_chunks(facts, stages.reranked, "reranked"), retrievals)
    prompt = call_messages(stages, stages.answer) if stages.answer is not None else None
    window, window_source = find_window(facts, stages, retrievals, reranked, prompt)
    in_window = {key_of(chunk) for chunk in window} if window_source in _SEEN else None
    retrievals = tuple(
        replace(listing, chunks=_marked(listing.chunks, in_window)) for listing in retrievals
    )
    start, end = _times(group)
    first = group.root or group.steps[0]
    request, response, model = models_of(facts, stages)
    usage = usage_of(facts, stages)
    rewritten = _rewritten(facts, stages, question, retrievals)
    seen = window_source is not None or _found_nothing(stages)
    _say_missing(facts, stages, question, answer, retrievals, window_seen=seen)
    return Turn(
        turn_id=f"{first.span.trace_id}-{group.root_id}",
        trace_id=first.span.trace_id,
        span_id=group.root_id,
        project=first.span.project,
        service=_service(first),
        started_at=datetime.fromtimestamp(start / 1e9, UTC),
        duration_ms=max(0, end - start) / 1e6,
        question=question,
        answer=answer,
        release=facts.text("release"),
        index_version=facts.text("index_version"),
        prompt_version=facts.text("prompt_version") or facts.text("prompt_version_weak"),
        environment=facts.text("environment"),
        conversation_id=facts.text("conversation_id"),
        turn_index=facts.integer("turn_index"),
        user_id=facts.text("user_id"),
        history=history_of(facts, question, prompt),
        rewritten_query=rewritten,
        retrievals=retrievals,
        reranked=_marked(reranked, in_window) if reranked is not None else None,
        window=window,
        window_source=window_source,
        refused=facts.boolean("refused"),
        model=model,
        request_model=request,
        response_model=response,
        usage=usage,
        error=error_of(group, stages, answered=answer is not None),
        tags=facts.tags(),
        reused_from=facts.text("reused_from"),
        conventions=facts.conventions(),
        missing=facts.missing(),
        sources=facts.sources(),
        complete=facts.complete(),
        probe=facts.boolean("probe") or False,
    )


_SEEN = frozenset({"ids", "prompt", "documents"})


def _marked(chunks: tuple[Chunk, ...], in_window: set[str] | None) -> tuple[Chunk, ...]:
    if in_window is None:
        return chunks
    return tuple(replace(chunk, in_prompt=key_of(chunk) in in_window) for chunk in chunks)


def _completed(
    reranked: tuple[Chunk, ...] | None, retrievals: Sequence[Retrieval]
) -> tuple[Chunk, ...] | None:
    """Reranked chunks with what only the retrieved copy of the same id tells. Never the score:
    it is the reranker's or nobody's.
    """
    if reranked is None:
        return None
    known = {c.chunk_id: c for r in reversed(retrievals) for c in r.chunks if c.chunk_id}
    return tuple(
        chunk if (seen := known.get(chunk.chunk_id or "")) is None else _filled(chunk, seen)
        for chunk in reranked
    )


def _filled(chunk: Chunk, seen: Chunk) -> Chunk:
    return replace(
        chunk,
        document_id=chunk.document_id or seen.document_id,
        version=chunk.version or seen.version,
        content=chunk.content or seen.content,
        valid_from=chunk.valid_from or seen.valid_from,
        valid_to=chunk.valid_to or seen.valid_to,
        metadata=chunk.metadata or seen.metadata,
    )


def _service(step: Step) -> str:
    name = step.span.resource.get("service.name")
    return name if isinstance(name, str) else ""


def _times(group: Group) -> tuple[int, int]:
    own = group.root if group.root is not None and group.root.kind != "generate" else None
    spans = [own.span] if own is not None else [step.span for step in group.steps]
    start = min(span.start_ns for span in spans)
    end = max(span.end_ns for span in spans)
    return min(max(start, 0), _MAX_NS), min(max(end, 0), _MAX_NS)


# -- stages ----------------------------------------------------------------------------------


def _chunks(facts: Facts, listing: Listing | None, name: str) -> tuple[Chunk, ...] | None:
    if listing is None:
        return None
    if listing.found is not None:
        facts.note(name, listing.step, listing.found.key, listing.found.convention)
    facts.check_documents(name, listing.step, listing.chunks, listing.found)
    # A mark that stands for a text is no text: nobody may judge it as one.
    return tuple(
        replace(chunk, content="") if withheld(chunk.content) else chunk for chunk in listing.chunks
    )


def _retrievals(facts: Facts, stages: Stages) -> tuple[Retrieval, ...]:
    found = []
    for at, listing in enumerate(stages.retrievals):
        name = f"retrievals[{at}]"
        chunks = _chunks(facts, listing, name) or ()
        query = listing.query or facts.mapped_at("query", listing.step)
        if listing.query_found is not None:
            facts.note(
                f"{name}.query",
                listing.query_step or listing.step,
                listing.query_found.key,
                listing.query_found.convention,
            )
        top_k = listing.step.read("top_k")
        count = top_k.value if top_k is not None else None
        if isinstance(count, str) and count.isascii() and count.isdigit():
            count = int(count)
        is_count = isinstance(count, int) and not isinstance(count, bool) and 0 < count < 10**6
        found.append(
            Retrieval(
                span_id=listing.step.id,
                query=query or "",
                top_k=count if is_count else None,
                chunks=chunks,
            )
        )
    return tuple(found)


def _rewritten(
    facts: Facts, stages: Stages, question: str | None, retrievals: Sequence[Retrieval]
) -> str | None:
    mapped = facts.mapped("rewritten_query")
    same = squash(question) if question else None
    if mapped is not None:
        return mapped if squash(mapped) != same else None
    root = facts.group.root
    told = root.read("rewritten_query") if root is not None else None
    if root is not None and told is not None and isinstance(told.value, str):
        facts.note("rewritten_query", root, told.key, told.convention)
        return told.value if squash(told.value) != same else None
    if question is None:
        return None
    for at, (listing, retrieval) in enumerate(zip(stages.retrievals, retrievals, strict=True)):
        if retrieval.query and squash(retrieval.query) != same:
            if listing.query_found is not None:
                facts.note(
                    "rewritten_query",
                    listing.query_step or listing.step,
                    listing.query_found.key,
                    listing.query_found.convention,
                )
            return retrieval.query
        if retrieval.query and at == 0:
            return None
    for step in stages.rewrites:
        output = rewrite_output(step, stages)
        if output is not None and squash(output[0]) != same:
            facts.note("rewritten_query", step, output[1].key, output[1].convention)
            return output[0]
    return None


def _found_nothing(stages: Stages) -> bool:
    """Whether every retrieval was seen to return an empty list: then so was the window."""
    return bool(stages.retrievals) and all(
        not listing.chunks and listing.found is not None for listing in stages.retrievals
    )


def _say_missing(
    facts: Facts,
    stages: Stages,
    question: str | None,
    answer: str | None,
    retrievals: Sequence[Retrieval],
    *,
    window_seen: bool,
) -> None:
    call = stages.answer
    root = facts.group.root
    if question is None:
        facts.lack("question", [root, call], ("input", "messages"))
    if answer is None:
        facts.lack("answer", [call, root], ("reply", "output"))
    _say_lists_missing(facts, stages, retrievals)
    if not window_seen:
        if call is not None:
            # Where messages are left out altogether, this still says that they were hidden.
            call.read("input")
        facts.lack("window", [call], ("messages", "context_ids", "input"))
    if call is None and facts.mapped("model") is None:
        facts.lack("model", [], ())
    if facts.group.root is None:
        facts.lack("root", [], ())


def _say_lists_missing(facts: Facts, stages: Stages, retrievals: Sequence[Retrieval]) -> None:
    if not retrievals:
        facts.lack("retrievals", [], ())
    for at, (listing, retrieval) in enumerate(zip(stages.retrievals, retrievals, strict=True)):
        if listing.step.failed:
            facts.fail(f"retrievals[{at}].chunks")
        elif not retrieval.chunks and listing.found is None:
            facts.lack(f"retrievals[{at}].chunks", [listing.step], ("documents",))
        elif retrieval.chunks and not any(chunk.content for chunk in retrieval.chunks):
            facts.lack(f"retrievals[{at}].content", [listing.step], ())
        if not retrieval.query:
            facts.lack(f"retrievals[{at}].query", [listing.step], ("query",))
    if any(step.failed for step in stages.unlisted):
        facts.fail("reranked")
    if stages.reranked is None and stages.unlisted:
        facts.lack("reranked", stages.unlisted, ("rerank_out", "documents"))
