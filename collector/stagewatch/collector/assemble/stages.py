"""Which steps of a turn are its retrievals, its rerank, its rewrite and its answer.

Everything reported twice (wrappers, dual instrumentation, nested retrievers) is told apart here.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field

from stagewatch.collector.assemble.documents import chunks_of
from stagewatch.collector.assemble.shapes import (
    bare_question,
    messages_of,
    question_of,
    reply_of,
    squash,
    text_of,
)
from stagewatch.collector.assemble.steps import Found, Step
from stagewatch.collector.assemble.tables import names
from stagewatch.core.model import Chunk


@dataclass(slots=True)
class Listing:
    """One list of documents a step reported."""

    step: Step
    chunks: tuple[Chunk, ...]
    found: Found | None
    query: str | None = None
    query_found: Found | None = None
    query_step: Step | None = None


@dataclass(slots=True)
class Stages:
    """The stages of one turn; `calls` are the model calls, each once."""

    retrievals: list[Listing] = field(default_factory=list)
    reranked: Listing | None = None
    calls: list[Step] = field(default_factory=list)
    rewrites: list[Step] = field(default_factory=list)
    answer: Step | None = None
    wrappers: dict[str, Step] = field(default_factory=dict)
    parents: dict[str, Step] = field(default_factory=dict)
    downward: list[Step] = field(default_factory=list)


def find_stages(steps: Sequence[Step], root_answer: str | None) -> Stages:
    """The stages among `steps` (one turn, in order). `root_answer` tells the answer call from
    later calls such as follow-up suggestions.
    """
    stages = Stages()
    inside = {step.id for step in steps}
    for step in steps:
        for child in step.children:
            if child.id in inside:
                stages.parents[child.id] = step
    _downward(steps, stages)
    _calls(steps, stages)
    _documents(steps, stages)
    _rewrites(steps, stages)
    stages.answer = _answer_call(stages, root_answer)
    return stages


def _downward(steps: Sequence[Step], stages: Stages) -> None:
    """Parents before children. The order by time will not do: clocks of two machines differ."""
    stack = [step for step in reversed(steps) if step.id not in stages.parents]
    while stack:
        step = stack.pop()
        stages.downward.append(step)
        stack.extend(child for child in reversed(step.children) if child.id in stages.parents)


def _nearest(stages: Stages, wanted: set[str]) -> dict[str, Step]:
    """For each step, the nearest step around it whose id is in `wanted`. One pass."""
    found: dict[str, Step] = {}
    for step in stages.downward:
        above = stages.parents.get(step.id)
        if above is None:
            continue
        if above.id in wanted:
            found[step.id] = above
        elif above.id in found:
            found[step.id] = found[above.id]
    return found


def up(stages: Stages, step: Step) -> list[Step]:
    """The steps around `step`, nearest first, inside the turn."""
    found = []
    known = stages.parents.get(step.id)
    while known is not None:
        found.append(known)
        known = stages.parents.get(known.id)
    return found


# -- model calls -----------------------------------------------------------------------------


def _calls(steps: Sequence[Step], stages: Stages) -> None:
    """Leaf model calls only: a call around a call reports the same one."""
    generating = {step.id for step in steps if step.kind == "generate"}
    nearest = _nearest(stages, generating)
    stages.wrappers = {child: above for child, above in nearest.items() if child in generating}
    has_inner = {above.id for above in stages.wrappers.values()}
    by_response: dict[str, Step] = {}
    for step in steps:
        if step.kind != "generate" or step.id in has_inner:
            continue
        response = step.read("response_id")
        if response is not None and isinstance(response.value, str):
            # Two instrumentations side by side report one response.
            known = by_response.get(response.value)
            if known is not None and _overlap(known, step):
                continue
            by_response[response.value] = step
        stages.calls.append(step)


def _overlap(left: Step, right: Step) -> bool:
    """One response is reported twice at the same time; some gateways reuse response ids later."""
    return left.span.start_ns <= right.span.end_ns and right.span.start_ns <= left.span.end_ns


def call_reply(stages: Stages, call: Step) -> tuple[str, Found] | None:
    """What the model said in `call`, from the call itself or the wrapper around it."""
    for step in (call, stages.wrappers.get(call.id)):
        if step is None:
            continue
        for found in step.read_all("reply"):
            text = reply_of(found.value)
            if text:
                return text, found
    return None


def call_messages(stages: Stages, call: Step) -> tuple[list[tuple[str, str]], Found] | None:
    """The prompt of `call`, system instructions first."""
    for step in (call, stages.wrappers.get(call.id)):
        if step is None:
            continue
        for found in step.read_all("messages"):
            messages = messages_of(found.value)
            if messages:
                system = step.read("system")
                if system is not None:
                    text = text_of(_parsed(system))
                    if text:
                        messages = [("system", text), *messages]
                return messages, found
    return None


def _parsed(found: Found) -> object:
    from stagewatch.collector.assemble.lenient import loaded  # noqa: PLC0415

    return loaded(found.value)[0]


def _answer_call(stages: Stages, root_answer: str | None) -> Step | None:
    rewrites = {step.id for step in stages.rewrites}
    shading = rewrites | {step.id for step in stages.downward if step.kind in {"rewrite", "embed"}}
    shading |= {listing.step.id for listing in stages.retrievals}
    if stages.reranked is not None:
        shading.add(stages.reranked.step.id)
    # Calls inside a retriever or reranker (query expansion, an LLM judge of order) do not answer.
    shaded = _nearest(stages, shading)
    candidates = [
        call for call in stages.calls if call.id not in rewrites and call.id not in shaded
    ]
    if root_answer:
        wanted = squash(root_answer)
        for call in reversed(candidates):
            reply = call_reply(stages, call)
            if reply is not None and squash(reply[0]) == wanted:
                return call
    return max(candidates, key=lambda c: (c.span.end_ns, c.order), default=None)


# -- documents -------------------------------------------------------------------------------


def _names_say(step: Step, what: str) -> bool:
    label = step.read("label")
    text = f"{step.span.name} {label.value if label and isinstance(label.value, str) else ''}"
    return names().step_names[what].search(text) is not None


def _listing(step: Step, field_name: str, *, reranked: bool) -> Listing | None:
    kind = step.read("score_kind")
    score_kind = kind.value if kind is not None and isinstance(kind.value, str) else None
    for found in step.read_all(field_name):
        chunks = chunks_of(found.value, reranked=reranked, score_kind=score_kind)
        if chunks:
            return Listing(step, chunks, found)
    return None


def _query_of(step: Step, name: str) -> tuple[str | None, Found | None]:
    for found in step.read_all(name):
        text = question_of(found.value)
        if text:
            return text, found
    return None, None


def _documents(steps: Sequence[Step], stages: Stages) -> None:
    retrieved: list[Listing] = []
    reranked: list[Listing] = []
    for step in steps:
        if step.kind == "retrieve":
            listing = _listing(step, "documents", reranked=False)
            listing = listing or Listing(step, (), None)
            listing.query, listing.query_found = _query_of(step, "query")
            retrieved.append(listing)
        elif step.kind == "rerank":
            found = _listing(step, "rerank_out", reranked=True)
            found = found or _listing(step, "documents", reranked=True)
            if found is not None:
                found.query, found.query_found = _query_of(step, "rerank_query")
                reranked.append(found)
        elif step.kind == "chain" and step.by:
            _by_name(step, retrieved, reranked)
    _nested(retrieved, reranked, stages)
    stages.retrievals = _named_queries(retrieved, reranked, steps)
    stages.reranked = max(reranked, key=lambda r: (r.step.span.end_ns, r.step.order), default=None)


def _by_name(step: Step, retrieved: list[Listing], reranked: list[Listing]) -> None:
    """Steps that only their name and the shape of their output tell: decorated functions."""
    if _names_say(step, "rerank"):
        listing = _listing(step, "output", reranked=True)
        target = reranked
    elif _names_say(step, "retrieve"):
        listing = _listing(step, "output", reranked=False)
        target = retrieved
    else:
        return
    if listing is not None:
        listing.query, listing.query_found = _query_of(step, "input")
        target.append(listing)


def _key(chunk: Chunk) -> str:
    return chunk.chunk_id or squash(chunk.content)


def _nested(retrieved: list[Listing], reranked: list[Listing], stages: Stages) -> None:
    """Sort out retrievals inside retrievals: the same list told twice, a wrapper without
    documents, or a compressor around the retriever whose result is the reranked list.
    """
    by_id = {listing.step.id: listing for listing in retrieved}
    nearest = _nearest(stages, set(by_id))
    inner: dict[str, list[Listing]] = {}
    for listing in retrieved:
        above = nearest.get(listing.step.id)
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
    outside = [_key(chunk) for chunk in outer.chunks]
    inside = [_key(chunk) for chunk in filled[0].chunks]
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
        if listing.chunks or listing.query or listing.step.read("top_k") is not None
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


# -- rewrite ---------------------------------------------------------------------------------


def _rewrites(steps: Sequence[Step], stages: Stages) -> None:
    """The model calls and steps that made the retrieval query."""
    first = min((r.step.span.start_ns for r in stages.retrievals), default=None)
    queries = {squash(r.query) for r in stages.retrievals if r.query}
    last = max((call.span.start_ns for call in stages.calls), default=0)
    calls = {call.id for call in stages.calls}
    named = _rewrite_named(stages) if len(calls) > 1 else set()
    for step in steps:
        if step.kind == "rewrite":
            stages.rewrites.append(step)
        elif step.id in calls and (first is None or step.span.start_ns < first):
            reply = call_reply(stages, step)
            is_query = reply is not None and squash(reply[0]) in queries
            later = last > step.span.start_ns
            if is_query or (later and (step.id in named or _prompt_says_rewrite(stages, step))):
                stages.rewrites.append(step)


def _rewrite_named(stages: Stages) -> set[str]:
    """Steps that are called a rewrite, and everything below them; the root's name says nothing."""
    found: set[str] = set()
    for step in stages.downward:
        above = stages.parents.get(step.id)
        if above is not None and (above.id in found or _names_say(step, "rewrite")):
            found.add(step.id)
    return found


_MAX_INSTRUCTION = 2_000


def _prompt_says_rewrite(stages: Stages, call: Step) -> bool:
    """True when the call's instruction, not its data, asks for a rewrite."""
    prompt = call_messages(stages, call)
    if prompt is None:
        return False
    instruction = next((text for role, text in prompt[0] if role == "system"), "")
    return (
        len(instruction) < _MAX_INSTRUCTION
        and names().step_names["rewrite"].search(instruction) is not None
    )


def rewrite_output(step: Step, stages: Stages) -> tuple[str, Found] | None:
    """The query a rewrite step came to."""
    reply = call_reply(stages, step)
    if reply is not None:
        return reply
    found = step.read("output")
    text = reply_of(found.value) if found is not None else None
    return (text, found) if text and found is not None else None


def asked(messages: Sequence[tuple[str, str]]) -> str | None:
    """The user's question in a prompt: the last user message without its context block."""
    for role, text in reversed(messages):
        if role == "user" and text.strip():
            return bare_question(text)
    return None
