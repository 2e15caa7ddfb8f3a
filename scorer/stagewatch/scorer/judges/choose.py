"""The judge that the settings name, with the ledger that keeps and counts its calls."""

from __future__ import annotations

import functools
import logging
from dataclasses import dataclass

from openai import OpenAIError

from stagewatch.core.clock import Clock
from stagewatch.core.errors import SettingsError
from stagewatch.core.settings import Settings
from stagewatch.core.store.client import Store
from stagewatch.scorer.judges.asking import Price
from stagewatch.scorer.judges.embedded import EmbeddedJudge
from stagewatch.scorer.judges.fuse import Fuse
from stagewatch.scorer.judges.ledger import Ledger
from stagewatch.scorer.judges.openai import OpenAIJudge, OpenAIOptions
from stagewatch.scorer.judges.protocol import Judge
from stagewatch.scorer.judges.vectors import NoModelError, Vectors, load_vectors

log = logging.getLogger("stagewatch.scorer")


@dataclass(frozen=True, slots=True)
class Chosen:
    """A judge, how many turns may be with it at a time, and, when calls cost money, its ledger,
    price and, if one was asked for, fuse.
    """

    judge: Judge
    threads: int = 1
    ledger: Ledger | None = None
    price: Price | None = None
    fuse: Fuse | None = None


@functools.cache
def _local_vectors() -> Vectors | None:
    # Once a process: the model is 90 MB, and its files are hashed before they are used.
    try:
        return load_vectors()
    except NoModelError as error:
        log.warning("STAGEWATCH_VECTORS=local: words alone", extra={"why": str(error)})
        return None


def free_judge(settings: Settings) -> EmbeddedJudge:
    """The embedded judge, with sentence vectors where they are asked for and can be had.

    Which of the two it is stands in its fingerprint, so the scores never share a series.
    """
    return EmbeddedJudge(_local_vectors() if settings.vectors == "local" else None)


def choose(
    settings: Settings,
    store: Store,
    clock: Clock,
    *,
    concurrency: int = 4,
    fused: bool = False,
) -> Chosen:
    """The configured judge; the embedded one needs nothing. `concurrency` bounds paid calls.

    With `fused` nobody keeps asking a server that is away, and replies are stored behind the
    caller's back until it calls `ledger.flush`: for services that can wait.

    Raises:
        SettingsError: the openai judge is chosen and the library finds no key.
    """
    if settings.judge == "embedded":
        return Chosen(free_judge(settings))
    ledger = Ledger(
        store,
        settings.budget_usd_per_day,
        clock.now,
        budget_calls=settings.budget_calls_per_day or None,
        behind=fused,
    )
    fuse = Fuse(clock.monotonic) if fused else None
    price = Price(settings.judge_input_usd, settings.judge_output_usd)
    options = OpenAIOptions(model=settings.judge_model, price=price, concurrency=concurrency)
    try:
        judge = OpenAIJudge(options, ledger, fuse)
    except OpenAIError:
        raise SettingsError(
            "STAGEWATCH_JUDGE=openai needs OPENAI_API_KEY (any text for servers without keys) "
            "and, for other servers than the default, OPENAI_BASE_URL"
        ) from None
    # A quarter more turns than calls: while some are read here, the others keep the judge busy.
    threads = concurrency + concurrency // 4 if fused else concurrency
    return Chosen(judge, threads, ledger, price, fuse)


def judge_of(settings: Settings, store: Store, clock: Clock) -> Judge:
    """The configured judge alone; raises as `choose`."""
    return choose(settings, store, clock).judge
