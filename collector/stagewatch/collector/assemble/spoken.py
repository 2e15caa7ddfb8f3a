"""What was asked and what was answered in a turn, and what was said before it."""

from __future__ import annotations

from typing import Any

from stagewatch.collector.assemble.facts import Facts
from stagewatch.collector.assemble.outline import Stages, up
from stagewatch.collector.assemble.shapes import (
    answer_of,
    messages_of,
    question_of,
    said_nothing,
)
from stagewatch.collector.assemble.stages import (
    asked,
    call_messages,
    call_reply,
    ends_in_tool,
)
from stagewatch.collector.assemble.steps import withheld
from stagewatch.core.model import Message


def told_answer(facts: Facts) -> str | None:
    """The answer as the app itself says it: mapped, or plain text on the root."""
    mapped = facts.mapped("answer")
    if mapped is not None:
        return mapped
    root = facts.group.root
    if root is None or root.kind == "generate":
        return None
    said = root.text("output", answer_of)
    return said[0] if said is not None else None


def answer_of_turn(facts: Facts, stages: Stages, told: str | None) -> str | None:
    """The answer: as the app tells it, else the answering call's reply, else what a step around
    that call gave back. Empty when the model ended without a word; None when it is not known.
    """
    mapped = facts.mapped("answer")
    if mapped is not None:
        return mapped
    root = facts.group.root
    said = root.text("output", answer_of) if told and root is not None else None
    if said is not None and root is not None:
        facts.note("answer", root, said[1].key, said[1].convention, cut=said[1].cut)
        return told
    if stages.answer is not None:
        reply = call_reply(stages, stages.answer)
        if reply is not None and not ends_in_tool(stages, stages.answer):
            text, found = reply
            facts.note("answer", stages.answer, found.key, found.convention, cut=found.cut)
            return text
        for above in up(stages, stages.answer):
            output = above.text("output", answer_of)
            if output is not None:
                text, found = output
                facts.note("answer", above, found.key, found.convention, cut=found.cut)
                return text
        for found in stages.answer.read_all("reply"):
            if said_nothing(found.value):
                facts.note("answer", stages.answer, found.key, found.convention, cut=found.cut)
                return ""
    return None


def question_of_turn(facts: Facts, stages: Stages) -> str | None:
    """The question: as the app tells it, else the input of the root or of the first workflow that
    has one, else the user's last message in the answering call's prompt.
    """
    mapped = facts.mapped("question")
    if mapped is not None:
        return mapped
    root = facts.group.root
    before = stages.answer.span.start_ns if stages.answer is not None else None
    candidates = [root] if root is not None and root.kind != "generate" else []
    # A root that says nothing often has the workflow that does right below it.
    candidates += [
        step
        for step in facts.group.steps
        if step is not root
        and step.kind in {"chain", "rewrite"}
        and (before is None or step.span.start_ns <= before)
    ]
    for step in candidates:
        told = step.text("input", question_of)
        if told is not None:
            text, found = told
            facts.note("question", step, found.key, found.convention, cut=found.cut)
            return text
    return _prompted_question(facts, stages)


def _prompted_question(facts: Facts, stages: Stages) -> str | None:
    call = stages.answer
    if call is None:
        return None
    variables = call.read("variables")
    if variables is not None:
        text = question_of(variables.value)
        if text:
            facts.note("question", call, variables.key, variables.convention)
            return text
    prompt = call_messages(stages, call)
    if prompt is None:
        # With passages around it, an input of unknown make-up cannot be told from its context.
        told = call.text("input", question_of) if not stages.retrievals else None
    else:
        text = asked(prompt[0])
        told = (text, prompt[1]) if text else None
    if told is None:
        return None
    text, found = told
    facts.note("question", call, found.key, found.convention, cut=found.cut)
    return text


def history_of(
    facts: Facts, question: str | None, prompt: tuple[list[tuple[str, str]], Any] | None
) -> tuple[Message, ...]:
    """What was said before the question: as the app tells it, else the prompt's earlier messages
    of user and assistant.
    """
    root = facts.group.root
    told = root.read("history") if root is not None else None
    if told is not None and root is not None:
        facts.note("history", root, told.key, told.convention, cut=told.cut)
        said = [pair for pair in messages_of(told.value) if not withheld(pair[1])]
        return tuple(Message(role, text) for role, text in said)
    if prompt is None:
        return ()
    said = [(role, text) for role, text in prompt[0] if role in {"user", "assistant"}]
    # The last user message is the question itself; without an answer before it there is no past.
    while said and said[-1][0] != "user":
        said.pop()
    said = [(role, text) for role, text in said[:-1] if not withheld(text)]
    if question is not None and not any(role == "assistant" for role, _ in said):
        return ()
    return tuple(Message(role, text) for role, text in said)
