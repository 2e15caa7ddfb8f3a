"""What is said of scoring: why a turn was or was not scored, and what holds the scorers up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stagewatch.core.model import Decision, Score
from stagewatch.core.store.client import Store
from stagewatch.core.store.members import list_members
from stagewatch.scorer.leases import ALIVE_SECONDS

_REMEMBERED_S = 3600.0


def scoring_words(decision: Decision | None, scores: Sequence[Score]) -> str:
    """One or two sentences on what became of a turn, whose rule it was and who has read it."""
    if decision is None:
        return "Not scored: the scorer has not come to this turn yet."
    judges = sorted({s.judge for s in scores if s.judge and s.status != "unscored"})
    why = decision.why
    if decision.rule and repr(decision.rule) not in why and decision.outcome != "scored":
        why += f" (rule {decision.rule!r})"
    if decision.outcome == "scored":
        by = f" by the {judges[0]} judge" if len(judges) == 1 else ""
        return f"Scored{by}: {why}."
    said = {"pending": "Not scored yet", "judge_error": "Not scored: the judge failed"}
    start = said.get(decision.outcome, "Not scored")
    free = " What is shown is the embedded judge's word." if judges == ["embedded"] else ""
    return f"{start}: {why}.{free}"


@dataclass(frozen=True, slots=True)
class ScorerState:
    """A scorer as it last said it was; `alive` by its heartbeat."""

    member: str
    alive: bool
    age_s: float
    body: Mapping[str, Any]


def scorer_states(store: Store) -> list[ScorerState]:
    """Scorers heard of within the last hour that have not left."""
    return [
        ScorerState(m.member, m.age_s <= ALIVE_SECONDS, m.age_s, m.body)
        for m in list_members(store, within_s=_REMEMBERED_S)
        if not m.body.get("left")
    ]


def scorer_banners(states: Sequence[ScorerState], project: str) -> list[tuple[str, str]]:
    """(kind of banner, sentence) for what keeps turns of a project from being scored."""
    living = [state for state in states if state.alive]
    banners: dict[str, str] = {}
    for state in living:
        why, word = str(state.body.get("why", "")), state.body.get("state")
        if word == "paused":
            # The seconds differ from scorer to scorer: one outage is one banner.
            banners[f"Scoring is paused: {why.partition(';')[0]}. Turns wait, none is lost."] = (
                "bad"
            )
        elif word == "over budget":
            for short in state.body.get("short", ()):
                if short["project"] in {"", project}:
                    banners[f"Scoring is over budget: {short['says']}."] = "warn"
    if states and not living:
        gone = min(state.age_s for state in states)
        banners[f"No scorer has been heard of for {gone:.0f} s: turns are stored, not scored."] = (
            "bad"
        )
    return [(kind, sentence) for sentence, kind in banners.items()]
