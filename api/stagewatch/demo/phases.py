"""The four phases of the demo: one healthy deployment and three that break in their own way."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stagewatch.demo.bot import Deployment, Faults
from stagewatch.demo.corpus import (
    FACTS,
    VERSIONED_FACTS,
    Fact,
    current_passages,
    superseded_passages,
)

BROKEN_TURNS = 130


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of traffic on one deployment; `expected` are the stages that may be named."""

    name: str
    says: str
    deployment: Deployment
    facts: Sequence[Fact]
    turns: int
    expected: frozenset[str]


def phases(healthy_turns: int) -> list[Phase]:
    """The phases in order."""
    current = current_passages()
    old = superseded_passages()
    healthy = Deployment("1.4.0", "kb-2026-11-01", "answer-v7", current)
    return [
        Phase(
            "healthy",
            "only current versions are indexed",
            healthy,
            FACTS,
            healthy_turns,
            frozenset({"ok"}),
        ),
        Phase(
            "bad re-index",
            "distances are sorted as if they were similarities: the best passage comes last",
            Deployment(
                "1.4.0", "kb-2026-11-08", "answer-v7", current, faults=Faults(worst_first=True)
            ),
            FACTS,
            BROKEN_TURNS,
            frozenset({"ranking", "retrieval"}),
        ),
        Phase(
            "wrong numbers",
            "the index is mended; a formatting bug in the answerer changes every number",
            Deployment(
                "1.5.0", "kb-2026-11-09", "answer-v7", current, faults=Faults(wrong_numbers=True)
            ),
            FACTS,
            BROKEN_TURNS,
            frozenset({"generation"}),
        ),
        Phase(
            "superseded policy",
            "the answerer is mended; old policy pages are left in the index and rank first",
            Deployment(
                "1.5.1",
                "kb-2026-11-15",
                "answer-v7",
                [*current, *old],
                frozenset(passage.chunk_id for passage in old),
                Faults(boost_old=True),
            ),
            VERSIONED_FACTS,
            BROKEN_TURNS,
            frozenset({"stale_source"}),
        ),
    ]


@dataclass(frozen=True, slots=True)
class Asked:
    """One question of a conversation; `standalone` is set on a follow-up."""

    question: str
    standalone: str | None
    opens: bool


def questions(facts: Sequence[Fact], turns: int, seed: int) -> Iterator[Asked]:
    """`turns` questions in conversations: an opening question, often a follow-up."""
    chance = random.Random(seed)  # noqa: S311 - which customer asks what
    made = 0
    while made < turns:
        fact = chance.choice(facts)
        yield Asked(chance.choice(fact.asked), None, opens=True)
        made += 1
        if fact.follow_up and made < turns and chance.random() < 0.6:
            yield Asked(fact.follow_up[0], fact.follow_up[1], opens=False)
            made += 1
