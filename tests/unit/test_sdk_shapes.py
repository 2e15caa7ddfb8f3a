"""What retrievers give back: every common shape read as what it is, and nothing as an empty list."""

from __future__ import annotations

import json
from collections import deque, namedtuple
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, NamedTuple

import pytest

from stagewatch import sdk
from stagewatch.sdk import Content, semconv
from stagewatch.sdk._documents import read_documents
from stagewatch.sdk.testing import Captured, capture

A = {"id": "a", "content": "warranty is two years"}
B = {"id": "b", "content": "refunds within 30 days"}


class Row(NamedTuple):
    id: str
    content: str


Scored = namedtuple("Scored", "id content score")
Pair = namedtuple("Pair", "document score")


@pytest.fixture
def captured() -> Iterator[Captured]:
    with capture() as found:
        yield found


@pytest.mark.parametrize(
    "result",
    [
        [("a", A["content"]), ("b", B["content"])],
        [(A["content"], "a"), (B["content"], "b")],
        [Row("a", A["content"]), Row("b", B["content"])],
        {"x": A, "y": B}.values(),
        deque([A, B]),
        {"ids": [["a", "b"]], "documents": [[A["content"], B["content"]]], "embeddings": None},
        {"ids": ["a", "b"], "documents": [A["content"], B["content"]], "metadatas": None},
        {"ids": [["a"], ["b"]], "documents": [[A["content"]], [B["content"]]]},
    ],
)
def test_shapes(result: Any) -> None:
    assert read_documents(result) == [A, B]


@pytest.mark.parametrize(
    "result",
    [
        [("a", "warranty is two years", 0.9), ("b", "refunds", 0.8)],
        [Scored("a", "warranty is two years", 0.9), Scored("b", "refunds", 0.8)],
        [Pair({"id": "a", "content": "warranty is two years"}, 0.9), ({"id": "b", "content": "refunds"}, 0.8)],
        {
            "ids": [["a", "b"]],
            "documents": [["warranty is two years", "refunds"]],
            "scores": [[0.9, 0.8]],
        },
    ],
)  # fmt: skip
def test_shapes_with_scores(result: Any) -> None:
    assert read_documents(result) == [
        {"id": "a", "content": "warranty is two years", "score": 0.9},
        {"id": "b", "content": "refunds", "score": 0.8},
    ]


def test_rows_of_a_database_and_chromas_distances() -> None:
    assert read_documents([(7, "some text"), (8, "more text", 0.5)]) == [
        {"id": "7", "content": "some text"},
        {"id": "8", "content": "more text", "score": 0.5},
    ]
    result = {
        "ids": [["a"]], "documents": [None], "distances": [[0.25]], "metadatas": [[{"k": 1}]],
    }  # fmt: skip
    assert read_documents(result) == [
        {"id": "a", "content": "", "score": 0.25, "score_kind": "distance", "metadata": {"k": 1}}
    ]


@pytest.mark.parametrize("result", [None, "text", 5, {"a": {"content": "x"}}, object()])
def test_what_holds_no_list_is_not_captured_rather_than_empty(
    captured: Captured, result: Any
) -> None:
    assert read_documents(result) is None
    with sdk.turn("q"), sdk.retrieve("q") as step:
        step.record(result)
    assert semconv.DOCUMENTS not in (captured.spans[0].attributes or {})


def test_an_empty_list_is_an_empty_list(captured: Captured) -> None:
    with sdk.turn("q"), sdk.retrieve("q") as step:
        step.record([])
    assert (captured.spans[0].attributes or {})[semconv.DOCUMENTS] == "[]"


@pytest.mark.parametrize(
    "make",
    [
        lambda: iter([A, B]),
        lambda: (d for d in [A, B]),
        lambda: map(dict, [A, B]),
        lambda: filter(None, [A, B]),
        lambda: iter([[A], [B]]),
    ],
    ids=["iterator", "generator", "map", "filter", "lists"],
)
@pytest.mark.parametrize("stage", [sdk.retrieve, sdk.rerank])
def test_documents_that_come_one_by_one_are_read_along(
    captured: Captured, stage: Callable[[str], Any], make: Callable[[], Iterator[Any]]
) -> None:
    with sdk.turn("q"), stage("q") as step:
        assert list(step.record(make())) == list(make())
    got = captured.turn()
    assert [d["id"] for d in (got.documents or got.reranked)] == ["a", "b"]


def test_zipped_scores(captured: Captured) -> None:
    with sdk.turn("q"), sdk.retrieve("q") as step:
        assert list(step.record(zip([A, B], [0.9, 0.1], strict=True))) == [(A, 0.9), (B, 0.1)]
    assert [(d["id"], d["score"]) for d in captured.turn().documents] == [("a", 0.9), ("b", 0.1)]


async def test_generators_that_retrieve(captured: Captured) -> None:
    @sdk.retrieve
    def find(query: str) -> Iterator[dict[str, str]]:
        yield A
        yield B

    @sdk.retrieve
    async def seek(query: str) -> AsyncIterator[dict[str, str]]:
        yield A
        yield B

    with sdk.turn("q"):
        assert list(find("q")) == [A, B]
        assert [item async for item in seek("q")] == [A, B]
        left = find("q")
        next(left)
        left.close()  # type: ignore[attr-defined]  # it is a generator
    spans = [json.loads(str((s.attributes or {})[semconv.DOCUMENTS])) for s in captured.spans[:3]]
    assert [[d["id"] for d in rows] for rows in spans] == [["a", "b"], ["a", "b"], ["a"]]


def test_a_stream_that_nobody_began_to_read_is_not_an_empty_list(captured: Captured) -> None:
    with sdk.turn("q"):
        with sdk.retrieve("q") as step:
            stream = step.record(iter([A]))
        del stream
    assert semconv.DOCUMENTS not in (captured.spans[0].attributes or {})


@pytest.mark.parametrize("capture_word", ["off", "hashed"])
def test_a_source_in_the_metadata_is_metadata(capture_word: Any) -> None:
    docs = [{"id": "1", "content": "x", "metadata": {"source": "/home/secret.pdf"}}]
    found = []
    for content in (Content(), Content(metadata=capture_word)):
        with capture(content=content) as captured, sdk.turn("q"), sdk.retrieve("q") as step:
            step.record(docs)
        found.append(captured.turn().documents[0])
    assert found[0]["document_id"] == "/home/secret.pdf"
    assert "secret" not in json.dumps(found[1])
    assert ("document_id" in found[1]) == (capture_word == "hashed")
