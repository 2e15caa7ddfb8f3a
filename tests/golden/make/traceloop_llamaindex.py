"""Traceloop's instrumentors for LlamaIndex and openai on a LlamaIndex app."""

from __future__ import annotations

from typing import Any

import openai
from common import Capture, Truth, record
from kb import (
    ANSWER_PROMPT,
    BY_ID,
    CONVERSATION,
    MODEL,
    RELEASE,
    REWRITE_PROMPT,
    TOP_K,
    Ask,
    Hit,
    answer_prompt,
    rerank,
    search,
)
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeRelationship, NodeWithScore, RelatedNodeInfo, TextNode
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.llamaindex import LlamaIndexInstrumentor
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from servers import Rig
from traceloop.sdk import Traceloop
from traceloop.sdk.instruments import Instruments

sending: list[BatchSpanProcessor] = []


def node(hit: Hit) -> NodeWithScore:
    doc = hit.doc
    source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=doc.document_id)}
    made = TextNode(
        id_=doc.id, text=doc.content, metadata={"version": doc.version}, relationships=source
    )
    return NodeWithScore(node=made, score=hit.score)


class KbRetriever(BaseRetriever):
    def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        return [node(hit) for hit in search(query_bundle.query_str, TOP_K)]


class WordOverlapRerank(BaseNodePostprocessor):
    def _postprocess_nodes(self, nodes: Any, query_bundle: Any = None) -> Any:
        docs = [BY_ID[n.node.node_id] for n in nodes]
        return [node(hit) for hit in rerank(query_bundle.query_str, docs)]


class Model(CustomLLM):
    client: Any = None
    system: str = ""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name=MODEL)

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        got = self.client.chat.completions.create(
            model=MODEL,
            messages=[
                {"role": "system", "content": self.system},
                {"role": "user", "content": prompt},
            ],
        )
        return CompletionResponse(text=got.choices[0].message.content)

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        yield self.complete(prompt)


class RefundEngine(CustomQueryEngine):
    retriever: Any
    reranker: Any
    rewriter: Any
    model: Any
    truth: Any = None
    rewrites: bool = False

    def custom_query(self, query_str: str) -> str:
        query = self.rewriter.complete(query_str).text if self.rewrites else query_str
        found = self.retriever.retrieve(query)
        ranked = self.reranker.postprocess_nodes(found, query_str=query)
        docs = [BY_ID[n.node.node_id] for n in ranked]
        self.truth.found([Hit(BY_ID[n.node.node_id], n.score) for n in found])
        self.truth.ranked([Hit(BY_ID[n.node.node_id], n.score) for n in ranked])
        self.truth.window(docs)
        return str(self.model.complete(answer_prompt(query_str, docs)).text)


def set_up(rig: Rig) -> Any:
    sending.append(BatchSpanProcessor(OTLPSpanExporter(f"{rig.receiver.url}/v1/traces")))
    Traceloop.init(
        app_name="refund-bot",
        processor=sending[0],
        instruments={Instruments.OPENAI},
        resource_attributes={"service.version": RELEASE},
        telemetry_enabled=False,
    )
    # Traceloop.init looks for the package `llama-index` and would not see `llama-index-core`.
    LlamaIndexInstrumentor().instrument()
    client = openai.OpenAI(api_key="k", base_url=rig.model.url)
    engine = RefundEngine(
        retriever=KbRetriever(),
        reranker=WordOverlapRerank(),
        rewriter=Model(client=client, system=REWRITE_PROMPT),
        model=Model(client=client, system=ANSWER_PROMPT),
    )

    def answer(ask: Ask, truth: Truth) -> str:
        engine.truth, engine.rewrites = truth, ask.rewritten is not None
        Traceloop.set_association_properties({"session_id": CONVERSATION})
        return str(engine.query(ask.question))

    return answer


def flush() -> None:
    sending[0].force_flush()


if __name__ == "__main__":
    record(
        Capture(
            name="traceloop-llamaindex",
            packages=(
                "opentelemetry-instrumentation-llamaindex",
                "opentelemetry-instrumentation-openai",
                "traceloop-sdk",
                "llama-index-core",
                "openai",
            ),
            notes=(
                (
                    "Model calls inside LlamaIndex are <class>.task spans; the openai instrumentor is"
                    " silenced inside them."
                ),
                "Each retrieval makes two spans with the same documents.",
            ),
            absent=dict.fromkeys(
                ("request_model", "response_model", "tokens", "rewrite_tokens"),
                "a custom LLM's spans hold texts only",
            ),
            tags={"release": RELEASE},
        ),
        set_up,
        flush,
    )
