"""The refund story as spans: sent with the real OpenTelemetry SDK and exporters."""

from __future__ import annotations

import json
from collections.abc import Sequence

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import SpanKind
from opentelemetry.util.types import AttributeValue

CURRENT = {
    "id": "refund-policy#v7#0",
    "document_id": "refund-policy",
    "version": "v7",
    "content": "Customers may request a refund within 30 days of delivery.",
    "score": 0.8,
}
OLD = {
    "id": "refund-policy#v6#0",
    "document_id": "refund-policy",
    "version": "v6",
    "content": "Customers may request a refund within 14 days of delivery.",
    "score": 0.9,
}
SHIPPING = {
    "id": "shipping#v5#0",
    "document_id": "shipping",
    "version": "v5",
    "content": "Standard shipping takes 3 to 5 business days.",
    "score": 0.2,
}
QUESTION = "How many days do I have to request a refund?"


class _FixedTrace(RandomIdGenerator):
    """Gives the same trace id to every trace."""

    def __init__(self, trace_id: int) -> None:
        self._trace_id = trace_id

    def generate_trace_id(self) -> int:
        return self._trace_id


def send_turn(
    exporter: SpanExporter,
    *,
    question: str = QUESTION,
    answer: str = "You can request a refund within 14 days of delivery.",
    documents: Sequence[dict[str, object]] = (CURRENT, SHIPPING),
    conversation: str = "conv-1",
    release: str = "1.4.2",
    index_version: str = "kb-1",
    trace_id: int | None = None,
) -> str:
    """Send one turn of three spans through `exporter`; its trace id. Export is synchronous."""
    resource = Resource.create({"service.name": "refund-bot", "service.version": release})
    ids = _FixedTrace(trace_id) if trace_id is not None else RandomIdGenerator()
    provider = TracerProvider(resource=resource, id_generator=ids, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("stagewatch.sdk", "0.1.0")
    common = {"gen_ai.conversation.id": conversation, "session.id": conversation}
    root_attributes = {
        **common,
        "gen_ai.operation.name": "invoke_workflow",
        "openinference.span.kind": "CHAIN",
        "input.value": question,
        "output.value": answer,
        "stagewatch.index.version": index_version,
    }
    with tracer.start_as_current_span("invoke_workflow bot", attributes=root_attributes) as root:
        retrieval = {
            **common,
            "gen_ai.operation.name": "retrieval",
            "openinference.span.kind": "RETRIEVER",
            "gen_ai.retrieval.query.text": question,
            "gen_ai.retrieval.documents": json.dumps(list(documents)),
        }
        with tracer.start_as_current_span(
            "retrieval kb", kind=SpanKind.CLIENT, attributes=retrieval
        ):
            pass
        chat: dict[str, AttributeValue] = {
            **common,
            "gen_ai.operation.name": "chat",
            "openinference.span.kind": "LLM",
            "gen_ai.request.model": "bot-1",
            "gen_ai.usage.input_tokens": 61,
            "gen_ai.usage.output_tokens": 11,
            "stagewatch.context.ids": [str(document["id"]) for document in documents],
            "gen_ai.output.messages": json.dumps(
                [{"role": "assistant", "parts": [{"type": "text", "content": answer}]}]
            ),
        }
        with tracer.start_as_current_span("chat bot-1", kind=SpanKind.CLIENT, attributes=chat):
            pass
        return f"{root.get_span_context().trace_id:032x}"
