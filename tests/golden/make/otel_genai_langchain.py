"""OpenTelemetry's GenAI instrumentor for LangChain: a chain with a retriever inside a retriever."""

from __future__ import annotations

import os
from typing import Any

os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "SPAN_ONLY"
os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental"

from common import Capture, Truth, record
from kb import (
    ANSWER_PROMPT,
    BY_ID,
    CONVERSATION,
    MODEL,
    RELEASE,
    REWRITE_PROMPT,
    Ask,
    Hit,
    passages,
    rerank,
    search,
)
from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_openai import ChatOpenAI
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.genai.langchain import LangChainInstrumentor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from servers import Rig

provider = TracerProvider(
    resource=Resource.create({"service.name": "refund-bot", "service.version": RELEASE})
)


def document(hit: Hit) -> Document:
    meta = {"document_id": hit.doc.document_id, "version": hit.doc.version, "score": hit.score}
    return Document(id=hit.doc.id, page_content=hit.doc.content, metadata=meta)


class KbRetriever(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [document(hit) for hit in search(query)]


def set_up(rig: Rig) -> Any:
    provider.add_span_processor(
        BatchSpanProcessor(OTLPSpanExporter(f"{rig.receiver.url}/v1/traces"))
    )
    LangChainInstrumentor().instrument(tracer_provider=provider)
    model = ChatOpenAI(model=MODEL, base_url=rig.model.url, api_key="k")
    retriever = KbRetriever()
    rewriting = (
        ChatPromptTemplate.from_messages([("system", REWRITE_PROMPT), ("user", "{question}")])
        | model
        | StrOutputParser()
    )
    answering = (
        ChatPromptTemplate.from_messages(
            [("system", ANSWER_PROMPT), ("user", "Passages:\n{context}\n\nQuestion: {question}")]
        )
        | model
        | StrOutputParser()
    )
    tracer = provider.get_tracer("refund-bot")

    def answer(ask: Ask, truth: Truth) -> str:
        config: Any = {"metadata": {"conversation_id": CONVERSATION}}
        with tracer.start_as_current_span("ask"):
            query = ask.question
            if ask.rewritten:
                query = rewriting.invoke({"question": query}, config)
            found = retriever.invoke(query, config)
            hits = [Hit(BY_ID[d.id or ""], d.metadata["score"]) for d in found]
            ranked = rerank(query, [hit.doc for hit in hits])
            docs = [hit.doc for hit in ranked]
            truth.found(hits)
            truth.window(docs)
            asked = {"context": passages(docs), "question": ask.question}
            return answering.invoke(asked, config)

    return answer


if __name__ == "__main__":
    record(
        Capture(
            name="otel-genai-langchain",
            packages=(
                "opentelemetry-instrumentation-genai-langchain",
                "opentelemetry-util-genai",
                "langchain-core",
                "langchain-openai",
            ),
            notes=("The reranking is plain code of the app and leaves no span.",),
            absent_in_documents=dict.fromkeys(
                ("document_id", "version", "content"), "the retrieval span has id and score only"
            ),
            tags={"release": RELEASE},
        ),
        set_up,
        provider.force_flush,
    )
