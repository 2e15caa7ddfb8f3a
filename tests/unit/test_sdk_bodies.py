"""An answer in the bytes of an HTTP response, however they are cut, packed or broken off."""

from __future__ import annotations

import gzip
import json
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stagewatch.sdk import _bodies
from stagewatch.sdk._bodies import Body, unread_response

PIECES = ("Grüße, ", "dreißig\n", "Tage 🎉")
WHOLE = {"model": "m", "choices": [{"message": {"content": "".join(PIECES)}}]}
EVENTS = [{"model": "m", "choices": [{"delta": {"content": piece}}]} for piece in PIECES]
JSON = json.dumps(WHOLE, ensure_ascii=False).encode()
STREAM = "text/event-stream; charset=utf-8"


def events(end: str = "\n", *, done: bool = True) -> bytes:
    texts = [f": note{end}event: x{end}data: {json.dumps(e, ensure_ascii=False)}" for e in EVENTS]
    texts += ["data: [DONE]"] if done else []
    return "".join(text + end + end for text in texts).encode()


def body(kind: str, encoding: str = "", *, cap: int = 1_000) -> Body:
    headers = {"content-type": kind, **({"content-encoding": encoding} if encoding else {})}
    return Body(cap, httpx.Response(200, headers=headers))


def fed(found: Body, data: bytes, cuts: list[int]) -> Body:
    at = 0
    for cut in [*sorted(cuts), len(data)]:
        found.add(data[at:cut])
        at = max(at, cut)
    return found


@given(st.lists(st.integers(0, len(events("\r\n")))), st.sampled_from(["\n", "\r\n"]))
def test_events_cut_anywhere(cuts: list[int], end: str) -> None:
    found = fed(body(STREAM), events(end), cuts)
    reply = found.reply()
    assert (reply.text, reply.model) == ("".join(PIECES), "m")
    assert found.complete


@given(st.lists(st.integers(0, len(JSON))))
def test_a_document_cut_anywhere(cuts: list[int]) -> None:
    reply = fed(body("application/json"), JSON, cuts).reply()
    assert (reply.text, reply.model) == ("".join(PIECES), "m")


@pytest.mark.parametrize("encoding", ["gzip", "GZip"])
def test_packed_bodies(encoding: str) -> None:
    for kind, data in ((STREAM, events()), ("application/json", JSON)):
        reply = fed(body(kind, encoding), gzip.compress(data), [5, 50]).reply()
        assert reply.text == "".join(PIECES)


@pytest.mark.parametrize("encoding", ["gzip", "br", "made-up"])
@pytest.mark.parametrize("kind", [STREAM, "application/json", ""])
def test_what_cannot_be_unpacked_says_nothing(kind: str, encoding: str) -> None:
    found = fed(body(kind, encoding), b"\x1f\x8b\x08 no such thing", [])
    assert found.reply().text is None


def test_the_last_event_counts_without_an_empty_line_after_it() -> None:
    data = events(done=False).rstrip(b"\n")
    found = fed(body(STREAM), data, [])
    assert found.reply().text == "".join(PIECES)
    assert not found.complete


def test_data_on_several_lines_is_one_event() -> None:
    data = b'data: {"model": "m",\ndata: "choices": [{"delta": {"content": "a"}}]}\n\n'
    assert fed(body(STREAM), data, []).reply().text == "a"


def test_a_long_answer_is_counted_beyond_the_cap() -> None:
    found = fed(body(STREAM, cap=5), events(), [])
    reply = found.reply()
    assert reply.length == len("".join(PIECES))
    assert len(reply.text or "") < reply.length


@pytest.mark.parametrize("kind", [STREAM, "application/json"])
def test_more_than_is_worth_keeping_is_no_answer(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_bodies, "_MAX_HELD", 100)
    found = body(kind)
    found.add(events() if kind is STREAM else b"")
    found.add(b'data: {"model": "' + b"x" * 200)
    held = len(found._held)
    found.add(b"y" * 50)
    assert len(found._held) == held
    assert found.reply().text is None


def test_only_an_unread_response_is_to_be_read_along() -> None:
    def holding(response: Any) -> Any:
        return unread_response(SimpleNamespace(http_response=response))

    unread = httpx.Response(200, stream=httpx.ByteStream(b"x"))
    assert holding(unread) is unread
    unread.read()
    assert holding(unread) is None
    for other in (None, "text", SimpleNamespace(), SimpleNamespace(headers={})):
        assert holding(other) is None
    assert unread_response(None) is None
