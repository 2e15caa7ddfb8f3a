"""What a rule would do, measured on the newest turns before it is saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from stagewatch.core.model import Turn
from stagewatch.core.store.client import Store
from stagewatch.core.store.turns import TurnFilter, full_turns, number_of_turns, release_counts
from stagewatch.scorer.cascade import first_reading
from stagewatch.scorer.cost import estimate_cost
from stagewatch.scorer.judges.asking import Price
from stagewatch.scorer.judges.protocol import Judge
from stagewatch.scorer.plans.selective import tasks_of
from stagewatch.scorer.rules import Rule, RuleBook, matches, split_first
from stagewatch.scorer.sampling import Signals, draw

LOOKED_AT = 1000
_READ_FIRST = 200
"""Turns that the embedded judge reads for a preview of rates that depend on it."""
_DAY = timedelta(hours=24)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a rule would do, from the newest `looked_at` turns and the traffic of 24 hours.

    `matching` turns pass the filters, `decided` are those that no rule before it takes. Calls
    (upper bounds) and US dollars (estimates) are those of the configured judge.
    """

    looked_at: int
    matching: int
    decided: int
    turns_a_day: float
    read_a_day: float
    calls_a_day: float
    usd_a_day: float
    sentence: str


def preview(
    store: Store,
    book: RuleBook,
    project: str,
    rule: Rule,
    now: datetime,
    *,
    price: Price | None,
    free: Judge,
) -> Preview:
    """Preview `rule` as the project's own, among the rules in force.

    Args:
        store: where the turns are.
        book: the rules in force.
        project: whose rule it would be.
        rule: the rule, new or changed.
        now: end of the 24 hours.
        price: of the configured judge; None when it costs nothing.
        free: the embedded judge, for rates that its reading moves.
    """
    turns = full_turns(store, TurnFilter(project=project), limit=LOOKED_AT)
    rest = [own for own in book.own.get(project, ()) if own.name != rule.name]
    ordered = RuleBook(book.common, {project: (*rest, rule)}).of_project(project)
    decided = split_first([known for known, _ in ordered], turns)[rule.name]
    a_day = number_of_turns(store, TurnFilter(project=project, since=now - _DAY, until=now))
    scale = a_day / len(turns) if turns else 0.0
    read = _mean_rate(store, rule, decided, now, free) * len(decided) * scale
    paid = price is not None and rule.judge == "configured"
    tasks = tasks_of(rule.metrics) if rule.metrics else None
    guess = estimate_cost(decided, price or Price(0, 0), tasks=tasks)
    each = read / len(decided) if decided and paid else 0.0
    calls, usd = guess.calls * each, guess.usd * each
    if rule.calls_per_day is not None and calls > rule.calls_per_day:
        usd, calls = usd * rule.calls_per_day / calls, float(rule.calls_per_day)
    if rule.usd_per_day is not None and usd > rule.usd_per_day:
        usd, calls = rule.usd_per_day, calls * rule.usd_per_day / usd
    matching = sum(matches(rule, turn) for turn in turns)
    said = f"would match {matching:,} of the last {len(turns):,} turns"
    if decided and len(decided) < matching:
        said += f" and decide on {len(decided):,} (rules before it take the rest)"
    elif not decided and matching:
        said += ", but rules before it take them all"
    said += f"; about {read:,.0f} turns read a day"
    if paid:
        said += f", about {calls:,.0f} judge calls, ${usd:,.2f} a day"
    return Preview(
        looked_at=len(turns),
        matching=matching,
        decided=len(decided),
        turns_a_day=a_day,
        read_a_day=read,
        calls_a_day=calls,
        usd_a_day=usd,
        sentence=said,
    )


def _mean_rate(
    store: Store, rule: Rule, decided: Sequence[Turn], now: datetime, free: Judge
) -> float:
    """The mean inclusion; what needs the embedded judge is measured on 200 turns."""
    releases = release_counts(store, now - _DAY) if rule.rare_rate is not None else {}
    some = decided[:_READ_FIRST] if rule.needs_first_pass else decided
    rates = [
        _rate(rule, turn, free, releases.get((turn.project, turn.release or ""))) for turn in some
    ]
    return sum(rates) / len(rates) if rates else 0.0


def _rate(rule: Rule, turn: Turn, free: Judge, release_turns: int | None) -> float:
    failed = unsure = None
    if rule.needs_first_pass:
        first = first_reading(turn, free)
        failed, unsure = first.failed, first.unsure
    return draw(rule, turn, Signals(release_turns, failed, unsure)).inclusion
