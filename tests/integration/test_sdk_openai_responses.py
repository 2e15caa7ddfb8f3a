"""Raw and unread responses of the real openai client: read along, and the same without us."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from tests.support.sdk_openai_checks import check_answer, told
from tests.support.sdk_openai_server import (
    ANSWER,
    BREAKS_OFF,
    MODEL,
    PIECES,
    REFUSES,
    ZIPS,
    openai_server,
)

from stagewatch import sdk
from stagewatch.sdk import semconv
from stagewatch.sdk.frameworks import watch_openai
from stagewatch.sdk.testing import Captured, capture

QUESTION = "How long do I have?"
WAYS = ("with_raw_response", "with_streaming_response")
APIS = ("chat", "responses")
READERS = ("parse", "read", "text", "iter_bytes", "iter_text", "iter_lines")
# Events are no JSON document.
READINGS = [(reader, stream) for reader in READERS for stream in (False, True)] + [("json", False)]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with openai_server() as url:
        yield url


@pytest.fixture
def captured() -> Iterator[Captured]:
    with capture() as found:
        yield found


def made(address: str, kind: type[Any] = openai.OpenAI) -> Any:
    return kind(api_key="k", base_url=address, max_retries=0)


def opened(client: Any, way: str, api: str, *, model: str = "gpt-x", stream: bool = False) -> Any:
    """One call: a response, or what opens one."""
    options: dict[str, Any] = {"model": model, "stream": stream}
    if api == "responses":
        return getattr(client.responses, way).create(input=QUESTION, **options)
    if stream:
        options["stream_options"] = {"include_usage": True}
    messages = [{"role": "user", "content": QUESTION}]
    return getattr(client.chat.completions, way).create(messages=messages, **options)


def check(captured: Captured, *, model: str = "gpt-x") -> None:
    attributes = check_answer(captured, model)
    assert semconv.STREAM_CLOSED_EARLY not in attributes
    assert captured.turn().error is None


def plain(value: Any) -> Any:
    """What was read, comparable."""
    return value.model_dump() if hasattr(value, "model_dump") else value


def read(got: Any, reader: str) -> list[Any]:
    found = getattr(got, reader)()
    pieces = found if hasattr(found, "__next__") else [found]
    return [type(found).__name__, *[plain(piece) for piece in pieces]]


async def read_later(got: Any, reader: str) -> list[Any]:
    found = getattr(got, reader)()
    found = await found if hasattr(found, "__await__") else found
    if hasattr(found, "__anext__"):
        return [type(found).__name__, *[plain(piece) async for piece in found]]
    return [type(found).__name__, plain(found)]


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(("reader", "stream"), READINGS)
def test_whatever_is_read_of_an_unread_response(
    address: str, captured: Captured, api: str, reader: str, *, stream: bool
) -> None:
    with opened(made(address), WAYS[1], api, stream=stream) as got:
        alone = read(got, reader)
    client = watch_openai(made(address))
    with sdk.turn(QUESTION), opened(client, WAYS[1], api, stream=stream) as got:
        assert type(got) is openai.APIResponse
        assert read(got, reader) == alone
        assert got.is_closed
    check(captured)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(("reader", "stream"), READINGS)
async def test_whatever_is_awaited_of_an_unread_response(
    address: str, captured: Captured, api: str, reader: str, *, stream: bool
) -> None:
    bare = made(address, openai.AsyncOpenAI)
    async with bare, opened(bare, WAYS[1], api, stream=stream) as got:
        alone = await read_later(got, reader)
    async with watch_openai(made(address, openai.AsyncOpenAI)) as client:
        with sdk.turn(QUESTION):
            async with opened(client, WAYS[1], api, stream=stream) as got:
                assert type(got) is openai.AsyncAPIResponse
                assert await read_later(got, reader) == alone
                assert got.is_closed
    check(captured)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("stream", [False, True])
def test_raw_responses(address: str, captured: Captured, api: str, *, stream: bool) -> None:
    alone = read(opened(made(address), WAYS[0], api, stream=stream), "parse")
    with sdk.turn(QUESTION):
        got = opened(watch_openai(made(address)), WAYS[0], api, stream=stream)
        assert read(got, "parse") == alone
    check(captured)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("stream", [False, True])
async def test_raw_responses_awaited(
    address: str, captured: Captured, api: str, *, stream: bool
) -> None:
    async with watch_openai(made(address, openai.AsyncOpenAI)) as client:
        with sdk.turn(QUESTION):
            got = await opened(client, WAYS[0], api, stream=stream)
            await read_later(got, "parse")
    check(captured)


@pytest.mark.parametrize("way", WAYS)
def test_through_the_client_and_its_chat(address: str, captured: Captured, way: str) -> None:
    client = watch_openai(made(address))
    options: dict[str, Any] = {"model": "gpt-x", "messages": [{"role": "user", "content": "?"}]}
    for holder in (getattr(client, way).chat.completions, getattr(client.chat, way).completions):
        with sdk.turn(QUESTION):
            got = holder.create(**options)
            if way == WAYS[1]:
                with got as response:
                    response.read()
    assert [turn.answer for turn in captured.turns] == [ANSWER, ANSWER]


@pytest.mark.parametrize("way", WAYS)
def test_a_packed_body(address: str, captured: Captured, way: str) -> None:
    with sdk.turn(QUESTION):
        got = opened(watch_openai(made(address)), way, "chat", model=ZIPS)
        if way == WAYS[1]:
            with got as response:
                assert json.loads(response.read())["model"] == MODEL
    check(captured, model=ZIPS)


@pytest.mark.parametrize("reader", ["parse", "iter_lines"])
def test_a_body_that_breaks_off_raises_what_it_raises_without_us(
    address: str, captured: Captured, reader: str
) -> None:
    def readings(client: Any) -> tuple[list[Any], BaseException]:
        pieces = []
        with opened(client, WAYS[1], "chat", model=BREAKS_OFF, stream=True) as got:
            try:
                for piece in getattr(got, reader)():
                    pieces.append(plain(piece))  # noqa: PERF401 - what came before the error
            except Exception as error:  # noqa: BLE001 - whatever it is without us
                return pieces, error
        raise AssertionError("it did not break off")

    alone, bare = readings(made(address))
    with sdk.turn(QUESTION):
        got, error = readings(watch_openai(made(address)))
    assert got == alone
    assert (type(error), str(error)) == (type(bare), str(bare))
    attributes = told(captured)
    assert attributes[semconv.ERROR_TYPE] == "RemoteProtocolError"
    assert captured.turn().answer == "".join(PIECES[:2])


def test_a_stream_left_half_way_keeps_what_was_read(address: str, captured: Captured) -> None:
    with (
        sdk.turn(QUESTION),
        opened(watch_openai(made(address)), WAYS[1], "chat", stream=True) as got,
    ):
        lines = got.iter_lines()
        while PIECES[0] not in next(lines):
            pass
    assert got.is_closed
    assert told(captured)[semconv.STREAM_CLOSED_EARLY] is True
    assert (captured.turn().answer or "").startswith(PIECES[0])


def test_a_response_that_is_closed_unread_has_a_stage_and_no_answer(
    address: str, captured: Captured
) -> None:
    with sdk.turn(QUESTION), opened(watch_openai(made(address)), WAYS[1], "chat"):
        pass
    assert told(captured)[semconv.STREAM_CLOSED_EARLY] is True
    assert captured.turn().answer is None


def test_a_response_that_is_dropped_ends_its_stage_at_once(
    address: str, captured: Captured
) -> None:
    gc.disable()
    try:
        with sdk.turn(QUESTION):
            got = opened(watch_openai(made(address)), WAYS[0], "chat", stream=True)
            assert captured.spans == []
            # Not by the collector of cycles: the connection must be free as early as without us.
            del got
            assert len(captured.spans) == 1
    finally:
        gc.enable()
    assert told(captured)[semconv.STREAM_CLOSED_EARLY] is True


@pytest.mark.parametrize("way", WAYS)
def test_a_refused_call_raises_and_is_told(address: str, captured: Captured, way: str) -> None:
    client = watch_openai(made(address))
    with pytest.raises(openai.BadRequestError), sdk.turn(QUESTION):
        opened(client, way, "chat", model=REFUSES).__enter__()
    assert told(captured)[semconv.ERROR_TYPE] == "BadRequestError"


def test_nothing_is_asked_of_the_server_before_the_block_is_entered(
    address: str, captured: Captured
) -> None:
    with sdk.turn(QUESTION):
        opened(watch_openai(made(address)), WAYS[1], "chat")
    assert captured.turn().stages == []
