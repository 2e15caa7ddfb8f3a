"""OpenInference's instrumentor on a Haystack pipeline: embedder-less retriever, ranker, generator."""

from __future__ import annotations

import os
from typing import Any

os.environ["HAYSTACK_AUTO_TRACE_ENABLED"] = "false"
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "false"

from common import Capture, Truth, record
from haystack import Document, Pipeline, component
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.utils import Secret
from kb import (
    ANSWER_PROMPT,
    BY_ID,
    CONVERSATION,
    MODEL,
    RELEASE,
    REWRITE_PROMPT,
    TOP_K,
    WINDOW,
    Ask,
    Hit,
    answer_prompt,
    rerank,
    search,
)
from openinference.instrumentation import using_attributes
from openinference.instrumentation.haystack import HaystackInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from servers import Rig

provider = TracerProvider(
    resource=Resource.create({"service.name": "refund-bot", "service.version": RELEASE})
)


def document(hit: Hit) -> Document:
    meta = {"document_id": hit.doc.document_id, "version": hit.doc.version}
    return Document(id=hit.doc.id, content=hit.doc.content, meta=meta, score=hit.score)


@component
class KbRetriever:
    @component.output_types(documents=list[Document])
    def run(self, query: str, top_k: int = TOP_K) -> dict[str, Any]:
        return {"documents": [document(hit) for hit in search(query, top_k)]}


@component
class WordOverlapRanker:
    @component.output_types(documents=list[Document])
    def run(self, query: str, documents: list[Document], top_k: int = WINDOW) -> dict[str, Any]:
        hits = rerank(query, [BY_ID[d.id] for d in documents], top_k)
        return {"documents": [document(hit) for hit in hits]}


@component
class Prompt:
    @component.output_types(messages=list[ChatMessage])
    def run(self, question: str, documents: list[Document]) -> dict[str, Any]:
        text = answer_prompt(question, [BY_ID[d.id] for d in documents])
        return {"messages": [ChatMessage.from_system(ANSWER_PROMPT), ChatMessage.from_user(text)]}


def set_up(rig: Rig) -> Any:
    provider.add_span_processor(
        BatchSpanProcessor(OTLPSpanExporter(f"{rig.receiver.url}/v1/traces"))
    )
    HaystackInstrumentor().instrument(tracer_provider=provider)

    def generator() -> OpenAIChatGenerator:
        return OpenAIChatGenerator(
            model=MODEL, api_key=Secret.from_token("k"), api_base_url=rig.model.url
        )

    pipeline = Pipeline()
    for name, made in (
        ("retriever", KbRetriever()),
        ("ranker", WordOverlapRanker()),
        ("prompt", Prompt()),
        ("generator", generator()),
    ):
        pipeline.add_component(name, made)
    pipeline.connect("retriever.documents", "ranker.documents")
    pipeline.connect("ranker.documents", "prompt.documents")
    pipeline.connect("prompt.messages", "generator.messages")
    rewriting = Pipeline()
    rewriting.add_component("rewriter", generator())
    tracer = provider.get_tracer("refund-bot")

    def answer(ask: Ask, truth: Truth) -> str:
        with (
            using_attributes(session_id=CONVERSATION),
            tracer.start_as_current_span("ask"),
        ):
            query = ask.question
            if ask.rewritten:
                messages = [ChatMessage.from_system(REWRITE_PROMPT), ChatMessage.from_user(query)]
                query = rewriting.run({"rewriter": {"messages": messages}})["rewriter"]["replies"][
                    0
                ].text
            ended = pipeline.run(
                {
                    "retriever": {"query": query},
                    "ranker": {"query": query},
                    "prompt": {"question": ask.question},
                },
                include_outputs_from={"retriever", "ranker"},
            )
        truth.found([Hit(BY_ID[d.id], d.score) for d in ended["retriever"]["documents"]])
        truth.ranked([Hit(BY_ID[d.id], d.score) for d in ended["ranker"]["documents"]])
        truth.window([BY_ID[d.id] for d in ended["ranker"]["documents"]])
        return str(ended["generator"]["replies"][0].text)

    return answer


if __name__ == "__main__":
    record(
        Capture(
            name="openinference-haystack",
            packages=(
                "openinference-instrumentation-haystack",
                "openinference-semantic-conventions",
                "haystack-ai",
            ),
            notes=("The root span is the app's own and carries no OpenInference attribute.",),
            absent={"request_model": "llm.model_name is the name in the response"},
            tags={"release": RELEASE},
        ),
        set_up,
        provider.force_flush,
    )
