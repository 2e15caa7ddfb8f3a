"""The spans of one trace as trees, and which parts of them are turns.

Takes what arrives: any order, duplicates, missing or impossible parents, cycles. Linear in the
number of spans but for one sort.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from stagewatch.collector.assemble.outline import Stages
from stagewatch.collector.assemble.shapes import squash
from stagewatch.collector.assemble.stages import call_messages, call_reply
from stagewatch.collector.assemble.steps import Step
from stagewatch.core.model import LogRow, SpanRow

_CONTENT_KINDS = frozenset({"retrieve", "rerank", "generate", "rewrite"})


@dataclass(frozen=True, slots=True)
class Group:
    """The steps of one turn in order. `root` is None when the root span never came; then
    `root_id` is the id its spans point to.
    """

    root_id: str
    root: Step | None
    steps: tuple[Step, ...]
    ancestors: tuple[Step, ...] = ()


def one_each(spans: Iterable[SpanRow]) -> list[SpanRow]:
    """Each span id once: the copy that ended last and says most. The result has a fixed order."""
    best: dict[str, SpanRow] = {}
    for span in spans:
        known = best.get(span.span_id)
        if known is None or _says_more(span, known):
            best[span.span_id] = span
    return sorted(best.values(), key=lambda s: (s.start_ns, -s.end_ns, s.span_id))


def _says_more(span: SpanRow, known: SpanRow) -> bool:
    left = (span.end_ns, len(span.attributes), len(span.events))
    right = (known.end_ns, len(known.attributes), len(known.events))
    # repr decides between copies that differ only in content, so that any order gives the same.
    return left > right if left != right else repr(span) > repr(known)


def build(
    spans: Sequence[SpanRow], logs: Sequence[LogRow], mapped: Mapping[str, str]
) -> list[Step]:
    """Root steps in order, children linked. A span whose parent is itself, unknown, all zero or
    part of a cycle is a root. `mapped` are the app's own attributes of steps, by name.
    """
    by_span: dict[str, list[LogRow]] = defaultdict(list)
    for log in logs:
        by_span[log.span_id].append(log)
    steps = {span.span_id: Step(span, by_span.get(span.span_id, ())) for span in spans}
    if mapped:
        for step in steps.values():
            step.adopt(mapped)
    roots = []
    for span in spans:
        parent = steps.get(span.parent_id)
        if parent is None or span.parent_id == span.span_id:
            roots.append(steps[span.span_id])
        else:
            parent.children.append(steps[span.span_id])
    seen = {step.id for root in roots for step in walk(root)}
    for span in spans:
        if span.span_id in seen:
            continue
        # Only cycles are left: cut one at its earliest span.
        start = steps[span.span_id]
        steps[span.parent_id].children.remove(start)
        roots.append(start)
        seen.update(step.id for step in walk(start))
    roots.sort(key=lambda step: step.order)
    return roots


def walk(root: Step) -> list[Step]:
    """The steps below and with `root`, parents before children, siblings in order."""
    found = []
    stack = [root]
    while stack:
        step = stack.pop()
        found.append(step)
        stack.extend(reversed(step.children))
    return found


def groups(roots: Sequence[Step]) -> list[Group]:
    """The turns of a trace: each marked turn; else each root that holds a model call or an
    answer; split where one root holds several whole workflows.
    """
    found: list[Group] = []
    orphans: dict[str, list[Step]] = defaultdict(list)
    for root in roots:
        parent_id = root.span.parent_id
        lone = not parent_id.strip("0") or parent_id in {root.id, root.span.trace_id}
        if not lone and root.kind not in {"turn", "chain"}:
            orphans[parent_id].append(root)
        else:
            found += _split(root)
    for parent_id, steps in orphans.items():
        found.append(_orphan_group(parent_id, steps))
    return found


def _orphan_group(parent_id: str, steps: list[Step]) -> Group:
    """Spans whose parent never came, under the id they point to."""
    every = [step for root in steps for step in walk(root)]
    every.sort(key=lambda step: step.order)
    return Group(parent_id, None, tuple(every))


def _split(root: Step) -> list[Group]:
    every = walk(root)
    marked = [step for step in every if step.kind == "turn"]
    tops = marked or _workflows(root, every)
    if not tops or tops == [root]:
        return _dialogue(root, every) or [_group(root, set(), ())]
    cut = {step.id for step in tops}
    above = _ancestors(root, cut)
    return [_group(top, cut - {top.id}, above.get(top.id, ())) for top in tops]


def _ancestors(root: Step, wanted: set[str]) -> dict[str, tuple[Step, ...]]:
    """Nearest first, for each wanted step below `root`."""
    found: dict[str, tuple[Step, ...]] = {}
    path: list[Step] = []
    stack: list[tuple[Step, bool]] = [(root, False)]
    while stack:
        step, done = stack.pop()
        if done:
            path.pop()
            continue
        if step.id in wanted:
            found[step.id] = tuple(reversed(path))
        path.append(step)
        stack.append((step, True))
        stack.extend((child, False) for child in step.children)
    return found


def _group(top: Step, cut: set[str], above: tuple[Step, ...]) -> Group:
    found = []
    stack = [top]
    while stack:
        step = stack.pop()
        found.append(step)
        stack.extend(child for child in step.children if child.id not in cut)
    found.sort(key=lambda step: step.order)
    return Group(top.id, top, tuple(found), above)


def _dialogue(root: Step, every: Sequence[Step]) -> list[Group]:
    """The turns of a chat loop whose calls lie side by side under one root that says nothing: a
    call whose prompt quotes an earlier call's reply as the assistant's begins a new turn. Each
    turn is named by its answering call. Empty when there is at most one turn.
    """
    if root.kind == "generate" or root.read("input") is not None or root.read("output") is not None:
        return []
    calls = sorted((s for s in every if s.kind == "generate"), key=lambda step: step.order)
    ends = _answered(calls)
    if not ends:
        return []
    groups = []
    rest = sorted((s for s in every if s is not root), key=lambda step: step.order)
    for call in [*ends, calls[-1]]:
        last = call is calls[-1]
        own = [s for s in rest if last or s.span.start_ns <= call.span.end_ns]
        rest = [s for s in rest if not last and s.span.start_ns > call.span.end_ns]
        groups.append(Group(call.id, call, tuple(own), (root,)))
    return groups


def _answered(calls: Sequence[Step]) -> list[Step]:
    """The calls whose reply a later call quotes, in order; the last call is none of them."""
    none = Stages()
    by_reply: dict[str, Step] = {}
    found: dict[str, Step] = {}
    for call in calls:
        prompt = call_messages(none, call)
        quoted: Step | None = None
        for role, text in prompt[0] if prompt is not None else ():
            if role == "assistant":
                quoted = by_reply.get(squash(text))
            elif role == "user" and quoted is not None:
                # The user spoke again: an agent's steps quote its own words, but nobody answers.
                found[quoted.id] = quoted
        reply = call_reply(none, call)
        if reply is not None:
            by_reply[squash(reply[0])] = call
    return [call for call in found.values() if call is not calls[-1]]


def _workflows(root: Step, every: Sequence[Step]) -> list[Step]:
    """Child workflows that are each a whole turn (they retrieve and generate), when there are
    several of them: a chat loop under one root.
    """
    if root.read("input") is not None and root.read("output") is not None:
        # It says itself what was asked and answered: whatever is below are its steps.
        return []
    holds: dict[str, set[str]] = {}
    for step in reversed(every):
        kinds = {step.kind} & _CONTENT_KINDS
        for child in step.children:
            kinds |= holds.get(child.id, set())
        holds[step.id] = kinds
    level = root
    while True:
        whole = [
            child
            for child in level.children
            if child.kind in {"chain", "other"} and {"retrieve", "generate"} <= holds[child.id]
        ]
        if len(whole) > 1:
            return sorted(whole, key=lambda step: step.order)
        if len(whole) != 1 or holds[level.id] != holds[whole[0].id]:
            return []
        level = whole[0]
