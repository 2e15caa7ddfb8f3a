"""Whether a finished turn is scored, and why not when it is not. Pure: no store, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from stagewatch.core.model import Decision, Turn
from stagewatch.scorer.rules import Rule
from stagewatch.scorer.sampling import UNIFORM, Draw, Signals, draw, is_sampled


@dataclass(frozen=True, slots=True)
class Standing:
    """What is already known of a turn: its first inclusion, and what people said of it.

    `inclusion` and `stratum` are those of an earlier decision and are never rewritten; `decided`
    is False for a turn that has none. `flagged` when escalated, disputed or corrected.
    """

    decided: bool = False
    inclusion: float | None = None
    stratum: str = UNIFORM
    flagged: bool = False


def screen(turn: Turn, standing: Standing, rule: Rule | None, at: datetime) -> Decision | None:
    """The decision on a turn that nobody reads, whatever the sample: a probe, no rule, nothing to
    read. None for a turn that is a matter of sampling.
    """
    if turn.probe:
        # Probes are asked on purpose: they are read by the probe schedule, not sampled from life.
        return Decision("filtered", "probe", None, "a probe, not a customer's question", at)
    name = rule.name if rule is not None else ""
    kept = standing.inclusion if standing.decided else None
    stratum = standing.stratum
    if turn.error and not (turn.answer or "").strip():
        return Decision("unscorable", name, kept, "the turn ended in an error", at, stratum)
    if not _readable(turn):
        why = "neither question nor answer was captured"
        return Decision("unscorable", name, kept, why, at, stratum)
    if rule is None and not standing.flagged:
        return Decision("filtered", "", kept, "no rule matches this turn", at, stratum)
    if not turn.complete and turn.answer is None and not standing.flagged:
        why = "the turn's own span has not arrived"
        return Decision("incomplete", name, kept, why, at, stratum)
    return None


def decide(
    turn: Turn, standing: Standing, rule: Rule | None, signals: Signals, *, at: datetime
) -> Decision:
    """The decision on a turn before the rule's judge is asked; `scored` means: go and score.

    Args:
        turn: the assembled turn; one that `screen` lets through.
        standing: earlier decision and flags.
        rule: the first rule that matches, None where none does.
        signals: what may raise the rule's rate for this turn.
        at: time written on the decision.
    """
    screened = screen(turn, standing, rule, at)
    if screened is not None:
        return screened
    drawn = _drawn(turn, standing, rule, signals)
    sampled = drawn is not None and is_sampled(turn.turn_id, drawn.inclusion)
    if standing.flagged and not sampled:
        return Decision("scored", "feedback", None, "flagged by a person", at, "feedback")
    name = rule.name if rule is not None else ""
    if drawn is None:
        why = "outside the sample: it was read because of feedback before"
        return Decision("not_sampled", name, None, why, at, standing.stratum)
    because = f": {drawn.why}" if drawn.why else ""
    if sampled:
        why = f"sampled at {drawn.inclusion:g} by rule {name!r}{because}"
        return Decision("scored", name, drawn.inclusion, why, at, drawn.stratum)
    why = f"not in the sample of {drawn.inclusion:g} that rule {name!r} draws{because}"
    return Decision("not_sampled", name, drawn.inclusion, why, at, drawn.stratum)


def _drawn(turn: Turn, standing: Standing, rule: Rule | None, signals: Signals) -> Draw | None:
    """The draw of an earlier decision where there is one, else a new one; None outside of it."""
    if standing.decided and standing.inclusion is not None:
        return Draw(standing.inclusion, standing.stratum, "")
    if standing.decided or rule is None:
        return None
    return draw(rule, turn, signals)


def _readable(turn: Turn) -> bool:
    return bool((turn.question or "").strip() or (turn.answer or "").strip())
