"""What a user's type checker sees of the SDK: checked by mypy, and run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import assert_type

from stagewatch import sdk
from stagewatch.sdk.testing import Captured, CapturedTurn, capture


@sdk.retrieve
def search(query: str, top_k: int = 3) -> list[str]:
    return [query] * top_k


@sdk.retrieve(top_k=3)
async def search_async(query: str) -> list[str]:
    return [query]


@sdk.generate
def stream(question: str) -> Iterator[str]:
    yield question


@sdk.generate
async def stream_async(question: str) -> AsyncIterator[str]:
    yield question


@sdk.turn
def ask(question: str) -> int:
    return len(question)


@sdk.turn(conversation_id="c")
def ask_in(question: str) -> int:
    return len(question)


def test_decorated_functions_keep_their_types() -> None:
    with capture():
        assert_type(search("q", top_k=2), list[str])
        assert_type(ask("q"), int)
        assert_type(ask_in("q"), int)
        assert_type(list(stream("q")), list[str])
        assert_type(stream_async("q"), AsyncIterator[str])
        assert_type(sdk.carry(ask)("q"), int)


async def test_decorated_coroutines_keep_their_types() -> None:
    with capture():
        assert_type(await search_async("q"), list[str])


def test_steps_and_records_keep_their_types() -> None:
    with capture() as captured:
        assert_type(captured, Captured)
        with sdk.turn("q") as turn:
            assert_type(turn, sdk.Turn)
            assert_type(turn.record(3), int)
            assert_type(turn.trace_id, str)
            with sdk.retrieve("q") as step:
                assert_type(step, sdk.Retrieve)
                assert_type(step.record(["a"]), list[str])
            with sdk.generate("m") as call:
                assert_type(call, sdk.Generate)
        assert_type(captured.turn(), CapturedTurn)
    assert_type(sdk.current_trace_id(), str | None)
    sdk.feedback("ab" * 16, "meh")  # type: ignore[arg-type]  # not one of the kinds
