"""pydantic-ai's own instrumentation: an agent that searches with a tool."""

from __future__ import annotations

from typing import Any

from common import Capture, Truth, record
from kb import ANSWER_PROMPT, CONVERSATION, MODEL, RELEASE, WINDOW, Ask, search
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from pydantic_ai import Agent
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from servers import Rig, with_tool_call

provider = TracerProvider(
    resource=Resource.create({"service.name": "refund-bot", "service.version": RELEASE})
)


def set_up(rig: Rig) -> Any:
    provider.add_span_processor(
        BatchSpanProcessor(OTLPSpanExporter(f"{rig.receiver.url}/v1/traces"))
    )
    rig.model.chat = with_tool_call(rig.model, "search_kb")  # type: ignore[method-assign]
    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=rig.model.url, api_key="k"))
    agent = Agent(
        model,
        system_prompt=ANSWER_PROMPT,
        name="refund_bot",
    )
    agent.instrument = InstrumentationSettings(tracer_provider=provider)
    told: list[Any] = []

    @agent.tool_plain
    def search_kb(query: str) -> list[dict[str, Any]]:
        hits = search(query, WINDOW)
        told.append(hits)
        return [
            {
                "id": hit.doc.id,
                "document_id": hit.doc.document_id,
                "version": hit.doc.version,
                "content": hit.doc.content,
                "score": hit.score,
            }
            for hit in hits
        ]

    def answer(ask: Ask, truth: Truth) -> str:
        got = agent.run_sync(ask.question, conversation_id=CONVERSATION)
        truth.found(told[-1])
        truth.window([hit.doc for hit in told[-1]])
        return str(got.output)

    return answer


if __name__ == "__main__":
    record(
        Capture(
            name="pydantic-ai",
            packages=("pydantic-ai-slim", "openai"),
            notes=(
                "The search is a tool: its query and result are the tool call's arguments and result.",
                "rewrite_tokens are those of the call that chose the tool.",
            ),
            tags={"release": RELEASE},
        ),
        set_up,
        provider.force_flush,
    )
