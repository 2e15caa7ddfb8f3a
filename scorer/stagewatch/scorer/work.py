"""One pass of the scorer over the store: new and changed turns, then what people flagged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta

from stagewatch.core.clock import Clock
from stagewatch.core.model import Turn
from stagewatch.core.store.client import Store
from stagewatch.core.store.feedback import rescore_on_demand
from stagewatch.core.store.revisions import newest_revisions
from stagewatch.core.store.turns import (
    Pending,
    Share,
    oldest_undecided,
    release_counts,
    undecided_turns,
)
from stagewatch.scorer.leftovers import Leftovers
from stagewatch.scorer.rules import RuleBook
from stagewatch.scorer.sampling import position
from stagewatch.scorer.work_hand import BATCH, Duty, Hand, PassReport
from stagewatch.scorer.work_one import Reader, TurnReader

_FLAG_HORIZON = timedelta(days=30)
_RELEASE_WINDOW = timedelta(hours=24)
_LATE_PAGE = 10
_OVERLAP = timedelta(minutes=10)
"""How far a pass looks back behind the last one: clocks of collectors may lag."""


class Worker:
    """Keeps what must outlive a pass: where the last one ended, and which turns failed before."""

    def __init__(self, store: Store, reader: Reader, clock: Clock, duty: Duty) -> None:
        self._store = store
        self._reader = reader
        self._turns = TurnReader(reader, clock.now)
        self._clock = clock
        self._duty = duty
        self._leftovers = Leftovers(
            store, clock, duty.leftover_days, reader.price, reader.budget,
            reader.config.judge_depth,
        )  # fmt: skip
        self._seen_until: datetime | None = None
        self._last_share: Share | None = None
        # Pages are fetched and results stored while turns are read: the engine has threads enough.
        self._beside = ThreadPoolExecutor(2, thread_name_prefix="score-store")
        self._pool = (
            ThreadPoolExecutor(duty.threads, thread_name_prefix="judge")
            if duty.threads > 1
            else None
        )

    @property
    def turns(self) -> TurnReader:
        """Reads single turns the same way, for backfills."""
        return self._turns

    def close(self) -> None:
        """End the threads that wait for the judge and the store."""
        self._beside.shutdown(wait=False)
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def run_pass(self, stopping: Callable[[], bool] = lambda: False) -> PassReport:
        """Decide and score everything that waits, page by page, until nothing waits or `stopping`.

        Raises:
            StoreError: the store failed; decisions are written last, so nothing is lost.
        """
        report = PassReport()
        started = self._clock.now()
        share = self._duty.share()
        if share is None:
            return report
        if share != self._last_share:
            # Turns that were another scorer's may lie before the watermark.
            self._seen_until, self._last_share = None, share
        hand = Hand(
            self._store, self._turns, self._duty, self._pool, self._beside, report, stopping,
            self._clock.monotonic,
        )  # fmt: skip
        hand.share = share
        hand.book = self._duty.book()
        hand.releases = self._releases(hand.book, started)
        self._refresh_budget(share)
        if self._reader.fuse is not None:
            share = replace(share, fresh=self._reader.fuse.outage() is not None)
        for page in self._pages(started, share, report):
            if self._duty.share() != self._last_share:
                # Another scorer has come or gone: this page may be its own now.
                self._last_share = None
                break
            hand.take(page)
            if stopping():
                break
        # Stored first, so that a flagged turn read just now is not demanded again.
        hand.finish()
        hand.take(self._demanded(started, share) if not stopping() else [], demanded=True)
        hand.finish()
        if share.index == 0 and not (stopping() or report.waiting or share.fresh):
            self._read_leftovers(hand, share)
        report.errors.update(self._turns.failures.take_errors())
        if not (stopping() or report.waiting or share.fresh):
            # Turns that wait for another try must stay within reach of the next pass.
            self._seen_until = started - _OVERLAP
        return report

    def _read_leftovers(self, hand: Hand, share: Share) -> None:
        """A page of a day before, so that turns that come meanwhile are not kept waiting."""

        def take(page: list[tuple[Turn, int]]) -> None:
            hand.take(page, demanded=True)
            hand.finish()

        self._refresh_budget(share)
        self._leftovers.read(hand.book, max(_LATE_PAGE, 2 * self._duty.threads), take)

    def _refresh_budget(self, share: Share) -> None:
        if self._reader.budget is not None:
            self._reader.budget.refresh(share.count)

    def _releases(self, book: RuleBook, now: datetime) -> dict[tuple[str, str], int]:
        everything = [*book.common, *(rule for rules in book.own.values() for rule in rules)]
        if not any(rule.rare_rate is not None for rule in everything):
            return {}
        return release_counts(self._store, now - _RELEASE_WINDOW)

    def _since(self, now: datetime) -> datetime:
        if self._seen_until is not None:
            return self._seen_until
        oldest = oldest_undecided(self._store)
        usual = now - self._duty.lookback
        return usual if oldest is None else min(usual, oldest - _OVERLAP)

    def _pages(
        self, now: datetime, share: Share, report: PassReport
    ) -> Iterator[list[tuple[Turn, int]]]:
        since = self._since(now)

        def fetch(after: tuple[datetime, str] | None) -> list[Pending]:
            return undecided_turns(
                self._store, assembled_after=since, limit=BATCH, now=now, share=share, after=after
            )

        found = fetch(None)
        if found:
            report.lag_s = max(0.0, (now - found[0].assembled_at).total_seconds())
        while found:
            self._refresh_budget(share)
            last = (found[-1].assembled_at, found[-1].turn.turn_id)
            more = self._beside.submit(fetch, last) if len(found) == BATCH else None
            yield [(pending.turn, pending.revision) for pending in found]
            found = more.result() if more is not None else []

    def _demanded(self, now: datetime, share: Share) -> list[tuple[Turn, int]]:
        ids = rescore_on_demand(self._store, since=now - _FLAG_HORIZON, limit=BATCH)
        mine = [i for i in ids if int(position(i) * share.count) == share.index]
        return newest_revisions(self._store, mine) if mine else []
