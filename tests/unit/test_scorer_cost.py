"""The bill that is shown before a run of a paid judge."""

from __future__ import annotations

from dataclasses import replace

from tests.support.scorer_turns import turn

from stagewatch.scorer.cost import estimate_cost
from stagewatch.scorer.judges.asking import Price

PRICE = Price(2.0, 8.0)
ASKED = turn("How long is the warranty?", "It lasts 24 months. Ask us.", ["warranty", "hours"])


def test_each_task_of_a_turn_is_one_call() -> None:
    found = estimate_cost([ASKED], PRICE)
    assert (found.turns, found.calls) == (1, 4)
    assert found.usd == PRICE.of(found.input_tokens, found.output_tokens)
    rewritten = replace(ASKED, rewritten_query="warranty length")
    assert estimate_cost([rewritten], PRICE).calls == 5


def test_long_contexts_cost_a_call_a_batch() -> None:
    one = estimate_cost([ASKED], PRICE)
    many = estimate_cost([ASKED], PRICE, batch_chars=80)
    assert many.calls == one.calls + 3
    assert many.input_tokens > one.input_tokens


def test_the_bill_grows_with_the_turns_and_is_zero_for_none() -> None:
    one, three = estimate_cost([ASKED], PRICE), estimate_cost([ASKED] * 3, PRICE)
    assert (three.calls, three.input_tokens) == (3 * one.calls, 3 * one.input_tokens)
    assert estimate_cost([], PRICE).usd == 0.0


def test_a_turn_without_content_asks_nothing() -> None:
    bare = replace(ASKED, question=None, answer=None, window=(), retrievals=())
    assert estimate_cost([bare], PRICE).calls == 0
