"""Which groups of steps are turns, and why the others are none."""

from __future__ import annotations

from collections.abc import Mapping

from stagewatch.collector.assemble.facts import Facts
from stagewatch.collector.assemble.measures import failed_workflow
from stagewatch.collector.assemble.outline import Stages
from stagewatch.collector.assemble.spoken import answer_of_turn, question_of_turn, told_answer
from stagewatch.collector.assemble.stages import find_stages
from stagewatch.collector.assemble.tree import Group


def is_turn(facts: Facts, stages: Stages, question: str | None, answer: str | None) -> bool:
    """Whether somebody asked and a model, a cache or an error answered; an ingest, a health
    check and a search alone are no turns.
    """
    root = facts.group.root
    if (root is not None and root.kind == "turn") or stages.answer is not None:
        return True
    if not question:
        return False
    if answer and (stages.retrievals or stages.reranked or stages.calls):
        return True
    if answer:
        # Without a stage it may be any function with an input and an output, unless the app says.
        return bool(
            (facts.mapped("question") and facts.mapped("answer")) or facts.text("conversation_id")
        )
    if stages.retrievals and stages.calls:
        return True
    # Somebody asked, and it broke off.
    return failed_workflow(facts.group) is not None and bool(
        stages.retrievals or facts.text("conversation_id")
    )


def why_no_turn(group: Group, attribute_map: Mapping[str, str]) -> tuple[int, str]:
    """(how far it is from being a turn, 0 to 4, and what it lacks) of a group that is none."""
    facts = Facts(group, attribute_map)
    told = told_answer(facts)
    stages = find_stages(group.steps, told)
    question = question_of_turn(facts, stages)
    answer = answer_of_turn(facts, stages, told)
    if question and answer:
        return 0, (
            "an input and an output, but no search, no model call and no conversation id: it may "
            "be any function"
        )
    if question and stages.retrievals:
        return 1, "a search for a question, but no answer, no model call and no failed workflow"
    if question:
        return 2, "an input, but no model call and no answer"
    if stages.retrievals or stages.reranked:
        return 2, "a search, but nobody's question, no model call and no answer"
    if answer:
        return 2, "an output, but no model call and no question"
    if any(not table.always for step in group.steps for table in step.by):
        return 3, "no question, no model call and no search that a known attribute tells"
    return 4, "no span is of a known convention or carries a mapped attribute"
