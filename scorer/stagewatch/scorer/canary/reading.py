"""The judge reads the set afresh: what it once said of these texts must not be used again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from openai import OpenAIError

from stagewatch.core.clock import Clock
from stagewatch.core.errors import SettingsError
from stagewatch.core.settings import Settings
from stagewatch.core.store.client import Store
from stagewatch.scorer.canary.items import CanaryItem
from stagewatch.scorer.judges.asking import Price
from stagewatch.scorer.judges.choose import free_judge
from stagewatch.scorer.judges.fuse import Fuse
from stagewatch.scorer.judges.ledger import Judgement, Ledger
from stagewatch.scorer.judges.openai import OpenAIJudge, OpenAIOptions
from stagewatch.scorer.judges.protocol import Judge
from stagewatch.scorer.results import Unscored

_CONCURRENCY = 4


class AfreshLedger(Ledger):
    """Counts and pays calls, finds nothing, and keeps replies where no score looks for them."""

    def find(self, fingerprint: str, key: str) -> Judgement | None:  # noqa: ARG002
        """Nothing: the judge has to read."""
        return None

    def keep(self, fingerprint: str, key: str, judgement: Judgement) -> None:
        """Book the cost; the reply stands under a key of its own."""
        super().keep(fingerprint, f"{key}-canary", judgement)


@dataclass(frozen=True, slots=True)
class FreshJudge:
    """The configured judge without its memory; `over_budget` before every text."""

    judge: Judge
    over_budget: Callable[[], bool]
    threads: int


def fresh_judge(settings: Settings, store: Store, clock: Clock) -> FreshJudge:
    """The judge that the settings name.

    Raises:
        SettingsError: the openai judge is chosen and the library finds no key.
    """
    if settings.judge == "embedded":
        return FreshJudge(free_judge(settings), lambda: False, 1)
    ledger = AfreshLedger(store, settings.budget_usd_per_day, clock.now)
    options = OpenAIOptions(
        model=settings.judge_model,
        price=Price(settings.judge_input_usd, settings.judge_output_usd),
        concurrency=_CONCURRENCY,
    )
    try:
        # With a server that is away the rest of the set is not asked for, call by call.
        judge = OpenAIJudge(options, ledger, Fuse(clock.monotonic))
        return FreshJudge(judge, ledger.over_budget, _CONCURRENCY)
    except OpenAIError:
        raise SettingsError("STAGEWATCH_JUDGE=openai needs OPENAI_API_KEY") from None


@dataclass(frozen=True, slots=True)
class SetReading:
    """Shares by item: supported of its claims, and relevant of its passages. What could not be
    read is left out and counted in `unread` by reason.
    """

    faithfulness: dict[str, float] = field(default_factory=dict)
    chunk_relevance: dict[str, float] = field(default_factory=dict)
    unread: dict[str, int] = field(default_factory=dict)

    def of(self, kind: str) -> dict[str, float]:
        """The shares of one kind of label."""
        return self.faithfulness if kind == "faithfulness" else self.chunk_relevance


def read_set(
    fresh: FreshJudge, items: Sequence[CanaryItem], stopping: Callable[[], bool]
) -> SetReading:
    """The judge's word on every item; never raises for what the judge does."""

    def read(item: CanaryItem) -> tuple[str, float | Unscored, float | Unscored]:
        if stopping() or fresh.over_budget():
            gone = Unscored("over_budget", "stopped or out of budget")
            return item.item_id, gone, gone
        return item.item_id, _supported(fresh.judge, item), _relevant(fresh.judge, item)

    with ThreadPoolExecutor(fresh.threads, "canary") as pool:
        found = list(pool.map(read, items))
    reading = SetReading()
    for item_id, supported, relevant in found:
        for share, shares in (
            (supported, reading.faithfulness),
            (relevant, reading.chunk_relevance),
        ):
            if isinstance(share, Unscored):
                reading.unread[share.reason] = reading.unread.get(share.reason, 0) + 1
            else:
                shares[item_id] = share
    return reading


def _supported(judge: Judge, item: CanaryItem) -> float | Unscored:
    said = judge.faithfulness(item.question, item.answer, item.window)
    if isinstance(said, Unscored):
        return said
    if not said.claims:
        return 1.0
    return sum(claim.label == "SUPPORTED" for claim in said.claims) / len(said.claims)


def _relevant(judge: Judge, item: CanaryItem) -> float | Unscored:
    said = judge.relevance(item.question, item.window)
    if isinstance(said, Unscored):
        return said
    known = [mark for mark in said.marks if mark is not None]
    if not known:
        return Unscored("judge_incomplete", "no passage was marked")
    return sum(known) / len(known)
