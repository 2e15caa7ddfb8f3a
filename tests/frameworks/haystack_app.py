"""A RAG app on Haystack, with watched components or plain ones.

Usage: python haystack_app.py [watched]. Prints what the app itself got, and what was told of it.
"""

from __future__ import annotations

import asyncio
from typing import Any

from common import KB, QUESTION, Watching, main
from haystack import Document, Pipeline, component
from haystack.components.builders import PromptBuilder
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.dataclasses import ChatMessage
from haystack.document_stores.in_memory import InMemoryDocumentStore

from stagewatch import sdk

TEMPLATE = "{% for d in documents %}{{ d.content }} {% endfor %}{{ query }}"


@component
class Backwards:
    """Puts the last first."""

    @component.output_types(documents=list[Document])
    def run(self, query: str, documents: list[Document], top_k: int = 10) -> dict[str, Any]:
        return {"documents": list(reversed(documents))[:top_k]}


@component
class Generator:
    """Answers without a model."""

    @component.output_types(replies=list[ChatMessage])
    def run(self, prompt: str) -> dict[str, Any]:
        meta = {"model": "fake-1", "usage": {"prompt_tokens": 7, "completion_tokens": 3}}
        return {"replies": [ChatMessage.from_assistant("Within thirty days.", meta=meta)]}


def pipeline(watch: Watching, store: InMemoryDocumentStore) -> Any:
    made = Pipeline()
    made.add_component(
        "retriever", watch.retriever(InMemoryBM25Retriever(store, top_k=2), score_kind="bm25")
    )
    made.add_component("ranker", watch.reranker(Backwards(), model="backwards"))
    made.add_component("prompt", PromptBuilder(TEMPLATE, required_variables="*"))
    made.add_component("generator", Generator())
    made.connect("retriever.documents", "ranker.documents")
    made.connect("ranker.documents", "prompt.documents")
    made.connect("prompt.prompt", "generator.prompt")
    return made


def run(watch: Watching) -> dict[str, Any]:
    store = InMemoryDocumentStore()
    store.write_documents(
        [Document(id=row["id"], content=row["text"], meta={"source": row["source"]}) for row in KB]
    )
    asked = {
        "retriever": {"query": QUESTION},
        "ranker": {"query": QUESTION},
        "prompt": {"query": QUESTION},
    }
    got: dict[str, Any] = {}
    flow = pipeline(watch, store)
    with sdk.turn("pipeline"):
        ended = flow.run(asked, include_outputs_from={"ranker"})
        got["pipeline"] = [ended["generator"]["replies"][0].text]
        got["ranked"] = [d.id for d in ended["ranker"]["documents"]]
    got["saved"] = flow.to_dict()["components"]["retriever"]["type"]
    with sdk.turn("again"):
        got["again"] = flow.run(asked)["generator"]["replies"][0].text
    with sdk.turn("async"):
        ended = asyncio.run(pipeline(watch, store).run_async(asked))
        got["async"] = ended["generator"]["replies"][0].text
    with sdk.turn("alone"):
        retriever = watch.retriever(InMemoryBM25Retriever(store))
        got["alone"] = [d.id for d in retriever.run(query=QUESTION, top_k=1)["documents"]]
    with (
        sdk.turn("reply"),
        sdk.generate("fake", messages=[ChatMessage.from_user(QUESTION)]) as step,
    ):
        got["reply"] = step.record(Generator().run(prompt="q"))["replies"][0].text
    return got


if __name__ == "__main__":
    main(run)
