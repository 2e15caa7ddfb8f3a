"""A worker with a paid judge for one test's project, on days that no other test spends money on."""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support.scorer_openai_server import ScriptedServer
from tests.support.scorer_turns import turn

from stagewatch.core.clock import ManualClock
from stagewatch.core.model import Decision, Score, Turn
from stagewatch.core.store import Store
from stagewatch.core.store.scores import decisions_of
from stagewatch.core.store.turns import Share, put_turns
from stagewatch.scorer.budget import Limits
from stagewatch.scorer.judges.asking import Price
from stagewatch.scorer.judges.fuse import Fuse
from stagewatch.scorer.judges.ledger import Ledger
from stagewatch.scorer.judges.openai import OpenAIJudge, OpenAIOptions
from stagewatch.scorer.rules import Rule, RuleBook
from stagewatch.scorer.work import Worker
from stagewatch.scorer.work_hand import Duty
from stagewatch.scorer.work_one import Reader

QUESTION = "Within how many days can I return an item for a refund?"
ANSWER = "You can return any item within 30 days from delivery for a full refund."
WRONG = "Bananas are delivered by submarine every second Tuesday."
NAMES = ["refund", "shipping", "warranty"]


def a_day() -> datetime:
    """Noon of a day that is this test's own; judgements expire by the engine's clock, so later."""
    return datetime(2031, 1, 1, 12, tzinfo=UTC) + timedelta(
        days=random.SystemRandom().randrange(20_000)
    )


@dataclass
class PaidBench:
    """The pieces of a scorer with the scripted judge."""

    store: Store
    project: str
    server: ScriptedServer
    model: str = field(default_factory=lambda: f"good-{uuid.uuid4().hex}")
    price: Price = Price(1000.0, 1000.0)
    clock: ManualClock = field(default_factory=lambda: ManualClock(a_day()))

    def ledger(self, usd: float = 1e9, calls: int | None = None) -> Ledger:
        return Ledger(self.store, usd, self.clock.now, budget_calls=calls, behind=True)

    def reader(self, ledger: Ledger | None = None, **more: Any) -> Reader:
        kept = ledger or self.ledger()
        fuse = Fuse(self.clock.monotonic)
        options = OpenAIOptions(
            model=self.model, api_key="k", base_url=self.server.base_url, retries=0,
            timeout_s=20.0, concurrency=8, price=self.price,
        )  # fmt: skip
        judge = OpenAIJudge(options, kept, fuse)
        return replace(
            Reader(judge, self.price, kept.budget, fuse, kept.flush, first_pass=True), **more
        )

    def worker(
        self,
        *rules: Rule,
        reader: Reader | None = None,
        threads: int = 1,
        member: str = "me",
        share: Share | None = None,
        leftover_days: int = 0,
    ) -> Worker:
        book = RuleBook((), {self.project: rules or (Rule(name="sample"),)})
        duty = Duty(
            timedelta(days=1), book=lambda: book, threads=threads, member=member,
            share=lambda: share or Share(), leftover_days=leftover_days,
        )  # fmt: skip
        return Worker(self.store, reader or self.reader(), self.clock, duty)

    def turn(self, name: str, answer: str = ANSWER, **more: Any) -> Turn:
        item = turn(
            f"{QUESTION} {self.project} {name}", answer, NAMES,
            project=self.project, turn_id=f"{self.project}{name}-s",
        )  # fmt: skip
        started = self.clock.now() - timedelta(minutes=1)
        return replace(item, **{"started_at": started, **more})

    def put(self, *turns: Turn, revision: int = 1) -> list[Turn]:
        put_turns(self.store, turns, assembled_at=self.clock.now(), revision=revision)
        return list(turns)

    def decisions(self, turns: list[Turn]) -> dict[str, Decision]:
        return decisions_of(self.store, [item.turn_id for item in turns])

    def outcomes(self, turns: list[Turn]) -> list[str]:
        found = self.decisions(turns)
        return [found[t.turn_id].outcome if t.turn_id in found else "undecided" for t in turns]

    def rows(self, item: Turn) -> list[dict[str, Any]]:
        """Every stored score of a turn, one a (metric, fingerprint)."""
        return self.store.rows(
            """SELECT metric, fingerprint, basis, inclusion, stratum, value, status FROM scores FINAL
               WHERE turn_id = {id:String} ORDER BY metric, fingerprint""",
            {"id": item.turn_id},
        )


def by_metric(scores: list[Score]) -> dict[str, Score]:
    return {score.metric: score for score in scores}


__all__ = ["ANSWER", "QUESTION", "WRONG", "Limits", "PaidBench", "a_day", "by_metric"]
