"""Cost of instrumenting one RAG turn, on the thread that answers the user.

The turn: a retrieval with 10 chunks of 800 characters and one model call. Side by side in one
process, in turns so that a slow moment of the machine hits all: this SDK, OpenInference's and
Langfuse's manual instrumentation, plain OpenTelemetry with the documents as one JSON attribute,
and three bare spans. Spans end in a processor that drops them: export is another thread's work.

The other libraries are no dependency of the project: `make bench-sdk` keeps an environment for them.

What is not installed is left out. Prints one line a contender, what each import costs, and the
installed size: files of the distribution and of all it needs to send spans, compiled files apart.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

QUESTION = "How many days do I have to request a refund?"
ANSWER = "You can request a refund within 30 days of delivery."
DOCS = [
    {
        "id": f"refund-policy#{n}",
        "document_id": "refund-policy",
        "content": (f"Passage {n}. " + "Customers may request a refund within thirty days. " * 20)[
            :800
        ],
        "score": 1 / (n + 1),
    }
    for n in range(10)
]
PROMPT = "Context:\n" + "\n".join(str(doc["content"]) for doc in DOCS[:3]) + "\n" + QUESTION
Turn = Callable[[], None]


class Dropping:
    """A span processor that forgets."""

    def on_start(self, span, parent_context=None):
        pass

    def _on_ending(self, span):
        pass

    def on_end(self, span):
        pass

    def shutdown(self):
        pass

    def force_flush(self, timeout_millis=0):
        return True


def provider():
    from opentelemetry.sdk.trace import TracerProvider

    made = TracerProvider(shutdown_on_exit=False)
    made.add_span_processor(Dropping())
    return made


def ours(tracer) -> Turn:
    from stagewatch import sdk
    from stagewatch.sdk._runtime import runtime

    def turn():
        runtime.use(tracer)
        with sdk.turn(QUESTION, conversation_id="c1", user_id="u1", turn_index=1) as root:
            with sdk.retrieve(QUESTION, top_k=10, score_kind="bm25") as step:
                docs = step.record(DOCS)
            with sdk.generate("gpt-4o-mini", context=docs[:3], messages=PROMPT) as step:
                step.record(ANSWER)
                step.usage(input_tokens=61, output_tokens=11)
            root.record(ANSWER)

    return turn


def ours_alone() -> Turn:
    """As after `configure()` in an app that has no TracerProvider."""
    from opentelemetry.sdk.resources import Resource

    from stagewatch.sdk._direct import DirectTracer, OwnProvider

    queue = Dropping()
    return ours(DirectTracer(OwnProvider(queue, Resource({}), {}), queue, "stagewatch.sdk"))


def ours_added() -> Turn:
    """As after `configure()` in an app that has one: the app's own spans set the pace."""
    return ours(provider().get_tracer("stagewatch.sdk"))


def openinference() -> Turn:
    from openinference.instrumentation import OITracer, TraceConfig, using_attributes
    from openinference.semconv.trace import (
        DocumentAttributes,
        MessageAttributes,
    )
    from openinference.semconv.trace import (
        SpanAttributes as A,
    )

    tracer = OITracer(provider().get_tracer("bench"), TraceConfig())

    def turn():
        with (
            using_attributes(session_id="c1", user_id="u1"),
            tracer.start_as_current_span("turn", openinference_span_kind="chain") as root,
        ):
            root.set_input(QUESTION)
            with tracer.start_as_current_span(
                "retrieve", openinference_span_kind="retriever"
            ) as span:
                span.set_input(QUESTION)
                for at, doc in enumerate(DOCS):
                    prefix = f"{A.RETRIEVAL_DOCUMENTS}.{at}."
                    span.set_attribute(prefix + DocumentAttributes.DOCUMENT_ID, doc["id"])
                    span.set_attribute(prefix + DocumentAttributes.DOCUMENT_CONTENT, doc["content"])
                    span.set_attribute(prefix + DocumentAttributes.DOCUMENT_SCORE, doc["score"])
            with tracer.start_as_current_span("llm", openinference_span_kind="llm") as span:
                span.set_attribute(A.LLM_MODEL_NAME, "gpt-4o-mini")
                for side, role, text in (
                    (A.LLM_INPUT_MESSAGES, "user", PROMPT),
                    (A.LLM_OUTPUT_MESSAGES, "assistant", ANSWER),
                ):
                    span.set_attribute(f"{side}.0.{MessageAttributes.MESSAGE_ROLE}", role)
                    span.set_attribute(f"{side}.0.{MessageAttributes.MESSAGE_CONTENT}", text)
                span.set_attribute(A.LLM_TOKEN_COUNT_PROMPT, 61)
                span.set_attribute(A.LLM_TOKEN_COUNT_COMPLETION, 11)
            root.set_output(ANSWER)

    return turn


def langfuse() -> Turn:
    os.environ |= {"LANGFUSE_PUBLIC_KEY": "pk", "LANGFUSE_SECRET_KEY": "sk"}
    from langfuse import Langfuse

    client = Langfuse(
        tracer_provider=provider(), base_url="http://127.0.0.1:9", tracing_enabled=True
    )
    # Its exporter would try the network from its own thread while we measure.
    client._resources.tracer_provider._active_span_processor._span_processors = (Dropping(),)

    def turn():
        with client.start_as_current_observation(
            name="turn", as_type="chain", input=QUESTION
        ) as root:
            with client.start_as_current_observation(
                name="retrieve", as_type="retriever", input=QUESTION
            ) as step:
                step.update(output=DOCS)
            with client.start_as_current_observation(
                name="llm", as_type="generation", model="gpt-4o-mini", input=PROMPT
            ) as step:
                step.update(output=ANSWER, usage_details={"input": 61, "output": 11})
            root.update(output=ANSWER)

    return turn


def plain_otel() -> Turn:
    tracer = provider().get_tracer("bench")

    def turn():
        with tracer.start_as_current_span("turn") as root:
            root.set_attribute("input.value", QUESTION)
            with tracer.start_as_current_span("retrieval") as span:
                span.set_attribute("gen_ai.retrieval.query.text", QUESTION)
                span.set_attribute("gen_ai.retrieval.documents", json.dumps(DOCS))
            with tracer.start_as_current_span("chat") as span:
                span.set_attribute("gen_ai.request.model", "gpt-4o-mini")
                span.set_attribute(
                    "gen_ai.input.messages", json.dumps([{"role": "user", "content": PROMPT}])
                )
                span.set_attribute(
                    "gen_ai.output.messages", json.dumps([{"role": "assistant", "content": ANSWER}])
                )
                span.set_attribute("gen_ai.usage.input_tokens", 61)
                span.set_attribute("gen_ai.usage.output_tokens", 11)
            root.set_attribute("output.value", ANSWER)

    return turn


def bare_spans() -> Turn:
    tracer = provider().get_tracer("bench")

    def turn():
        with tracer.start_as_current_span("turn"):
            with tracer.start_as_current_span("retrieval"):
                pass
            with tracer.start_as_current_span("chat"):
                pass

    return turn


CONTENDERS = {
    "stagewatch.sdk": ours_alone,
    "stagewatch.sdk, added": ours_added,
    "OpenInference": openinference,
    "Langfuse": langfuse,
    "plain OpenTelemetry": plain_otel,
    "three bare spans": bare_spans,
}
IMPORTS = {
    "stagewatch.sdk": "import stagewatch.sdk",
    "OpenInference": "import openinference.instrumentation",
    "Langfuse": "import langfuse",
}
EXPORTER = "opentelemetry-exporter-otlp-proto-http"
OURS = ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-common")
PACKAGES = {
    "stagewatch.sdk": OURS,
    # It has no exporter of its own, and without one nothing is sent.
    "OpenInference": ("openinference-instrumentation", EXPORTER),
    "Langfuse": ("langfuse",),
}
ROOT = Path(__file__).resolve().parent.parent
PARTS = ("sdk", "core", "collector", "scorer", "api")


def measure(turns: dict[str, Turn], rounds: int, each: int) -> dict[str, float]:
    """Median over rounds of the microseconds a turn takes."""
    found: dict[str, list[float]] = {name: [] for name in turns}
    gc.disable()
    for _ in range(rounds):
        for name, turn in turns.items():
            # Once for nothing: whoever comes after the collection would find the caches cold.
            turn()
            start = time.perf_counter()
            for _ in range(each):
                turn()
            found[name].append((time.perf_counter() - start) / each * 1e6)
        gc.collect()
    gc.enable()
    return {name: statistics.median(times) for name, times in found.items()}


def import_ms(statement: str) -> float:
    code = f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
    times = []
    for _ in range(5):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        times.append(float(done.stdout) * 1e3)
    return statistics.median(times)


def closure_bytes(names: Iterable[str]) -> int:
    """Bytes of the installed distributions and of everything they require."""
    left, sizes = list(names), dict[str, int]()
    while left:
        name = re.sub(r"[-_.]+", "-", left.pop()).lower()
        if name in sizes:
            continue
        found = metadata.distribution(name)
        sizes[name] = sum(f.size or 0 for f in found.files or () if f.suffix != ".pyc")
        needs = [Requirement(line) for line in found.requires or ()]
        left += [n.name for n in needs if n.marker is None or n.marker.evaluate({"extra": ""})]
    return sum(sizes.values())


def source_bytes(part: str) -> int:
    """Bytes of one part of this project as it is packed: everything below its namespace folder."""
    files = (ROOT / part / "stagewatch").rglob("*")
    return sum(f.stat().st_size for f in files if f.is_file() and f.suffix != ".pyc")


def print_sizes(names: Iterable[str]) -> None:
    for name in names:
        size = closure_bytes(PACKAGES[name])
        note = ""
        if PACKAGES[name] is OURS:
            own = {part: source_bytes(part) for part in PARTS}
            size += sum(own.values())
            note = (
                f"  (the SDK and what it needs {(size - sum(own.values()) + own['sdk']) / 1e6:.2f};"
                " the rest are the server's parts, which come along and are not imported)"
            )
        print(f"installed {name:15} {size / 1e6:6.2f} MB{note}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--each", type=int, default=50)
    options = parser.parse_args()
    turns: dict[str, Turn] = {}
    for name, make in CONTENDERS.items():
        try:
            turns[name] = make()
        except ImportError as error:
            print(f"{name}: not measured ({error})")
    for turn in turns.values():
        turn()
    times = measure(turns, options.rounds, options.each)
    others = [times[name] for name in ("OpenInference", "Langfuse") if name in times]
    for name, microseconds in times.items():
        ratio = f"  {microseconds / min(others):.2f}x of the faster other" if others else ""
        print(f"{name:22} {microseconds:8.1f} us a turn{ratio}")
    for name, statement in IMPORTS.items():
        if name in turns:
            print(f"import {name:15} {import_ms(statement):8.1f} ms")
    print_sizes(name for name in PACKAGES if name in turns)


if __name__ == "__main__":
    main()
