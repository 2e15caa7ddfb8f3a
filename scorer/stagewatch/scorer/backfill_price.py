"""What a backfill will take, measured on the stored turns before anybody agrees to it."""

from __future__ import annotations

from datetime import datetime

from stagewatch.core.codec import from_json
from stagewatch.core.model import Turn
from stagewatch.core.store.client import Store
from stagewatch.core.store.scores import past_decisions, read_by
from stagewatch.scorer.backfill import Forecast, Scope
from stagewatch.scorer.cost import estimate_cost
from stagewatch.scorer.judges.asking import Price
from stagewatch.scorer.plans.selective import tasks_of
from stagewatch.scorer.rules import Rule, matches
from stagewatch.scorer.sampling import is_sampled

SAMPLE = 1000
"""Turns that are looked at; a longer range is measured on as many, taken evenly by hash."""


def price_backfill(
    store: Store,
    project: str,
    since: datetime,
    until: datetime,
    *,
    fingerprint: str,
    price: Price | None,
    scope: Scope = "all",
    rule: Rule | None = None,
) -> Forecast:
    """Turns, calls, tokens and money of a backfill.

    Args:
        store: where the turns are.
        project: whose.
        since: first start time.
        until: end of the range, not in it.
        fingerprint: of the judge that will read; what it has read already costs nothing.
        price: of a paid judge; None for the embedded one, which takes no call.
        scope: as of a job.
        rule: only turns that it matches, and only its metrics.
    """
    total = int(
        store.value(
            f"SELECT count() FROM turns FINAL WHERE {_RANGE}",
            {"project": project, "since": since, "until": until},
        )
    )
    found = store.rows(
        f"""SELECT body, revision FROM turns FINAL WHERE {_RANGE}
            ORDER BY xxHash64(turn_id) LIMIT {SAMPLE}""",
        {"project": project, "since": since, "until": until},
    )
    turns = [(from_json(Turn, row["body"]), int(row["revision"])) for row in found]
    if scope == "sampled":
        past = past_decisions(store, [turn.turn_id for turn, _ in turns])
        inclusions = {i: p.decision.inclusion for i, p in past.items()}
        turns = [(t, r) for t, r in turns if _drawn(t, inclusions.get(t.turn_id))]
    meant = [(t, r) for t, r in turns if rule is None or matches(rule, t)]
    read = read_by(store, {t.turn_id: r for t, r in meant}, fingerprint) if meant else set()
    todo = [turn for turn, _ in meant if turn.turn_id not in read]
    scale = total / len(found) if found else 0.0
    tasks = tasks_of(rule.metrics) if rule is not None and rule.metrics else None
    guess = estimate_cost(todo, price or Price(0.0, 0.0), tasks=tasks)
    paid = scale if price is not None else 0.0
    return Forecast(
        turns=round(len(todo) * scale),
        already=round(len(read) * scale),
        calls=round(guess.calls * paid),
        input_tokens=round(guess.input_tokens * paid),
        output_tokens=round(guess.output_tokens * paid),
        usd=guess.usd * paid,
        exact=total <= SAMPLE,
    )


_RANGE = """project = {project:String} AND replaced_by = '' AND NOT probe
              AND started_at >= {since:DateTime64(6, 'UTC')}
              AND started_at < {until:DateTime64(6, 'UTC')}"""


def _drawn(turn: Turn, inclusion: float | None) -> bool:
    return inclusion is not None and is_sampled(turn.turn_id, inclusion)
