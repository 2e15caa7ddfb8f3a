"""The stages of a turn as data, and where a step stands among the others."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

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
    """The stages of one turn; `calls` are the model calls, each once; `unlisted` are reranks
    whose result was not captured.
    """

    retrievals: list[Listing] = field(default_factory=list)
    reranked: Listing | None = None
    unlisted: list[Step] = field(default_factory=list)
    calls: list[Step] = field(default_factory=list)
    rewrites: list[Step] = field(default_factory=list)
    answer: Step | None = None
    wrappers: dict[str, Step] = field(default_factory=dict)
    parents: dict[str, Step] = field(default_factory=dict)
    downward: list[Step] = field(default_factory=list)


def set_downward(steps: Sequence[Step], stages: Stages) -> None:
    """Parents before children. The order by time will not do: clocks of two machines differ."""
    stack = [step for step in reversed(steps) if step.id not in stages.parents]
    while stack:
        step = stack.pop()
        stages.downward.append(step)
        stack.extend(child for child in reversed(step.children) if child.id in stages.parents)


def nearest(stages: Stages, wanted: set[str]) -> dict[str, Step]:
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


def names_say(step: Step, what: str) -> bool:
    """True when the step's name or label looks like a `what`: rewrite, rerank or retrieve."""
    label = step.read("label")
    text = f"{step.span.name} {label.value if label and isinstance(label.value, str) else ''}"
    return (_known_name if len(text) <= _LONG_NAME else _name_says)(text, what)


_LONG_NAME = 200
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def _name_says(text: str, what: str) -> bool:
    return names().step_names[what].search(_CAMEL.sub(" ", text)) is not None


# The steps of an app have few names.
_known_name = functools.lru_cache(maxsize=4096)(_name_says)
