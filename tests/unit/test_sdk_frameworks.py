"""Stand-ins for retrievers, rerankers and clients: same results, stages told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import httpx2
import openai
import pytest

from stagewatch import sdk
from stagewatch.sdk import semconv
from stagewatch.sdk.frameworks import watch_openai, watch_reranker, watch_retriever
from stagewatch.sdk.testing import Captured, capture


@pytest.fixture
def captured() -> Iterator[Captured]:
    with capture() as found:
        yield found


class LangChainDocument:
    def __init__(self, page_content: str, **metadata: Any) -> None:
        self.page_content = page_content
        self.metadata = metadata


class LangChainRetriever:
    name = "kb"

    def invoke(self, query: str, config: dict[str, Any] | None = None) -> list[LangChainDocument]:
        return [LangChainDocument(f"about {query}", id="a", score=0.5, source="kb/a.md")]

    async def ainvoke(self, query: str) -> list[LangChainDocument]:
        return self.invoke(query)

    def __or__(self, other: Any) -> tuple[Any, Any]:
        return (self, other)


async def test_a_langchain_retriever(captured: Captured) -> None:
    plain = LangChainRetriever()
    watched = watch_retriever(plain, source="kb")
    assert isinstance(watched, LangChainRetriever)
    assert watched.name == "kb"
    with sdk.turn("q"):
        (document,) = watched.invoke("refunds")
        await watched.ainvoke("refunds")
    assert isinstance(document, LangChainDocument)
    assert captured.turn().stages == ["retrieve", "retrieve"]
    first = captured.turn().documents[0]
    assert (first["id"], first["content"], first["score"]) == ("a", "about refunds", 0.5)
    assert first["document_id"] == "kb/a.md"
    assert (captured.spans[0].attributes or {})[semconv.RETRIEVAL_QUERY] == "refunds"
    assert (watched | "next")[0] is watched


class LlamaNode:
    def __init__(self, id_: str, text: str) -> None:
        self.id_ = id_
        self._text = text
        self.metadata = {"version": "v2"}

    @property
    def text(self) -> str:
        return self._text

    def get_content(self) -> str:
        raise AssertionError("nothing of the app's may be called")


def test_a_llamaindex_retriever_and_postprocessor(captured: Captured) -> None:
    def scored(score: float) -> SimpleNamespace:
        return SimpleNamespace(node=LlamaNode("n1", "text"), score=score)

    class Retriever:
        def retrieve(self, str_or_query_bundle: Any) -> list[SimpleNamespace]:
            return [scored(0.3)]

    class Postprocessor:
        def postprocess_nodes(self, nodes: Any, query_bundle: Any = None) -> Any:
            return [scored(0.9)]

    bundle = SimpleNamespace(query_str="refunds")
    with sdk.turn("q"):
        nodes = watch_retriever(Retriever()).retrieve(bundle)
        watch_reranker(Postprocessor(), model="r").postprocess_nodes(nodes, query_bundle=bundle)
    got = captured.turn()
    assert [(d["id"], d["content"], d["version"], d["score"]) for d in got.documents] == [
        ("n1", "text", "v2", 0.3)
    ]
    assert got.reranked[0]["score"] == 0.9
    rerank = captured.spans[1].attributes or {}
    assert rerank[semconv.RERANK_QUERY] == "refunds"
    assert rerank[semconv.RERANK_INPUT_IDS] == ("n1",)


def test_a_haystack_component(captured: Captured) -> None:
    class Component:
        def run(self, query: str, top_k: int = 10) -> dict[str, Any]:
            document = SimpleNamespace(id="h1", content="text", score=0.7, meta={"version": "v3"})
            return {"documents": [document]}

    with sdk.turn("q"):
        watch_retriever(Component()).run(query="refunds", top_k=4)
    (document,) = captured.turn().documents
    assert (document["id"], document["version"], document["score"]) == ("h1", "v3", 0.7)
    assert (captured.spans[0].attributes or {})[semconv.RETRIEVAL_TOP_K] == 4


def completion(stream: bool) -> httpx2.Response:
    base = {"id": "r1", "created": 1, "model": "gpt-x-2026"}
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
    if not stream:
        message = {"role": "assistant", "content": "thirty days"}
        choices: list[Any] = [{"index": 0, "finish_reason": "stop", "message": message}]
        body = {**base, "object": "chat.completion", "choices": choices, "usage": usage}
        return httpx2.Response(200, json=body)
    pieces: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}
        for text in ("thirty ", "days")
    ]
    pieces.append({"choices": [], "usage": usage})
    lines = [
        f"data: {json.dumps({**base, 'object': 'chat.completion.chunk', **piece})}\n\n"
        for piece in pieces
    ]
    return httpx2.Response(
        200,
        text="".join(lines) + "data: [DONE]\n\n",
        headers={"content-type": "text/event-stream"},
    )


def answer(request: httpx2.Request) -> httpx2.Response:
    return completion(bool(json.loads(request.content).get("stream")))


MESSAGES: Any = [{"role": "user", "content": "how long?"}]


def check_generate(captured: Captured) -> None:
    told = dict(captured.spans[0].attributes or {})
    assert captured.turn().answer == "thirty days"
    assert told[semconv.REQUEST_MODEL] == "gpt-x"
    assert told[semconv.RESPONSE_MODEL] == "gpt-x-2026"
    assert (told[semconv.INPUT_TOKENS], told[semconv.OUTPUT_TOKENS]) == (7, 2)
    assert json.loads(str(told[semconv.INPUT_MESSAGES]))[0]["parts"][0]["content"] == "how long?"


@pytest.mark.parametrize("stream", [False, True])
def test_the_openai_client(captured: Captured, stream: bool) -> None:
    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    client = watch_openai(openai.OpenAI(api_key="k", base_url="http://stand-in", http_client=http))
    with sdk.turn("how long?"):
        got: Any = client.chat.completions.create(model="gpt-x", messages=MESSAGES, stream=stream)
        if stream:
            assert isinstance(got, openai.Stream)
            assert len(list(got)) == 3
        else:
            assert got.choices[0].message.content == "thirty days"
    check_generate(captured)


@pytest.mark.parametrize("stream", [False, True])
async def test_the_async_openai_client(captured: Captured, stream: bool) -> None:
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as http:
        client = watch_openai(
            openai.AsyncOpenAI(api_key="k", base_url="http://stand-in", http_client=http)
        )
        with sdk.turn("how long?"):
            got: Any = await client.chat.completions.create(
                model="gpt-x", messages=MESSAGES, stream=stream
            )
            if stream:
                assert len([piece async for piece in got]) == 3
    check_generate(captured)


def test_what_has_no_known_method_comes_back_as_it_is() -> None:
    thing = object()
    assert watch_retriever(thing) is thing
    assert watch_reranker(thing) is thing
    assert watch_openai(thing) is thing
