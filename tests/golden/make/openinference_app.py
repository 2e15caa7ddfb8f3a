"""A hand-written app with OpenInference's tracer and its openai instrumentor, sent in five ways.

python openinference_app.py OUT split | cut | hidden | twice
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

MODE = sys.argv[2]
if MODE == "cut":
    # Cuts the prompt in the middle of a passage; the retriever's output too.
    os.environ["OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT"] = "120"
if MODE == "hidden":
    os.environ["OPENINFERENCE_HIDE_INPUTS"] = "true"
    os.environ["OPENINFERENCE_HIDE_OUTPUTS"] = "true"

import openai
from common import Capture, Truth, record
from kb import (
    ANSWER_PROMPT,
    CONVERSATION,
    MODEL,
    RELEASE,
    REWRITE_PROMPT,
    Ask,
    Hit,
    answer_prompt,
    rerank,
    search,
)
from openinference.instrumentation import OITracer, TraceConfig, using_attributes
from openinference.instrumentation.openai import OpenAIInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from servers import Rig

provider = TracerProvider(
    resource=Resource.create({"service.name": "refund-bot", "service.version": RELEASE})
)


def documents(prefix: str, hits: list[Hit]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for at, hit in enumerate(hits):
        below = f"{prefix}.{at}.document."
        found[below + "id"] = hit.doc.id
        found[below + "content"] = hit.doc.content
        found[below + "score"] = hit.score
        meta = {"document_id": hit.doc.document_id, "version": hit.doc.version}
        found[below + "metadata"] = json.dumps(meta)
    return found


def set_up(rig: Rig) -> Any:
    exporter = OTLPSpanExporter(f"{rig.receiver.url}/v1/traces")
    one_by_one = MODE == "split"
    provider.add_span_processor(
        SimpleSpanProcessor(exporter) if one_by_one else BatchSpanProcessor(exporter)
    )
    OpenAIInstrumentor().instrument(tracer_provider=provider)
    if MODE == "twice":
        from opentelemetry.instrumentation.openai import OpenAIInstrumentor as Traceloops

        Traceloops().instrument(tracer_provider=provider)
    tracer = OITracer(provider.get_tracer("refund-bot"), TraceConfig())
    client = openai.OpenAI(api_key="k", base_url=rig.model.url)

    def chat(system: str, user: str) -> str:
        messages: Any = [
            {"role": "system", "content": system},
            {"role": "user", "content": user},
        ]
        got = client.chat.completions.create(model=MODEL, messages=messages)
        return str(got.choices[0].message.content)

    def find(query: str) -> list[Hit]:
        with tracer.start_as_current_span("retrieve", openinference_span_kind="retriever") as span:
            span.set_input(query)
            hits = search(query)
            span.set_attributes(documents("retrieval.documents", hits))
            return hits

    def order(query: str, hits: list[Hit]) -> list[Hit]:
        with tracer.start_as_current_span("rerank", openinference_span_kind="reranker") as span:
            span.set_attribute("reranker.query", query)
            ranked = rerank(query, [hit.doc for hit in hits])
            span.set_attributes(documents("reranker.output_documents", ranked))
            return ranked

    def answer(ask: Ask, truth: Truth) -> str:
        with (
            using_attributes(session_id=CONVERSATION),
            tracer.start_as_current_span("ask", openinference_span_kind="chain") as root,
        ):
            root.set_input(ask.question)
            query = chat(REWRITE_PROMPT, ask.question) if ask.rewritten else ask.question
            hits = find(query)
            ranked = order(query, hits)
            truth.found(hits)
            truth.ranked(ranked)
            truth.window([hit.doc for hit in ranked])
            said = chat(ANSWER_PROMPT, answer_prompt(ask.question, [hit.doc for hit in ranked]))
            root.set_output(said)
            return said

    return answer


OI = ("openinference-instrumentation-openai", "openinference-instrumentation", "openai")
CAPTURES = {
    "split": Capture(
        name="openinference-openai-split-export",
        packages=OI,
        notes=("Every span in a request of its own, children before their parents.",),
        tags={"release": RELEASE},
    ),
    "cut": Capture(
        name="openinference-truncated-values",
        packages=OI,
        notes=(
            (
                "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT=120: longer values end in the middle, with no"
                " mark. Nothing the app retrieved is that long; the prompt is, and the tail of it gone."
            ),
            "The window is what the reranker gave: the prompt shows its beginning only.",
        ),
        extra={"incomplete": True, "missing": {"window": "truncated"}},
        tags={"release": RELEASE},
    ),
    "hidden": Capture(
        name="openinference-hidden-texts",
        packages=OI,
        notes=(
            (
                "OPENINFERENCE_HIDE_INPUTS and OPENINFERENCE_HIDE_OUTPUTS: texts are the word"
                " __REDACTED__, and a reranker's documents are left out."
            ),
        ),
        absent=dict.fromkeys(
            (
                "user_question",
                "rewritten_query",
                "retrieval_query",
                "reranked",
                "passed_to_model",
                "answer",
            ),
            "hidden",
        ),
        absent_in_documents=dict.fromkeys(("document_id", "version", "content"), "hidden"),
        extra={
            "missing": dict.fromkeys(
                (
                    "question",
                    "answer",
                    "retrievals[0].content",
                    "retrievals[0].query",
                    "window",
                ),
                "redacted",
            )
        },
        tags={"release": RELEASE},
    ),
    "twice": Capture(
        name="two-instrumentors-openai",
        packages=(*OI, "opentelemetry-instrumentation-openai"),
        notes=(
            (
                "OpenInference and Traceloop both instrument the openai client: each call is two spans,"
                " one inside the other, with the same response id and the same tokens."
            ),
        ),
        tags={"release": RELEASE},
    ),
}

if __name__ == "__main__":
    record(CAPTURES[MODE], set_up, provider.force_flush)
