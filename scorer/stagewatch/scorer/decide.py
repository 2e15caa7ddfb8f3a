"""Whether a finished turn is scored, and why not when it is not. Pure: no store, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from stagewatch.core.model import Decision, Turn
from stagewatch.scorer.sampling import is_sampled


@dataclass(frozen=True, slots=True)
class Standing:
    """What is already known of a turn: its first inclusion, and what people said of it.

    `inclusion` and `stratum` are those of an earlier decision and are never rewritten; `decided`
    is False for a turn that has none. `flagged` when escalated, disputed or corrected.
    """

    decided: bool = False
    inclusion: float | None = None
    stratum: str = "uniform"
    flagged: bool = False


def decide(turn: Turn, standing: Standing, *, rate: float, at: datetime) -> Decision:
    """The decision on a turn before any judge is asked; outcome `scored` means: go and score.

    Args:
        turn: the assembled turn.
        standing: earlier decision and flags.
        rate: the sampling rate in force, 0 to 1.
        at: time written on the decision.
    """
    if turn.probe:
        # Probes are asked on purpose: they are read by the probe schedule, not sampled from life.
        return Decision("filtered", "probe", None, "a probe, not a customer's question", at)
    inclusion = standing.inclusion if standing.decided else rate
    stratum = standing.stratum if standing.decided else "uniform"
    if turn.error and not (turn.answer or "").strip():
        return Decision("unscorable", "error", inclusion, "the turn ended in an error", at, stratum)
    if not _readable(turn):
        why = "neither question nor answer was captured"
        return Decision("unscorable", "no_content", inclusion, why, at, stratum)
    sampled = inclusion is not None and is_sampled(turn.turn_id, inclusion)
    if standing.flagged and not sampled:
        return Decision("scored", "feedback", None, "flagged by a person", at, "feedback")
    if not turn.complete and turn.answer is None:
        why = "the turn's own span has not arrived"
        return Decision("incomplete", "incomplete", inclusion, why, at, stratum)
    if sampled:
        return Decision("scored", "sample", inclusion, f"sampled at {inclusion:g}", at, stratum)
    return Decision(
        "not_sampled", "sample", inclusion, f"not in the sample of {rate:g}", at, stratum
    )


def _readable(turn: Turn) -> bool:
    return bool((turn.question or "").strip() or (turn.answer or "").strip())
