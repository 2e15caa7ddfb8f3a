"""What is a turn without a model call, and what the traces that give none are told."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.assemble_spans import Trace, only, why

from stagewatch.collector.assemble import why_turnless

QUESTION = "How long is the warranty?"
ANSWER = "Two years."
FAILED = {"status_code": 2, "status_message": "ValueError: boom"}


def trace_of(root: dict[str, Any], *steps: dict[str, Any], **changes: Any) -> Trace:
    trace = Trace()
    top = trace.add("chain", {"openinference.span.kind": "CHAIN", **root}, **changes)
    for step in steps:
        trace.add("step", step, top)
    return trace


SEARCH = {
    "openinference.span.kind": "RETRIEVER",
    "input.value": QUESTION,
    "retrieval.documents.0.document.id": "d0",
    "retrieval.documents.0.document.content": "The warranty lasts two years.",
}
ASKED = {"input.value": QUESTION}
ANSWERED = {"input.value": QUESTION, "output.value": ANSWER}


def test_a_turn_that_broke_off_after_its_search_keeps_its_error() -> None:
    got = only(trace_of(ASKED, SEARCH, **FAILED).turns())
    assert (got.question, got.answer, got.error) == (QUESTION, None, "ValueError: boom")
    assert [chunk.chunk_id for chunk in got.retrievals[0].chunks] == ["d0"]
    assert why(got, "model") == "not_captured"


def test_a_workflow_that_failed_below_a_handler_that_did_not() -> None:
    trace = Trace()
    handler = trace.add("POST /ask", {"http.request.method": "POST"})
    told = {"openinference.span.kind": "CHAIN", **ASKED}
    chain = trace.add("chain", told, handler, **FAILED)
    trace.add("find", SEARCH, chain)
    got = only(trace.turns())
    assert (got.question, got.answer, got.error) == (QUESTION, None, "ValueError: boom")


def test_a_turn_that_broke_off_before_its_search() -> None:
    got = only(trace_of({**ASKED, "session.id": "c1"}, **FAILED).turns())
    assert (got.question, got.error, got.retrievals) == (QUESTION, "ValueError: boom", ())
    assert trace_of(ASKED, **FAILED).turns() == []


def test_a_failure_that_langfuse_tells_in_its_own_words() -> None:
    kind, asked = "langfuse.observation.type", {"langfuse.observation.input": QUESTION}
    level = {
        "langfuse.observation.level": "ERROR",
        "langfuse.observation.status_message": "index is down",
    }
    trace = Trace()
    top = trace.add("ask", {kind: "span", **asked, **level})
    trace.add("find", {kind: "retriever", **asked, **level}, top)
    got = only(trace.turns())
    assert (got.question, got.answer, got.error) == (QUESTION, None, "index is down")
    assert why(got, "retrievals[0].chunks") == "failed"


def test_a_side_step_that_failed_is_not_the_failure_of_an_answered_turn() -> None:
    trace = trace_of(ANSWERED, SEARCH)
    side = {"openinference.span.kind": "CHAIN", "input.value": "log it"}
    trace.add("audit", side, trace.spans[0], **FAILED)
    got = only(trace.turns())
    assert (got.answer, got.error) == (ANSWER, None)


def test_an_answer_from_a_cache_is_a_turn() -> None:
    searched = only(trace_of(ANSWERED, SEARCH).turns())
    assert (searched.question, searched.answer, searched.model) == (QUESTION, ANSWER, None)
    alone = only(trace_of({**ANSWERED, "session.id": "c1"}).turns())
    assert (alone.question, alone.answer, alone.conversation_id) == (QUESTION, ANSWER, "c1")


@pytest.mark.parametrize(
    ("trace", "says"),
    [
        (trace_of(ASKED, SEARCH), "a search for a question"),
        (trace_of(ANSWERED), "it may be any function"),
        (trace_of(ASKED), "an input, but no model call"),
        (trace_of({"output.value": ANSWER}), "an output, but no model call"),
        (
            trace_of({}, {k: v for k, v in SEARCH.items() if k != "input.value"}),
            "nobody's question",
        ),
        (trace_of({}, {"openinference.span.kind": "EMBEDDING"}), "no question, no model call"),
    ],
)
def test_what_is_no_turn_is_told_why(trace: Trace, says: str) -> None:
    assert trace.turns() == []
    assert says in why_turnless(trace.spans)


def test_of_several_parts_the_one_nearest_to_a_turn_is_spoken_of() -> None:
    trace = trace_of(ANSWERED)
    trace.add("GET /health", {"http.request.method": "GET"})
    assert "any function" in why_turnless(trace.spans)
    del trace.spans[0]
    assert "no span is of a known convention" in why_turnless(trace.spans)
    assert why_turnless([]) == "no spans"
