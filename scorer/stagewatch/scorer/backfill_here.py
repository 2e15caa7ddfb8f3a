"""A backfill carried out by the process that asked for it, where no server runs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from stagewatch.core.service import Context
from stagewatch.scorer.backfill_run import BackfillRunner
from stagewatch.scorer.judges.choose import choose
from stagewatch.scorer.leases import Membership, living
from stagewatch.scorer.rules_store import book_source
from stagewatch.scorer.service import reader_of
from stagewatch.scorer.work_hand import Duty


def work_here(context: Context, told: Callable[[], None]) -> bool:
    """Work on the store's backfills until they end or have to wait; `told` after every page.

    False, and nothing is done, where a scorer is alive that does it.

    Raises:
        SettingsError: the configured judge cannot be used (no key).
        StoreError: the store failed; the job goes on from its mark the next time.
    """
    if not context.store.embedded and living(context.store):
        return False
    settings = context.settings
    chosen = choose(
        settings, context.store, context.clock, concurrency=settings.judge_concurrency, fused=True
    )
    member = Membership(context.store, context.clock.monotonic)
    duty = Duty(
        lookback=timedelta(0), book=book_source(context.store, settings), threads=chosen.threads,
        member=member.name,
    )  # fmt: skip
    reader = reader_of(settings, chosen)
    runner = BackfillRunner(context.store, context.clock, reader, duty, settings.judge)

    def never() -> bool:
        if reader.budget is not None:
            reader.budget.refresh()
        member.beat(
            {"judge": settings.judge, "state": "backfill", "why": "", "threads": chosen.threads}
        )
        told()
        return False

    try:
        runner.work(never)
    finally:
        told()
        member.leave()
    return True
