"""The real openai client, watched, against a server that is scripted: both APIs, sync and async."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from tests.support.sdk_openai_checks import check_answer, told
from tests.support.sdk_openai_server import (
    ANSWER,
    BREAKS_OFF,
    PIECES,
    REFUSES,
    openai_server,
)

from stagewatch import sdk
from stagewatch.sdk import semconv
from stagewatch.sdk.frameworks import watch_openai
from stagewatch.sdk.testing import Captured, capture

QUESTION = "How long do I have?"
MESSAGES: Any = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION}]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with openai_server() as url:
        yield url


@pytest.fixture
def captured() -> Iterator[Captured]:
    with capture() as found:
        yield found


def call(client: Any, api: str, **options: Any) -> Any:
    """One call of one of the APIs; a coroutine for an async client."""
    if api == "chat":
        return client.chat.completions.create(messages=MESSAGES, **options)
    return client.responses.create(input=MESSAGES, **options)


def usage_wanted(api: str) -> dict[str, Any]:
    return {"stream_options": {"include_usage": True}} if api == "chat" else {}


def text_of(pieces: list[Any]) -> str:
    found = []
    for piece in pieces:
        if hasattr(piece, "choices"):
            found += [choice.delta.content or "" for choice in piece.choices]
        elif piece.type == "response.output_text.delta":
            found.append(piece.delta)
    return "".join(found)


def check(captured: Captured, *, model: str = "gpt-x") -> None:
    attributes = check_answer(captured, model)
    rows = json.loads(attributes[semconv.INPUT_MESSAGES])
    assert [(row["role"], row["parts"][0]["content"]) for row in rows] == [
        ("system", "Be brief."),
        ("user", QUESTION),
    ]


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_whole_answers(address: str, captured: Captured, api: str) -> None:
    with watch_openai(openai.OpenAI(api_key="k", base_url=address)) as client, sdk.turn(QUESTION):
        got = call(client, api, model="gpt-x")
    assert (got.choices[0].message.content if api == "chat" else got.output_text) == ANSWER
    check(captured)


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_streamed_answers(address: str, captured: Captured, api: str) -> None:
    plain = openai.OpenAI(api_key="k", base_url=address)
    alone = text_of(list(call(plain, api, model="gpt-x", stream=True, **usage_wanted(api))))
    with watch_openai(plain) as client, sdk.turn(QUESTION):
        stream = call(client, api, model="gpt-x", stream=True, **usage_wanted(api))
        assert isinstance(stream, openai.Stream)
        assert text_of(list(stream)) == alone == ANSWER
    check(captured)


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_async_streams(address: str, captured: Captured, api: str) -> None:
    async with watch_openai(openai.AsyncOpenAI(api_key="k", base_url=address)) as client:
        with sdk.turn(QUESTION):
            stream = await call(client, api, model="gpt-x", stream=True, **usage_wanted(api))
            async with stream:
                assert text_of([piece async for piece in stream]) == ANSWER
    check(captured)


def test_a_stream_that_breaks_off_raises_what_it_raises_without_us(
    address: str, captured: Captured
) -> None:
    plain = openai.OpenAI(api_key="k", base_url=address, max_retries=0)
    with plain, pytest.raises(Exception) as bare:
        list(call(plain, "chat", model=BREAKS_OFF, stream=True))
    read: list[Any] = []
    with (
        watch_openai(openai.OpenAI(api_key="k", base_url=address, max_retries=0)) as client,
        pytest.raises(bare.type),
        sdk.turn(QUESTION),
    ):
        read += call(client, "chat", model=BREAKS_OFF, stream=True)
    attributes = told(captured)
    assert captured.turn().error == bare.type.__qualname__
    assert attributes[semconv.ERROR_TYPE] == bare.type.__qualname__
    answer = json.loads(attributes[semconv.OUTPUT_MESSAGES])[0]["parts"][0]["content"]
    assert answer == "".join(PIECES[:2])


def test_a_stream_left_half_way_keeps_what_was_read(address: str, captured: Captured) -> None:
    with (
        watch_openai(openai.OpenAI(api_key="k", base_url=address)) as client,
        sdk.turn(QUESTION),
        call(client, "chat", model="gpt-x", stream=True) as stream,
    ):
        assert text_of([next(stream)]) == PIECES[0]
    assert told(captured)[semconv.STREAM_CLOSED_EARLY] is True
    assert captured.turn().answer == PIECES[0]


def test_a_refused_call_raises_and_is_told(address: str, captured: Captured) -> None:
    with (
        watch_openai(openai.OpenAI(api_key="k", base_url=address)) as client,
        pytest.raises(openai.BadRequestError),
        sdk.turn(QUESTION),
    ):
        call(client, "chat", model=REFUSES)
    assert told(captured)[semconv.ERROR_TYPE] == "BadRequestError"
    assert captured.turn().answer is None


def test_copies_of_the_client_and_parsed_answers(address: str, captured: Captured) -> None:
    with watch_openai(openai.OpenAI(api_key="k", base_url=address)) as client, sdk.turn(QUESTION):
        patient = client.with_options(timeout=30)
        assert patient.timeout == 30
        got = patient.chat.completions.parse(model="gpt-x", messages=MESSAGES)
    assert got.choices[0].message.content == ANSWER
    check(captured)


def test_the_streaming_helper(address: str, captured: Captured) -> None:
    with watch_openai(openai.OpenAI(api_key="k", base_url=address)) as client, sdk.turn(QUESTION):
        options: Any = {"model": "gpt-x", "messages": MESSAGES, **usage_wanted("chat")}
        with client.chat.completions.stream(**options) as stream:
            told_pieces = [event.delta for event in stream if event.type == "content.delta"]
    assert "".join(told_pieces) == ANSWER
    check(captured)


def test_beta_and_watching_twice(address: str, captured: Captured) -> None:
    plain = openai.OpenAI(api_key="k", base_url=address)
    with watch_openai(watch_openai(plain)) as client, sdk.turn(QUESTION):
        client.beta.chat.completions.parse(model="gpt-x", messages=MESSAGES)
    check(captured)
