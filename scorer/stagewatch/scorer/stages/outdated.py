"""Which superseded versions in a window could have mattered to this question and answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stagewatch.core.model import Claim, Turn
from stagewatch.scorer.diagnosis import Flag
from stagewatch.scorer.judges.embedded import supports
from stagewatch.scorer.metrics.relevance import Mark


@dataclass(frozen=True, slots=True)
class StalePositions:
    """1-based window positions, and what the diagnosis reads of them.

    `flag` is `unknown` when a superseded version is there and nobody could say what it is about.
    """

    positions: tuple[int, ...] = ()
    flag: Flag = "no"


def stale_positions(
    turn: Turn, claims: Sequence[Claim], superseded: Sequence[bool], outdated: Sequence[Mark]
) -> StalePositions:
    """Superseded chunks of the window that are a claim's evidence or about the question.

    A superseded chunk about something else is noise like any other passage, and can have moved
    neither retrieval nor the answer (docs/adr/008-stale-source.md).

    Args:
        turn: gives the window.
        claims: claims of the answer after the guard.
        superseded: one flag a window chunk.
        outdated: one mark a window chunk: whether it would be relevant were it current; empty
            when the chunks could not be marked.
    """
    if not turn.window:
        return StalePositions(flag="unknown")
    old = [position for position, flag in enumerate(superseded, start=1) if flag]
    if not old:
        return StalePositions()
    marks = list(outdated) or [None] * len(turn.window)
    rests = {
        claim.chunk_rank
        for claim in claims
        if claim.chunk_rank in old and not _held_elsewhere(turn, claim, superseded)
    }
    found = tuple(p for p in old if marks[p - 1] is True or p in rests)
    if found:
        return StalePositions(found, "yes")
    return StalePositions(flag="unknown" if any(marks[p - 1] is None for p in old) else "no")


def _held_elsewhere(turn: Turn, claim: Claim, superseded: Sequence[bool]) -> bool:
    """Whether the claim has no evidence of its own, or a current chunk holds it as well."""
    if claim.label == "ABSENT":
        return True
    return claim.label == "SUPPORTED" and any(
        not old and supports(claim.text, chunk.content)
        for chunk, old in zip(turn.window, superseded, strict=True)
    )
