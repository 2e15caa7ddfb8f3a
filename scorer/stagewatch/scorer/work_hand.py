"""The turns of one pass that are prepared, with the judge, or read and not yet stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from datetime import timedelta

from stagewatch.core.model import FLAGGING_FEEDBACK, Turn
from stagewatch.core.store.client import Store
from stagewatch.core.store.feedback import flags_of
from stagewatch.core.store.scores import (
    Evaluated,
    PastDecision,
    past_decisions,
    put_decisions,
    put_evaluated,
)
from stagewatch.core.store.spending import Spent
from stagewatch.core.store.turns import Share
from stagewatch.scorer.rules import RuleBook
from stagewatch.scorer.work_one import Item, Prepared, TurnReader

_STORE_EVERY_S = 1.0
BATCH = 100
"""Turns of a page; results are stored as often, or every second. A scorer that dies leaves at
most a page and those with the judge unread."""


@dataclass(frozen=True, slots=True)
class Duty:
    """What passes work by.

    `book` gives the rules in force, `share` the turns that are this scorer's (None: none now),
    `threads` how many turns may wait for the judge at a time, `member` the name on claims,
    `leftover_days` how far back turns are read that a budget was too small for.
    """

    lookback: timedelta
    book: Callable[[], RuleBook] = RuleBook
    share: Callable[[], Share | None] = Share
    threads: int = 1
    member: str = ""
    leftover_days: int = 0


@dataclass(slots=True)
class PassReport:
    """What a pass did: turns by outcome, errors by kind, the age of the oldest waiting turn.

    `taken_over` turns were claimed by a scorer that died, `repeated_calls` what reading them
    cost: calls that the dead one may have made before.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    lag_s: float = 0.0
    taken_over: int = 0
    repeated_calls: int = 0
    waiting: int = 0

    @property
    def turns(self) -> int:
        """How many turns got a decision."""
        return sum(self.outcomes.values())


class Hand:
    """The turns of one pass that are prepared, with the judge, or read and not yet stored."""

    def __init__(
        self,
        store: Store,
        turns: TurnReader,
        duty: Duty,
        pool: ThreadPoolExecutor | None,
        beside: ThreadPoolExecutor,
        report: PassReport,
        stopping: Callable[[], bool],
        monotonic: Callable[[], float],
    ) -> None:
        self._monotonic = monotonic
        self._stored_at = monotonic()
        self._store = store
        self._turns = turns
        self._duty = duty
        self._pool = pool
        self._beside = beside
        self._storing: Future[None] | None = None
        self._report = report
        self._stopping = stopping
        self._asked: dict[Future[tuple[Evaluated, Spent]], bool] = {}
        self._done: list[Evaluated] = []
        self.share = Share()
        self.book = RuleBook()
        self.releases: dict[tuple[str, str], int] = {}

    def take(self, page: Sequence[tuple[Turn, int]], *, demanded: bool = False) -> None:
        """Decide on a page of turns and begin to read those that are sampled.

        Without `demanded` a turn that another scorer has decided since is left alone.
        """
        if not page:
            return
        items = [item for item in self._items(page) if demanded or not _is_settled(item)]
        prepared = [self._prepare(item) for item in items if not self._stopping()]
        paid = [p for p in prepared if self._turns.is_paid(p)]
        paid = self._try_one(paid)
        self._claim(paid)
        ask = {id(p) for p in paid}
        for one in prepared:
            if id(one) in ask:
                self._ask(one)
            elif not self._turns.is_paid(one) and not self._stopping():
                self._keep_free(one)
        self._store_done(BATCH)

    def _items(self, page: Sequence[tuple[Turn, int]]) -> list[Item]:
        ids = [turn.turn_id for turn, _ in page]
        past = past_decisions(self._store, ids)
        flags = flags_of(self._store, ids)
        flagged = {
            turn_id
            for turn_id, found in flags.items()
            if any(f.reason in FLAGGING_FEEDBACK and f.state != "rejected" for f in found)
        }
        return [
            Item(
                turn, revision, past.get(turn.turn_id), turn.turn_id in flagged,
                self.releases.get((turn.project, turn.release or "")),
            )
            for turn, revision in page
            if not self._elsewhere(past.get(turn.turn_id))
        ]  # fmt: skip

    def _elsewhere(self, past: PastDecision | None) -> bool:
        return (
            past is not None
            and past.decision.outcome == "pending"
            and past.member in self.share.others
        )

    def _prepare(self, item: Item) -> Prepared:
        return self._turns.prepare(item, self.book.first(item.turn))

    def _try_one(self, paid: list[Prepared]) -> list[Prepared]:
        """While the judge is away, or not known to be back, the rest waits for one try."""
        fuse = self._turns.reader.fuse
        if fuse is None or not paid or fuse.state() is None:
            return paid
        if fuse.outage() is None:
            first, paid = paid[0], paid[1:]
            self._claim([first])
            self._keep(*self._turns.read(first), taken_over=self._is_taken_over(first.item))
        away = fuse.state()
        if away is None:
            return paid
        why = f"the judge cannot be used ({away.kind}); waits until it can"
        for one in paid:
            if one.item.past is None or one.item.past.decision.outcome != "pending":
                waits = replace(one.decision, outcome="pending", why=why)
                self._keep(one.ended(waits), Spent(), taken_over=False)
            else:
                self._report.waiting += 1
        return []

    def _claim(self, paid: Sequence[Prepared]) -> None:
        """Write down who reads these turns and with which inclusion, before the judge is asked."""
        why = "with the judge now"
        put_decisions(
            self._store,
            [
                (
                    p.item.turn,
                    p.item.revision,
                    replace(p.decision, outcome="pending", why=why),
                    self._duty.member,
                )
                for p in paid
            ],
        )

    def _is_taken_over(self, item: Item) -> bool:
        past = item.past
        return (
            past is not None
            and past.decision.outcome == "pending"
            and past.member not in {"", self._duty.member}
        )

    def _ask(self, prepared: Prepared) -> None:
        taken_over = self._is_taken_over(prepared.item)
        if self._pool is None:
            self._keep(*self._read(prepared), taken_over=taken_over)
            return
        # Twice the threads keep each of them busy while results are stored.
        while len(self._asked) >= 2 * self._duty.threads:
            self._collect()
        self._asked[self._pool.submit(self._read, prepared)] = taken_over

    def _read(self, prepared: Prepared) -> tuple[Evaluated, Spent]:
        """The turn read, or its claim given back when the scorer is being stopped."""
        if not self._stopping():
            return self._turns.read(prepared)
        waits = replace(prepared.decision, outcome="pending", why="the scorer was stopped; waits")
        return prepared.ended(waits), Spent()

    def _collect(self) -> None:
        done, _ = wait(self._asked, return_when=FIRST_COMPLETED)
        for future in done:
            self._keep(*future.result(), taken_over=self._asked.pop(future))
        self._store_done(BATCH)

    def _keep_free(self, prepared: Prepared) -> None:
        if prepared.decision.outcome == "scored":
            self._keep(*self._turns.read(prepared), taken_over=False)
        else:
            self._keep(prepared.ended(prepared.decision), Spent(), taken_over=False)

    def _keep(self, found: Evaluated, paid: Spent, *, taken_over: bool) -> None:
        if taken_over:
            self._report.taken_over += 1
            self._report.repeated_calls += paid.calls
        # A claim on the same turn may bear the same millisecond; the newest row has to be this.
        later = replace(found.decision, at=found.decision.at + timedelta(milliseconds=1))
        self._done.append(replace(found, decision=later))

    def _store_done(self, least: int) -> None:
        late = self._monotonic() - self._stored_at >= _STORE_EVERY_S
        if not self._done or (len(self._done) < least and not late):
            return
        self._stored_at = self._monotonic()
        done, self._done = self._done, []
        # Who decided is kept; a turn that merely waits is in nobody's hand.
        by = self._duty.member
        named = [d if d.decision.outcome == "pending" else replace(d, member=by) for d in done]
        self._wait_stored()
        self._storing = self._beside.submit(self._put, named)
        for found in done:
            self._report.outcomes[found.decision.outcome] += 1
            self._report.waiting += found.decision.outcome == "pending"

    def _put(self, named: Sequence[Evaluated]) -> None:
        self._turns.reader.flush()
        put_evaluated(self._store, named)

    def _wait_stored(self) -> None:
        """One group at a time is on its way to the store; raises what storing it raised."""
        if self._storing is not None:
            storing, self._storing = self._storing, None
            storing.result()

    def finish(self) -> None:
        """Wait for the turns with the judge and store everything."""
        while self._asked:
            self._collect()
        self._store_done(1)
        self._wait_stored()


def _is_settled(item: Item) -> bool:
    """True when the turn has a decision at its present revision already."""
    past = item.past
    return (
        past is not None and past.decision.outcome != "pending" and past.revision >= item.revision
    )
