"""A RAG app on LangChain, with watched objects or plain ones.

Usage: python langchain_app.py [watched]. Prints what the app itself got, and what was told of it.
"""

from __future__ import annotations

import asyncio
from typing import Any

from common import KB, QUESTION, Watching, main
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnableParallel, RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore

from stagewatch import sdk


def documents() -> list[Document]:
    return [
        Document(id=row["id"], page_content=row["text"], metadata={"source": row["source"]})
        for row in KB
    ]


class Backwards(BaseDocumentCompressor):
    """Puts the last first."""

    def compress_documents(self, documents: Any, query: str, callbacks: Any = None) -> Any:
        return list(reversed(documents))


class Compressing(BaseRetriever):
    """As LangChain's ContextualCompressionRetriever: a retriever made of two others' work."""

    base_compressor: BaseDocumentCompressor
    base_retriever: BaseRetriever

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        found = self.base_retriever.invoke(query, config={"callbacks": run_manager.get_child()})
        return list(self.base_compressor.compress_documents(found, query))


def model() -> GenericFakeChatModel:
    said = AIMessage(
        content="Within thirty days.",
        response_metadata={"model_name": "fake-1", "finish_reason": "stop"},
        usage_metadata={"input_tokens": 7, "output_tokens": 3, "total_tokens": 10},
    )
    return GenericFakeChatModel(messages=iter([said] * 10))


def texts(found: list[Document]) -> str:
    return "\n".join(document.page_content for document in found)


def run(watch: Watching) -> dict[str, Any]:
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    store.add_documents(documents())
    retriever = watch.retriever(store.as_retriever(search_kwargs={"k": 2}), source="kb")
    got: dict[str, Any] = {}
    prompt = ChatPromptTemplate.from_template("{context}\n{question}")
    chain = (
        {"context": retriever | RunnableLambda(texts), "question": RunnablePassthrough()}
        | prompt
        | model()
        | StrOutputParser()
    )
    with sdk.turn("invoke"):
        got["invoke"] = chain.invoke(QUESTION)
    with sdk.turn("ainvoke"):
        got["ainvoke"] = asyncio.run(chain.ainvoke(QUESTION))
    with sdk.turn("stream"):
        got["stream"] = "".join(chain.stream(QUESTION))
    with sdk.turn("parallel"):
        both = RunnableParallel(found=retriever, asked=RunnablePassthrough())
        got["parallel"] = [d.id for d in both.invoke(QUESTION)["found"]]
    with sdk.turn("batch"):
        got["batch"] = [[d.id for d in found] for found in retriever.batch([QUESTION, "warranty"])]
    with sdk.turn("configured"):
        named = retriever.with_config(tags=["t"])
        got["configured"] = [d.id for d in named.invoke(QUESTION)]
    with sdk.turn("typed"):
        got["typed"] = [d.id for d in retriever.with_types(input_type=str).invoke(QUESTION)]
    with sdk.turn("tool"):
        tool = retriever.as_tool(name="search", description="Finds passages.", arg_types=None)
        got["tool"] = [d.id for d in tool.invoke(QUESTION)]
    with sdk.turn("searched"):
        searching = watch.retriever(store)
        found = searching.max_marginal_relevance_search(QUESTION, k=2, fetch_k=2)
        got["searched"] = [d.id for d in found]
        found = asyncio.run(searching.asimilarity_search(QUESTION, k=2))
        got["searched later"] = [d.id for d in found]
    with sdk.turn("piped into"):
        got["piped into"] = [d.id for d in (RunnableLambda(str.lower) | retriever).invoke(QUESTION)]
    with sdk.turn("scored"):
        watched = watch.retriever(store, score_kind="similarity")
        got["scored"] = [d.id for d, _ in watched.similarity_search_with_score(QUESTION, k=3)]
    with sdk.turn("rerank"):
        outer = Compressing(
            base_compressor=watch.reranker(Backwards(), model="backwards"), base_retriever=retriever
        )
        got["rerank"] = [d.id for d in outer.invoke(QUESTION)]
    with (
        sdk.turn("messages"),
        sdk.generate(
            "fake", messages=prompt.format_messages(context="c", question=QUESTION)
        ) as step,
    ):
        got["messages"] = step.record(model().invoke("q")).content
    with sdk.turn("pieces"), sdk.generate("fake") as step:
        got["pieces"] = "".join(piece.content for piece in step.record(model().stream("q")))
    return got


if __name__ == "__main__":
    main(run)
