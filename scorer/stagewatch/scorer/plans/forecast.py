"""What a run will take, said before it starts: calls, money, time. Pure; the guesses are named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stagewatch.core.model import DatasetRow
from stagewatch.scorer.plans.plan import Plan
from stagewatch.scorer.plans.selective import calls_of, tasks_of

APP_MS = 1000.0
"""How long the app is taken to answer while no earlier run tells."""
JUDGE_MS = {"embedded": 25.0, "openai": 1500.0}
"""How long one question to a judge is taken to last."""
PROMPT_TOKENS = 450
"""Instructions in one judge call (scorer/prompts), measured at four characters a token."""
REPLY_TOKENS = 120
PASSAGE_TOKENS = 800
"""Passages of a row that has no stored turn to measure."""
_CHARS_A_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Forecast:
    """A run's cost before it starts. `seconds` and `cost_usd` are estimates, calls upper bounds
    (a judge's reply that is stored already is used again).
    """

    rows: int
    app_calls: int
    judge_calls: int
    cost_usd: float
    seconds: float
    sentence: str


def forecast(
    plan: Plan,
    rows: Sequence[DatasetRow],
    *,
    judge: str,
    input_usd: float,
    output_usd: float,
    app_ms: float | None = None,
) -> Forecast:
    """What asking `rows` will take.

    Args:
        plan: which metrics, how many rows at a time.
        rows: the rows still to be asked.
        judge: `embedded` (free) or `openai`.
        input_usd: price of a million tokens read, US dollars.
        output_usd: price of a million tokens written, US dollars.
        app_ms: the app's median latency in an earlier run, milliseconds.
    """
    tasks = tasks_of(plan.measured)
    calls = [calls_of(row, tasks) for row in rows]
    total = sum(calls)
    tokens = sum(n * (PROMPT_TOKENS + _tokens(row)) for n, row in zip(calls, rows, strict=True))
    paid = judge == "openai"
    cost = (tokens * input_usd + total * REPLY_TOKENS * output_usd) / 1e6 if paid else 0.0
    latency = APP_MS if app_ms is None else app_ms
    each = total * JUDGE_MS.get(judge, JUDGE_MS["openai"])
    # The embedded judge works in this process, where threads do not help it.
    spread = plan.connector.concurrency
    seconds = (len(rows) * latency / spread + each / (spread if paid else 1)) / 1000
    assumed = " (taking 1 s an answer)" if app_ms is None else f" (at {app_ms:.0f} ms an answer)"
    money = f"about ${cost:.2f}" if paid else "no cost"
    return Forecast(
        rows=len(rows), app_calls=len(rows), judge_calls=total, cost_usd=cost, seconds=seconds,
        sentence=f"{len(rows)} rows, up to {total} questions to the {judge} judge, {money}, "
        f"about {_duration(seconds)}{assumed}",
    )  # fmt: skip


def _tokens(row: DatasetRow) -> int:
    texts = len(row.question) + sum(len(fact) for fact in row.expected_output)
    if row.turn is None:
        return texts // _CHARS_A_TOKEN + PASSAGE_TOKENS
    texts += len(row.turn.answer or "") + sum(len(chunk.content) for chunk in row.turn.window)
    return texts // _CHARS_A_TOKEN


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min"
