"""OpenTelemetry's GenAI instrumentor for openai with content in events on /v1/logs only."""

from __future__ import annotations

import os
from typing import Any

os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental"
os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "EVENT_ONLY"
os.environ["OTEL_INSTRUMENTATION_GENAI_EMIT_EVENT"] = "true"

import openai
from common import Capture, Truth, record
from kb import (
    ANSWER_PROMPT,
    CONVERSATION,
    MODEL,
    RELEASE,
    REWRITE_PROMPT,
    WINDOW,
    Ask,
    answer_prompt,
    search,
)
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from servers import Rig

resource = Resource.create({"service.name": "refund-bot", "service.version": RELEASE})
provider = TracerProvider(resource=resource)
logs = LoggerProvider(resource=resource)


def set_up(rig: Rig) -> Any:
    provider.add_span_processor(
        BatchSpanProcessor(OTLPSpanExporter(f"{rig.receiver.url}/v1/traces"))
    )
    logs.add_log_record_processor(
        BatchLogRecordProcessor(OTLPLogExporter(f"{rig.receiver.url}/v1/logs"))
    )
    OpenAIInstrumentor().instrument(tracer_provider=provider, logger_provider=logs)
    client = openai.OpenAI(api_key="k", base_url=rig.model.url)
    tracer = provider.get_tracer("refund-bot")

    def chat(system: str, user: str) -> str:
        messages: Any = [
            {"role": "system", "content": system},
            {"role": "user", "content": user},
        ]
        got = client.chat.completions.create(model=MODEL, messages=messages)
        return str(got.choices[0].message.content)

    def answer(ask: Ask, truth: Truth) -> str:
        with tracer.start_as_current_span("ask") as root:
            root.set_attribute("session.id", CONVERSATION)
            query = chat(REWRITE_PROMPT, ask.question) if ask.rewritten else ask.question
            docs = [hit.doc for hit in search(query)][:WINDOW]
            truth.window(docs)
            return chat(ANSWER_PROMPT, answer_prompt(ask.question, docs))

    return answer


def flush() -> None:
    provider.force_flush()
    logs.force_flush()


if __name__ == "__main__":
    record(
        Capture(
            name="otel-genai-openai-events",
            packages=(
                "opentelemetry-instrumentation-genai-openai",
                "opentelemetry-util-genai",
                "openai",
            ),
            notes=(
                "Messages are in gen_ai.client.inference.operation.details events on /v1/logs.",
            ),
            absent={
                "retrieved": "the search is no span",
                "retrieval_query": "the search is no span",
            },
            tags={"release": RELEASE},
        ),
        set_up,
        flush,
    )
