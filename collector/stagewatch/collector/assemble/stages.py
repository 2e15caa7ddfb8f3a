"""Which steps of a turn are its retrievals, its rerank, its rewrite and its answer.

Everything reported twice (wrappers, dual instrumentation, nested retrievers) is told apart here
and in `listings`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from stagewatch.collector.assemble.lenient import loaded
from stagewatch.collector.assemble.listings import find_documents
from stagewatch.collector.assemble.outline import Stages, names_say, nearest, set_downward, up
from stagewatch.collector.assemble.prompts import bare_question
from stagewatch.collector.assemble.shapes import (
    calls_tool,
    messages_of,
    reply_of,
    scalar_text,
    squash,
    text_of,
)
from stagewatch.collector.assemble.steps import Found, Lost, Step, withheld
from stagewatch.collector.assemble.tables import names


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
    set_downward(steps, stages)
    _calls(steps, stages)
    find_documents(steps, stages)
    _rewrites(steps, stages)
    stages.answer = _answer_call(stages, root_answer)
    return stages


def _calls(steps: Sequence[Step], stages: Stages) -> None:
    """Leaf model calls only: a call around a call reports the same one."""
    generating = {step.id for step in steps if step.kind == "generate"}
    around = nearest(stages, generating)
    stages.wrappers = {child: above for child, above in around.items() if child in generating}
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


def _tellers(stages: Stages, call: Step) -> Iterator[Step]:
    """The call itself, then the wrapper around it."""
    yield call
    wrapper = stages.wrappers.get(call.id)
    if wrapper is not None:
        yield wrapper


def call_reply(stages: Stages, call: Step) -> tuple[str, Found] | None:
    """What the model said in `call`, from the call itself or the wrapper around it."""
    for step in _tellers(stages, call):
        told = step.text("reply", reply_of)
        if told is not None:
            return told
    return None


def call_messages(stages: Stages, call: Step) -> tuple[list[tuple[str, str]], Found] | None:
    """The prompt of `call`, system instructions first."""
    for step in _tellers(stages, call):
        for found in step.read_all("messages"):
            messages = messages_of(found.value)
            hidden = sum(withheld(text) is not None for _, text in messages)
            if hidden:
                step.lost.setdefault("messages", Lost(found.key, "redacted"))
            if hidden < len(messages):
                system = step.read("system")
                if system is not None:
                    text = text_of(loaded(system.value)[0])
                    if text:
                        messages = [("system", text), *messages]
                return messages, found
    return None


def _answer_call(stages: Stages, root_answer: str | None) -> Step | None:
    rewrites = {step.id for step in stages.rewrites}
    shading = rewrites | {step.id for step in stages.downward if step.kind in {"rewrite", "embed"}}
    shading |= {listing.step.id for listing in stages.retrievals}
    if stages.reranked is not None:
        shading.add(stages.reranked.step.id)
    # Calls inside a retriever or reranker (query expansion, an LLM judge of order) do not answer.
    shaded = nearest(stages, shading)
    candidates = [
        call for call in stages.calls if call.id not in rewrites and call.id not in shaded
    ]
    if root_answer:
        wanted = squash(root_answer)
        for call in reversed(candidates):
            reply = call_reply(stages, call)
            if reply is not None and squash(reply[0]) == wanted:
                return call
    if len(candidates) > 1:
        candidates = _answering(stages, candidates, squash(root_answer) if root_answer else "")
    return max(candidates, key=lambda c: (c.span.end_ns, c.order), default=None)


def _answering(stages: Stages, calls: list[Step], root_answer: str) -> list[Step]:
    """Those of `calls` that can be the answer. Each sign counts only when it leaves a call.

    What an app calls beside the answer (a guard, a title, the next tool) gives itself away: by
    its name, by a reply that is a verdict or calls a tool, by a prompt without the passages.
    """
    replies = {call.id: squash(r[0]) for call in calls if (r := call_reply(stages, call))}
    signs: tuple[Callable[[Step], bool], ...] = (
        lambda call: len(text := replies.get(call.id, "")) >= _MIN_QUOTE and text in root_answer,
        lambda call: not ends_in_tool(stages, call),
        lambda call: not _aside(stages, call),
        lambda call: not _about_another(stages, call, replies),
        lambda call: _quotes_passages(stages, call),
        lambda call: not _VERDICT.fullmatch(replies.get(call.id, "")),
    )
    for sign in signs:
        calls = [call for call in calls if sign(call)] or calls
    return calls


_MIN_QUOTE = 16
_VERDICT = re.compile(
    r"(?i)[\W\d_]*(safe|unsafe|yes|no|true|false|pass(ed)?|fail(ed)?|ok|allow(ed)?|block(ed)?"
    r"|grounded|relevant|irrelevant|useful|none|positive|negative|neutral)?[\W\d_]*(\bS\d+\b)?\W*"
)


def ends_in_tool(stages: Stages, call: Step) -> bool:
    """Whether the call's last word is to a tool: whatever it says beside is not the answer."""
    for step in _tellers(stages, call):
        finish = step.read("finish")
        if finish is not None and "tool" in str(finish.value).lower():
            return True
        for found in step.read_all("reply"):
            if calls_tool(found.value):
                return True
    return False


def _aside(stages: Stages, call: Step) -> bool:
    """Whether the call, its model, or a step around it below the root is named after something
    else than answering.
    """
    around = [step for step in up(stages, call) if step.id in stages.parents]
    models = [call.text(name, scalar_text) for name in ("request_model", "model")]
    return any(names_say(step, "aside") for step in (call, *around)) or any(
        model is not None and names().step_names["aside"].search(model[0]) for model in models
    )


def _about_another(stages: Stages, call: Step, replies: Mapping[str, str]) -> bool:
    """Whether the prompt quotes what another call said and asks for something beside it. A prompt
    that quotes a draft to refine or translate it asks for the answer.
    """
    prompt = call_messages(stages, call)
    if prompt is None:
        return False
    text = squash("\n".join(body for _, body in prompt[0]))
    for other, reply in replies.items():
        if other != call.id and len(reply) >= _MIN_QUOTE and reply in text:
            instruction = text.replace(reply, " ")[:_MAX_INSTRUCTION]
            return names().step_names["aside"].search(instruction) is not None
    return False


def _quotes_passages(stages: Stages, call: Step) -> bool:
    prompt = call_messages(stages, call)
    if prompt is None:
        return False
    text = squash("\n".join(body for _, body in prompt[0]))
    return any(
        (content := squash(chunk.content)) and content in text
        for listing in [*stages.retrievals, *([stages.reranked] if stages.reranked else [])]
        for chunk in listing.chunks
    )


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
        if above is not None and (above.id in found or names_say(step, "rewrite")):
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
    return call_reply(stages, step) or step.text("output", reply_of)


def asked(messages: Sequence[tuple[str, str]]) -> str | None:
    """The user's question in a prompt: the last user message without its context block."""
    for role, text in reversed(messages):
        if role == "user" and text.strip():
            return None if withheld(text) else bare_question(text)
    return None
