"""A RAG app on LlamaIndex, with watched objects or plain ones.

Usage: python llamaindex_app.py [watched]. Prints what the app itself got, and what was told of it.
"""

from __future__ import annotations

import asyncio
from typing import Any

from common import KB, QUESTION, Watching, main
from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import NodeRelationship, QueryBundle, RelatedNodeInfo, TextNode

from stagewatch import sdk


class Backwards(BaseNodePostprocessor):
    """Puts the last first."""

    def _postprocess_nodes(self, nodes: Any, query_bundle: Any = None) -> Any:
        return list(reversed(nodes))


def nodes() -> list[TextNode]:
    return [
        TextNode(
            id_=row["id"],
            text=row["text"],
            metadata={"version": "v3"},
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=row["source"])},
        )
        for row in KB
    ]


def ids(found: Any) -> list[str]:
    return [row.node.node_id for row in found]


def run(watch: Watching) -> dict[str, Any]:
    index = VectorStoreIndex(nodes(), embed_model=MockEmbedding(embed_dim=4))
    retriever = watch.retriever(index.as_retriever(similarity_top_k=2), source="kb")
    ranker = watch.reranker(Backwards(), model="backwards")
    llm = MockLLM(max_tokens=4)
    got: dict[str, Any] = {}
    with sdk.turn("retrieve"):
        got["retrieve"] = ids(retriever.retrieve(QUESTION))
    with sdk.turn("aretrieve"):
        got["aretrieve"] = ids(asyncio.run(retriever.aretrieve(QueryBundle(QUESTION))))
    engine = RetrieverQueryEngine.from_args(
        retriever,
        llm=llm,
        node_postprocessors=[ranker],
        response_synthesizer=get_response_synthesizer(llm=llm),
    )
    with sdk.turn("engine"):
        answer = engine.query(QUESTION)
        got["engine"] = [str(answer), ids(answer.source_nodes)]
    with sdk.turn("aengine"):
        answer = asyncio.run(engine.aquery(QUESTION))
        got["aengine"] = [str(answer), ids(answer.source_nodes)]
    with sdk.turn("direct"):
        found = retriever.retrieve(QUESTION)
        got["direct"] = ids(ranker.postprocess_nodes(found, query_str=QUESTION))
    prompt = [ChatMessage(role="system", content="Be brief."), ChatMessage(content=QUESTION)]
    with sdk.turn("chat"), sdk.generate("mock", messages=prompt) as step:
        got["chat"] = step.record(llm.chat(prompt)).message.content
    with sdk.turn("complete"), sdk.generate("mock") as step:
        got["complete"] = step.record(llm.complete(QUESTION)).text
    with sdk.turn("pieces"), sdk.generate("mock") as step:
        got["pieces"] = "".join(piece.delta for piece in step.record(llm.stream_complete("q w e")))
    sources = engine.query(QUESTION)
    with sdk.turn("from sources"), sdk.generate("mock", context=sources) as step:
        got["from sources"] = str(step.record(sources))
    return got


if __name__ == "__main__":
    main(run)
