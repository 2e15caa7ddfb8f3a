"""Traceloop's instrumentors for Qdrant (in memory) and openai on a hand-written app."""

from __future__ import annotations

from typing import Any

import openai
from common import Capture, Truth, record
from kb import (
    ANSWER_PROMPT,
    CONVERSATION,
    KB,
    MODEL,
    RELEASE,
    REWRITE_PROMPT,
    TOP_K,
    VOCABULARY,
    WINDOW,
    Ask,
    Doc,
    Hit,
    answer_prompt,
    vector,
)
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from qdrant_client import QdrantClient
from qdrant_client.models import Distance, PointStruct, VectorParams
from servers import Rig
from traceloop.sdk import Traceloop
from traceloop.sdk.decorators import task, workflow
from traceloop.sdk.instruments import Instruments

sending: list[BatchSpanProcessor] = []


def set_up(rig: Rig) -> Any:
    sending.append(BatchSpanProcessor(OTLPSpanExporter(f"{rig.receiver.url}/v1/traces")))
    Traceloop.init(
        app_name="refund-bot",
        processor=sending[0],
        instruments={Instruments.OPENAI, Instruments.QDRANT},
        resource_attributes={"service.version": RELEASE},
        telemetry_enabled=False,
    )
    store = QdrantClient(":memory:")
    store.create_collection(
        "kb", vectors_config=VectorParams(size=len(VOCABULARY), distance=Distance.COSINE)
    )
    points = [
        PointStruct(
            id=at,
            vector=vector(doc.content),
            payload={
                "chunk_id": doc.id,
                "document_id": doc.document_id,
                "version": doc.version,
                "text": doc.content,
            },
        )
        for at, doc in enumerate(KB)
    ]
    store.upsert("kb", points)
    client = openai.OpenAI(api_key="k", base_url=rig.model.url)

    def chat(system: str, user: str) -> str:
        messages: Any = [
            {"role": "system", "content": system},
            {"role": "user", "content": user},
        ]
        got = client.chat.completions.create(model=MODEL, messages=messages)
        return str(got.choices[0].message.content)

    @task(name="rewrite")
    def rewritten(question: str) -> str:
        return chat(REWRITE_PROMPT, question)

    @task(name="retrieve")
    def retrieve(query: str) -> list[dict[str, Any]]:
        embedded = client.embeddings.create(model="text-embedding-3-small", input=query)
        found = store.query_points("kb", query=embedded.data[0].embedding, limit=TOP_K)
        return [{**(p.payload or {}), "score": p.score} for p in found.points]

    @workflow(name="ask")
    def workflow_of(question: str, rewrites: bool, truth: Any = None) -> str:
        query = rewritten(question) if rewrites else question
        rows = retrieve(query)
        docs = [Doc(r["chunk_id"], r["document_id"], r["version"], r["text"]) for r in rows]
        told.append([Hit(doc, row["score"]) for doc, row in zip(docs, rows, strict=True)])
        return chat(ANSWER_PROMPT, answer_prompt(question, docs[:WINDOW]))

    told: list[list[Hit]] = []

    def answer(ask: Ask, truth: Truth) -> str:
        Traceloop.set_association_properties({"session_id": CONVERSATION})
        said = workflow_of(ask.question, ask.rewritten is not None)
        truth.found(told[-1])
        truth.window([hit.doc for hit in told[-1][:WINDOW]])
        return said

    return answer


def flush() -> None:
    sending[0].force_flush()


if __name__ == "__main__":
    record(
        Capture(
            name="traceloop-qdrant",
            packages=(
                "opentelemetry-instrumentation-qdrant",
                "opentelemetry-instrumentation-openai",
                "traceloop-sdk",
                "qdrant-client",
                "openai",
            ),
            notes=(
                (
                    "The Qdrant span holds neither ids nor scores nor texts; they are in the output of"
                    " the app's own task around it."
                ),
            ),
            tags={"release": RELEASE},
        ),
        set_up,
        flush,
    )
