"""The judge that the settings name, with the ledger that keeps and counts its calls."""

from __future__ import annotations

from dataclasses import dataclass

from openai import OpenAIError

from stagewatch.core.clock import Clock
from stagewatch.core.errors import SettingsError
from stagewatch.core.settings import Settings
from stagewatch.core.store.client import Store
from stagewatch.scorer.judges.asking import Price
from stagewatch.scorer.judges.embedded import EmbeddedJudge
from stagewatch.scorer.judges.ledger import Ledger
from stagewatch.scorer.judges.openai import OpenAIJudge, OpenAIOptions
from stagewatch.scorer.judges.protocol import Judge


@dataclass(frozen=True, slots=True)
class Chosen:
    """A judge, how many turns may be with it at a time, and its ledger when calls cost money."""

    judge: Judge
    threads: int = 1
    ledger: Ledger | None = None


def choose(settings: Settings, store: Store, clock: Clock, *, concurrency: int = 4) -> Chosen:
    """The configured judge; the embedded one needs nothing. `concurrency` bounds paid calls.

    Raises:
        SettingsError: the openai judge is chosen and the library finds no key.
    """
    if settings.judge == "embedded":
        return Chosen(EmbeddedJudge())
    ledger = Ledger(store, settings.budget_usd_per_day, clock.now)
    price = Price(settings.judge_input_usd, settings.judge_output_usd)
    options = OpenAIOptions(model=settings.judge_model, price=price, concurrency=concurrency)
    try:
        judge = OpenAIJudge(options, ledger)
    except OpenAIError:
        raise SettingsError(
            "STAGEWATCH_JUDGE=openai needs OPENAI_API_KEY (any text for servers without keys) "
            "and, for other servers than the default, OPENAI_BASE_URL"
        ) from None
    return Chosen(judge, judge.concurrency, ledger)


def judge_of(settings: Settings, store: Store, clock: Clock) -> Judge:
    """The configured judge alone; raises as `choose`."""
    return choose(settings, store, clock).judge
