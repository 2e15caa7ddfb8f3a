"""OpenInference's instrumentor on a DSPy module: Predict for the rewrite, Retrieve, Predict."""

from __future__ import annotations

from typing import Any

import dspy
from common import Capture, Truth, record
from kb import BY_TEXT, CONVERSATION, MODEL, RELEASE, TOP_K, WINDOW, Ask, Hit, search
from openinference.instrumentation import using_attributes
from openinference.instrumentation.dspy import DSPyInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from servers import Rig

provider = TracerProvider(
    resource=Resource.create({"service.name": "refund-bot", "service.version": RELEASE})
)


def client(query: str, k: int = TOP_K, **_: Any) -> list[Any]:
    return [dspy.Prediction(long_text=hit.doc.content) for hit in search(query, k)]


class RefundBot(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.retrieve = dspy.Retrieve(k=TOP_K)
        self.rewrite = dspy.Predict("history, question -> query")
        self.respond = dspy.Predict("context: list[str], question -> answer")

    def forward(self, question: str, history: str, rewrites: bool) -> Any:
        query = question
        if rewrites:
            query = self.rewrite(history=history, question=question).query
        found = self.retrieve(query).passages
        answer = self.respond(context=found[:WINDOW], question=question).answer
        return dspy.Prediction(answer=answer, found=found, query=query)


def shaped(kind: str, text: str) -> str:
    field = "query" if kind == "rewrite" else "answer"
    return f"[[ ## {field} ## ]]\n{text}\n\n[[ ## completed ## ]]"


def set_up(rig: Rig) -> Any:
    provider.add_span_processor(
        BatchSpanProcessor(OTLPSpanExporter(f"{rig.receiver.url}/v1/traces"))
    )
    DSPyInstrumentor().instrument(tracer_provider=provider)
    rig.model.shape = shaped
    rig.model.is_rewrite = lambda prompt: "`query`" in prompt
    lm = dspy.LM(f"openai/{MODEL}", api_base=rig.model.url, api_key="k", cache=False)
    dspy.configure(lm=lm, rm=client)
    bot = RefundBot()

    def answer(ask: Ask, truth: Truth) -> str:
        history = "user: " + ask.question if ask.rewritten else ""
        with using_attributes(session_id=CONVERSATION):
            ended = bot(question=ask.question, history=history, rewrites=bool(ask.rewritten))
        truth.found([Hit(BY_TEXT[text], 0.0) for text in ended.found])
        truth.window([BY_TEXT[text] for text in ended.found[:WINDOW]])
        return str(ended.answer)

    return answer


if __name__ == "__main__":
    record(
        Capture(
            name="openinference-dspy",
            packages=(
                "openinference-instrumentation-dspy",
                "openinference-semantic-conventions",
                "dspy",
            ),
            notes=(
                (
                    "Texts of the LM span hold DSPy's field markers ([[ ## answer ## ]]); the plain"
                    " answer is in the output of the Predict and module spans."
                ),
            ),
            absent={
                "tokens": "not reported",
                "rewrite_tokens": "not reported",
                "response_model": "not reported",
            },
            absent_in_documents=dict.fromkeys(
                ("id", "document_id", "version", "score"), "DSPy's passages are texts"
            ),
            tags={"release": RELEASE},
        ),
        set_up,
        provider.force_flush,
    )
