"""Real captures sent to a real server the awkward way: content before or after its span, spans one
by one, children before their parents.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.request import Request, urlopen

import pytest
from tests.support.assemble_decode import GOLDEN
from tests.support.server import Server, serving, until

pytestmark = pytest.mark.integration


def bodies(capture: str) -> list[tuple[str, bytes]]:
    """(path, body) of each request of a capture, in the order sent."""
    folder = GOLDEN / capture
    listed = json.loads((folder / "requests.json").read_text())
    return [(row["path"], (folder / row["file"]).read_bytes()) for row in listed]


def post(server: Server, path: str, body: bytes) -> None:
    request = Request(server.otlp_http + path, data=body, method="POST")
    request.add_header("content-type", "application/x-protobuf")
    with urlopen(request, timeout=30) as answer:
        assert answer.status == 200


def expected(capture: str) -> list[dict[str, Any]]:
    turns: list[dict[str, Any]] = json.loads((GOLDEN / capture / "expected.json").read_text())[
        "turns"
    ]
    return turns


def renamed(
    sent: list[tuple[str, bytes]], wanted: list[dict[str, Any]]
) -> tuple[list[tuple[str, bytes]], list[dict[str, Any]]]:
    """The same under other trace ids, for a server that has seen these."""
    for turn in wanted:
        (old,) = turn["trace_ids"]
        new = old[::-1]
        pair = bytes.fromhex(old), bytes.fromhex(new)
        sent = [(path, body.replace(*pair)) for path, body in sent]
        turn["trace_ids"] = [new]
    return sent, wanted


def told_of(server: Server, wanted: list[dict[str, Any]]) -> list[dict[str, Any]]:
    traces = {trace for turn in wanted for trace in turn["trace_ids"]}
    return [turn for turn in server.turns(0) if turn["trace_id"] in traces]


def turn_of(server: Server, turn: dict[str, Any], *fields: str) -> dict[str, Any]:
    """The stored turn of an expected one, once all these fields of it are there."""

    def ask() -> dict[str, Any] | None:
        found = told_of(server, [turn])
        told: dict[str, Any] | None = server.get(f"/turns/{found[0]['turn_id']}") if found else None
        return told if told and all(told[field] for field in fields) else None

    return until(f"a turn with {', '.join(fields) or 'anything'}", ask)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("arrival") / "data") as started:
        yield started


@pytest.mark.parametrize("first", ["/v1/traces", "/v1/logs"])
def test_messages_on_the_other_signal_reach_their_turn(first: str, server: Server) -> None:
    capture = "otel-genai-openai-events"
    sent = sorted(bodies(capture), key=lambda request: request[0] != first)
    wanted = expected(capture)
    if first == "/v1/logs":
        sent, wanted = renamed(sent, wanted)
    (early, late) = sent
    post(server, *early)
    if first == "/v1/traces":
        # The turns are there before their words are.
        for turn in wanted:
            told = turn_of(server, turn)
            assert told["answer"] is None
            assert {"field": "answer", "why": "not_captured"} in told["missing"]
    post(server, *late)
    for turn in wanted:
        told = turn_of(server, turn, "answer", "window")
        assert (told["question"], told["answer"]) == (turn["user_question"], turn["answer"])
        assert [c["chunk_id"] for c in told["window"]] == turn["passed_to_model"]
    assert len(told_of(server, wanted)) == len(wanted)


def test_spans_one_by_one_and_children_first_make_whole_turns(server: Server) -> None:
    capture = "openinference-openai-split-export"
    wanted = expected(capture)
    for path, body in bodies(capture):
        post(server, path, body)
    for turn in wanted:
        told = turn_of(server, turn, "question", "retrievals", "reranked")
        assert (told["question"], told["answer"]) == (turn["user_question"], turn["answer"])
        chunks = told["retrievals"][0]["chunks"]
        assert [c["chunk_id"] for c in chunks] == [row["id"] for row in turn["retrieved"]]
        tokens = turn["tokens"]["input"] + (turn["rewrite_tokens"] or {"input": 0})["input"]
        assert told["usage"]["input_tokens"] == tokens
    assert len(told_of(server, wanted)) == len(wanted)
