"""The code in the SDK's documents runs as printed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.assemble_decode import GOLDEN, capture_rows

from stagewatch import sdk
from stagewatch.collector.assemble.tables import conventions
from stagewatch.sdk import semconv
from stagewatch.sdk._runtime import runtime

ROOT = Path(__file__).parents[2]
DOCS = [{"id": f"d{n}", "content": f"passage {n}", "score": 1.0 / (n + 1)} for n in range(5)]


def blocks(path: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (ROOT / path).read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """What the examples leave to the reader. Nothing is sent: the OpenTelemetry switch is off."""
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    monkeypatch.setattr(runtime, "content", runtime.content)
    monkeypatch.setattr("stagewatch.sdk._feedback.FeedbackSender.send", lambda *_: None)
    yield {
        "make_standalone": lambda question: question,
        "search": lambda query: list(DOCS),
        "reorder": lambda query, docs: docs[::-1],
        "llm": lambda query, docs: "thirty days",
        "stream": lambda question, context: iter(["thirty ", "days"]),
        "retriever": object(),
        "reranker": object(),
        "client": object(),
        "trace_id": "ab" * 16,
    }
    sdk.shutdown()


@pytest.mark.parametrize("path", ["sdk/README.md", "docs/sdk.md"])
def test_every_python_block_runs(path: str, names: dict[str, Any]) -> None:
    found = blocks(path)
    assert found
    for number, block in enumerate(found):
        exec(compile(block, f"{path} block {number}", "exec"), names)
    if path == "sdk/README.md":
        assert names["ask"]("how long?", "c1") == "thirty days"


def test_the_ten_lines_are_ten() -> None:
    """Lines of instrumentation in the README's first example, its imports and setup included."""
    lines = [line for line in blocks("sdk/README.md")[0].splitlines() if line.strip()]
    instrumenting = [
        line for line in lines if re.search(r"import|configure\(|with |record\(", line)
    ]
    assert len(instrumenting) <= 10


def test_every_attribute_in_the_docs_is_one_we_know() -> None:
    known = {value for name, value in vars(semconv).items() if name.isupper()}
    for path in ("sdk/README.md", "docs/sdk.md"):
        used = set(
            re.findall(r"['`](stagewatch\.[a-z_]+(?:\.[a-z_]+)*)['`]", (ROOT / path).read_text())
        )
        assert used - known - {"stagewatch.sdk"} == set()


def test_the_collector_reads_every_name_the_sdk_owns() -> None:
    own = next(table for table in conventions() if table.name == "stagewatch")
    read = {source for sources in own.read.values() for source in sources}
    read |= {attribute for rule in own.kinds for attribute in rule.attributes} | own.keys
    written = {
        value
        for name, value in vars(semconv).items()
        if name.isupper() and value.startswith("stagewatch.") and not name.endswith("PREFIX")
    }
    # Said for people who look at raw spans; no field of a turn depends on them.
    unread = {semconv.REWRITE_APPLIED, semconv.RERANK_INPUT_IDS, semconv.STREAM_CLOSED_EARLY}
    assert written - read == unread


def test_the_node_recipe_is_what_the_capture_was_made_with() -> None:
    """Each attribute of the printed recipe is on a span that the real JavaScript SDK sent."""
    recipe = re.search(
        r"^```js\n(.*?)^```", (ROOT / "docs/sdk.md").read_text(), re.MULTILINE | re.DOTALL
    )
    assert recipe is not None
    names = set(re.findall(r"'((?:stagewatch|gen_ai|input|output)\.[\w.]+)'", recipe[1]))
    spans, _ = capture_rows(GOLDEN / "own-recipe-node")
    sent = {key for span in spans for key in span.attributes}
    assert names == sent
