"""Turns that a day's budget was too small for, read on a later day that can afford them.

They are read whole: all that a rule left over on one day, or none of it. A part chosen by what is
cheap or early would count too little of the rest, and the inclusion that weighs a turn is never
rewritten. What is under way goes in the order of the sampling hash: a page that is read when
something stops it is a random part of what was left, which moves an estimate towards the whole and
nowhere else.

Today's turns come first: what they will have cost by midnight, if the day goes on as it went so
far, is set aside.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from stagewatch.core.clock import Clock
from stagewatch.core.model import Turn
from stagewatch.core.store.client import Store
from stagewatch.core.store.leftovers import leftover_turns
from stagewatch.core.store.revisions import newest_revisions
from stagewatch.core.store.scores import past_decisions
from stagewatch.core.store.spending import Account, Spent
from stagewatch.scorer.budget import Budget, Limits
from stagewatch.scorer.cost import estimate_cost
from stagewatch.scorer.judges.asking import Price
from stagewatch.scorer.plans.selective import tasks_of
from stagewatch.scorer.rules import Rule, RuleBook
from stagewatch.scorer.sampling import position

SETTLED_SHARE = 0.25
"""Of the UTC day that must be over: before, nobody knows what today's turns will cost."""

_PRICED = 200
_REST_S = 60.0
Page = list[tuple[Turn, int]]


@dataclass(frozen=True, slots=True)
class _Unit:
    """What one rule left over on one day: turn ids in the order of the sampling hash."""

    account: Account
    rule: Rule
    ids: Sequence[str]


@dataclass(slots=True)
class Leftovers:
    """Finds pages of turns to read late; `days` is how many days back, 0 is never."""

    store: Store
    clock: Clock
    days: int
    price: Price | None
    budget: Budget | None
    judge_depth: int
    _rest_until: float = 0.0
    # What reading late has cost today: no sign of what today's own turns will cost.
    _spent: dict[Account, Spent] = field(default_factory=lambda: defaultdict(Spent))
    _spent_on: datetime | None = None

    def read(self, book: RuleBook, limit: int, take: Callable[[Page], None]) -> bool:
        """Have `take` read one page of at most `limit` turns when a whole unit fits; whether.

        Raises:
            StoreError: the store failed.
        """
        now, budget = self.clock.now(), self.budget
        if not self.days or budget is None or self.clock.monotonic() < self._rest_until:
            return False
        today = now.replace(hour=0, minute=0, second=0, microsecond=0)
        if today != self._spent_on:
            self._spent_on = today
            self._spent.clear()
        over = (now - today) / timedelta(days=1)
        if over >= SETTLED_SHARE:
            for unit in self._units(book, today):
                page = self._page(book, unit, limit)
                if page and self._fits(budget, unit, carry=1 / over):
                    before = budget.used(unit.account)
                    take(page)
                    self._spent[unit.account] += budget.used(unit.account) - before
                    return True
        self._rest_until = self.clock.monotonic() + _REST_S
        return False

    def _units(self, book: RuleBook, today: datetime) -> list[_Unit]:
        """Oldest day first; rules that are gone, or read for nothing now, have none."""
        found: dict[tuple[object, Account], list[str]] = defaultdict(list)
        since = today - timedelta(days=self.days)
        for left in leftover_turns(self.store, since=since, until=today):
            found[left.day, (left.project, left.rule)].append(left.turn_id)
        units = []
        for (_, account), ids in sorted(found.items(), key=lambda pair: str(pair[0])):
            rule = book.named(*account)
            if rule is not None and rule.enabled and rule.judge == "configured":
                units.append(_Unit(account, rule, sorted(ids, key=position)))
        return units

    def _page(self, book: RuleBook, unit: _Unit, limit: int) -> Page:
        """The first turns of the unit that are still there, left over, and of this rule."""
        page: Page = []
        for begin in range(0, len(unit.ids), limit):
            ids = unit.ids[begin : begin + limit]
            past = past_decisions(self.store, ids)
            still = [i for i in ids if i in past and past[i].decision.outcome == "over_budget"]
            found = newest_revisions(self.store, still)
            page += [(turn, revision) for turn, revision in found if book.first(turn) == unit.rule]
            if len(page) >= limit:
                break
        return page[:limit]

    def _fits(self, budget: Budget, unit: _Unit, *, carry: float) -> bool:
        if self.price is None:
            return False
        priced = unit.ids[:_PRICED]
        sample = [turn for turn, _ in newest_revisions(self.store, priced)]
        metrics = unit.rule.metrics
        guess = estimate_cost(
            sample, self.price, judge_depth=self.judge_depth,
            tasks=tasks_of(metrics) if metrics else None,
        )  # fmt: skip
        times = len(unit.ids) / len(priced)
        limits = Limits(unit.rule.usd_per_day, unit.rule.calls_per_day)
        room = budget.room(unit.account, limits, carry=carry, besides=self._spent)
        return (room.calls is None or guess.calls * times <= room.calls) and (
            room.usd is None or guess.usd * times <= room.usd
        )
