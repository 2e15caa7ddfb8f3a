"""What a run of a paid judge will cost, said before it starts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from stagewatch.core.model import Turn
from stagewatch.scorer.judges.asking import Price
from stagewatch.scorer.judges.openai import BATCH_CHARS
from stagewatch.scorer.judges.prompts import prompt
from stagewatch.scorer.metrics.relevance import same_text

CHARS_PER_TOKEN = 4
"""A rule of thumb for English; other languages take more tokens a character."""
_REPLY_TOKENS = {
    "faithfulness": 60,
    "statements": 15,
    "relevance": 12,
    "sufficiency": 8,
    "relevancy": 40,
    "rewrite": 60,
}
"""Tokens of a reply: an item for lists (a claim, a chunk), else the whole reply."""
_ASKED_FOR = {"statements": "faithfulness"}


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """Calls, tokens and US dollars for a number of turns, before caching; tokens are estimates."""

    turns: int
    calls: int
    input_tokens: int
    output_tokens: int
    usd: float


def estimate_cost(
    turns: Iterable[Turn],
    price: Price,
    *,
    judge_depth: int = 20,
    batch_chars: int = BATCH_CHARS,
    tasks: Collection[str] | None = None,
) -> CostEstimate:
    """Estimate what judging `turns` once costs: every task, every batch of a long context.

    Counts what would be sent, fenced texts and prompts, at four characters a token. Replies are
    guessed from the number of sentences and chunks. A judgement that is already stored costs
    nothing, so the bill may be lower. `tasks` are those asked for, None means all of them.
    """
    count = calls = read = written = 0
    for turn in turns:
        count += 1
        for task, material, items in _tasks(turn, judge_depth, batch_chars):
            # Further batches of an answer's window are read as statements.
            if tasks is not None and _ASKED_FOR.get(task, task) not in tasks:
                continue
            calls += 1
            read += (len(prompt("rules")) + len(prompt(task)) + material) // CHARS_PER_TOKEN
            written += _REPLY_TOKENS[task] * items
    return CostEstimate(count, calls, read, written, price.of(read, written))


def _tasks(turn: Turn, depth: int, batch_chars: int) -> list[tuple[str, int, int]]:
    """(task, characters sent, items in the reply) of every call one turn causes."""
    question, answer = len(turn.question or ""), turn.answer or ""
    window = [chunk.content for chunk in turn.window if chunk.content]
    lists = [chunk for item in turn.retrievals for chunk in item.chunks[:depth]]
    distinct = {same_text(chunk.content): chunk.content for chunk in (*lists, *turn.window)}
    tasks: list[tuple[str, int, int]] = []
    if question:
        for size, chunks in _batches(list(distinct.values()), batch_chars):
            tasks.append(("relevance", question + size, chunks))
        for size, _ in _batches(window, batch_chars):
            tasks.append(("sufficiency", question + size, 1))
    if answer.strip() and window:
        claims = max(1, answer.count(".") + answer.count("!"))
        for number, (size, _) in enumerate(_batches(window, batch_chars)):
            task = "statements" if number else "faithfulness"
            tasks.append((task, question + len(answer) + size, claims))
        tasks.append(("relevancy", question + len(answer), 1))
    if turn.rewritten_query:
        history = sum(len(message.content) for message in turn.history)
        tasks.append(("rewrite", history + question + len(turn.rewritten_query), 3))
    return tasks


_FENCE_CHARS = 70


def _batches(texts: Sequence[str], limit: int) -> list[tuple[int, int]]:
    """(characters with fences, chunks) of each batch, cut as the judge cuts them."""
    batches: list[tuple[int, int]] = []
    size = 0
    for text in texts:
        if not batches or size + len(text) > limit:
            batches.append((0, 0))
            size = 0
        total, chunks = batches[-1]
        batches[-1] = (total + len(text) + _FENCE_CHARS, chunks + 1)
        size += len(text)
    return batches
