"""What becomes a turn, what does not, and how doubled, nested and broken telemetry is told apart."""

from __future__ import annotations

import json
from typing import Any

import pytest
from opentelemetry.trace import use_span
from tests.support.assemble_spans import TRACE, Trace, event, rows_of, sdk_turns

from stagewatch import sdk
from stagewatch.collector.assemble import assemble_turns
from stagewatch.core.model import LogRow, Missing, SpanRow, Turn
from stagewatch.sdk._runtime import runtime
from stagewatch.sdk.testing import capture

DOCS = [
    {"id": "a", "content": "Refunds are possible within thirty days.", "score": 0.9},
    {"id": "b", "content": "Shipping is free above fifty euros.", "score": 0.5},
    {"id": "c", "content": "The warranty lasts twenty-four months.", "score": 0.4},
]


def only(turns: list[Turn]) -> Turn:
    assert len(turns) == 1
    return turns[0]


def llm(prompt: str, reply: str, **more: object) -> dict[str, object]:
    return {
        "openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": prompt,
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": reply,
        "llm.token_count.prompt": 10,
        "llm.token_count.completion": 2,
        **more,
    }


def retriever(query: str, documents: list[dict[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {"openinference.span.kind": "RETRIEVER", "input.value": query}
    for at, document in enumerate(documents):
        for name, value in document.items():
            found[f"retrieval.documents.{at}.document.{name}"] = value
    return found


def test_everything_the_sdk_tells_comes_back() -> None:
    with (
        sdk_turns() as turns,
        sdk.turn(
            "and shipping?",
            conversation_id="c1",
            user_id="u1",
            turn_index=2,
            history=[("user", "how long?"), ("assistant", "30 days")],
            index_version="i3",
            prompt_version="p7",
            release="1.4",
            tags={"channel": "web"},
        ) as turn,
    ):
        with sdk.rewrite("and shipping?") as rewrite:
            query = rewrite.record("What does shipping cost?")
        with sdk.retrieve(query, top_k=3, score_kind="bm25") as retrieve:
            docs = retrieve.record(DOCS)
        with sdk.rerank(query, docs, model="r1") as rerank:
            docs = rerank.record([{**DOCS[1], "score": 2.0}, DOCS[0]])
        with sdk.generate("gpt", context=docs[:1], messages="Shipping…") as generate:
            generate.record("Free above fifty euros.")
            generate.usage(input_tokens=40, output_tokens=5, cost_usd=0.001)
        turn.refused(False)
    got = only(turns)
    assert got.turn_id == turn.turn_id
    assert (got.question, got.rewritten_query) == ("and shipping?", "What does shipping cost?")
    assert got.answer == "Free above fifty euros."
    assert [m.content for m in got.history] == ["how long?", "30 days"]
    assert (got.conversation_id, got.user_id, got.turn_index) == ("c1", "u1", 2)
    assert (got.index_version, got.prompt_version, got.release) == ("i3", "p7", "1.4")
    (retrieval,) = got.retrievals
    assert [(c.rank, c.chunk_id, c.score, c.score_kind) for c in retrieval.chunks] == [
        (1, "a", 0.9, "bm25"),
        (2, "b", 0.5, "bm25"),
        (3, "c", 0.4, "bm25"),
    ]
    assert retrieval.top_k == 3
    assert got.reranked is not None
    assert [(c.chunk_id, c.score, c.in_prompt) for c in got.reranked] == [
        ("b", 2.0, True),
        ("a", 0.9, False),
    ]
    assert [(c.rank, c.chunk_id, c.content) for c in got.window] == [(1, "b", DOCS[1]["content"])]
    assert got.window_source == "ids"
    assert (got.usage.input_tokens, got.usage.output_tokens) == (40, 5)
    assert got.usage.cost_usd == pytest.approx(0.001)
    assert (got.model, got.request_model, got.refused) == ("gpt", "gpt", False)
    assert got.tags == {"channel": "web"}
    assert got.conventions == ("stagewatch",)
    assert (got.missing, got.complete) == ((), True)


def test_each_field_says_which_span_and_key_it_came_from() -> None:
    trace = Trace()
    root = trace.add("bot", {"openinference.span.kind": "CHAIN", "input.value": "how long?"})
    search = trace.add("search", retriever("how long?", DOCS), root)
    call = trace.add("llm", llm("how long?", "thirty days"), root)
    sources = {s.field: (s.span_id, s.key) for s in only(trace.turns()).sources}
    assert sources["question"] == (root.span_id, "input.value")
    assert sources["retrievals[0]"] == (search.span_id, "retrieval.documents.{i}.document")
    assert sources["answer"] == (call.span_id, "llm.output_messages.{i}.message")
    assert sources["usage.input_tokens"] == (call.span_id, "llm.token_count.prompt")


def test_a_call_inside_a_call_counts_once() -> None:
    trace = Trace()
    outer = trace.add("predict", llm("q", "a"))
    trace.add("chat", llm("q", "a"), outer)
    assert only(trace.turns()).usage.input_tokens == 10


def test_two_instrumentations_side_by_side_count_once() -> None:
    trace = Trace()
    root = trace.add("bot", {"openinference.span.kind": "CHAIN", "input.value": "q"})
    for name in ("one", "two"):
        trace.add(
            name,
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": "openai",
                "gen_ai.response.id": "r-1",
                "gen_ai.usage.input_tokens": 7,
                "gen_ai.output.messages": '[{"role":"assistant","parts":[{"content":"a"}]}]',
            },
            root,
        )
    assert only(trace.turns()).usage.input_tokens == 7


def test_dual_conventions_on_one_span_give_one_list() -> None:
    trace = Trace()
    root = trace.add("bot", {"openinference.span.kind": "CHAIN", "input.value": "q"})
    both = retriever("q", DOCS)
    both["gen_ai.retrieval.documents"] = json.dumps(DOCS)
    both["gen_ai.operation.name"] = "retrieval"
    trace.add("search", both, root)
    trace.add("llm", llm("q", "a"), root)
    (retrieval,) = only(trace.turns()).retrievals
    assert [chunk.chunk_id for chunk in retrieval.chunks] == ["a", "b", "c"]


def test_several_retrievals_stay_apart() -> None:
    trace = Trace()
    root = trace.add("bot", {"openinference.span.kind": "CHAIN", "input.value": "q"})
    trace.add("one", retriever("q1", DOCS[:1]), root)
    trace.add("two", retriever("q2", DOCS[1:]), root)
    trace.add("llm", llm("q", "a"), root)
    got = only(trace.turns())
    assert [r.query for r in got.retrievals] == ["q1", "q2"]
    assert got.reranked is None


def test_a_model_call_inside_a_retriever_is_not_the_answer() -> None:
    trace = Trace()
    root = trace.add("bot", {"openinference.span.kind": "CHAIN", "input.value": "q"})
    trace.add("llm", llm("q", "the answer"), root, end_ns=500)
    late = trace.add("search", retriever("q", DOCS), root)
    trace.add("expand", llm("q", "another query"), late)
    assert only(trace.turns()).answer == "the answer"


def test_the_answer_is_the_call_that_the_root_repeats() -> None:
    trace = Trace()
    root = trace.add(
        "bot", {"openinference.span.kind": "CHAIN", "input.value": "q", "output.value": "yes"}
    )
    trace.add("llm", llm("q", "yes", **{"llm.model_name": "answerer"}), root, end_ns=500)
    trace.add("title", llm("q", "A short title", **{"llm.model_name": "namer"}), root)
    assert only(trace.turns()).model == "answerer"


def test_a_chat_loop_under_one_root_is_several_turns() -> None:
    trace = Trace()
    session = trace.add("session", {"session.id": "s1"})
    for number in (1, 2):
        chain = trace.add(
            "turn", {"openinference.span.kind": "CHAIN", "input.value": f"q{number}"}, session
        )
        trace.add("search", retriever(f"q{number}", DOCS), chain)
        trace.add("llm", llm(f"q{number}", f"a{number}"), chain)
    got = trace.turns()
    assert [(t.question, t.answer, t.conversation_id) for t in got] == [
        ("q1", "a1", "s1"),
        ("q2", "a2", "s1"),
    ]


def test_a_dialogue_of_flat_calls_under_one_root_is_split_at_quoted_answers() -> None:
    def call(messages: list[tuple[str, str]], reply: str) -> dict[str, object]:
        rows = [{"role": r, "parts": [{"type": "text", "content": t}]} for r, t in messages]
        return {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "x",
            "gen_ai.input.messages": json.dumps(rows),
            "gen_ai.output.messages": json.dumps(
                [{"role": "assistant", "parts": [{"type": "text", "content": reply}]}]
            ),
        }

    trace = Trace()
    root = trace.add("loop", {"session.id": "s1"})
    first = [("user", "How long is the warranty?")]
    one = trace.add("chat", call(first, "Two years."), root, end_ns=2_500)
    dialogue = [*first, ("assistant", "Two years."), ("user", "And for parts?")]
    told = [("system", "Rewrite the question to stand alone."), *dialogue]
    trace.add("chat", call(told, "How long is the warranty for parts?"), root, end_ns=3_500)
    trace.add("search", retriever("How long is the warranty for parts?", DOCS), root, end_ns=4_500)
    two = trace.add("chat", call(dialogue, "One year."), root, end_ns=5_500)
    got = trace.turns()
    assert [(t.span_id, t.question, t.answer) for t in got] == [
        (one.span_id, "How long is the warranty?", "Two years."),
        (two.span_id, "And for parts?", "One year."),
    ]
    assert [t.conversation_id for t in got] == ["s1", "s1"]
    assert got[1].rewritten_query == "How long is the warranty for parts?"
    assert [len(t.retrievals) for t in got] == [0, 1]


def test_an_agent_that_quotes_itself_is_one_turn() -> None:
    trace = Trace()
    root = trace.add("agent", {})
    thought = llm("How long is the warranty?", "I should look it up.")
    trace.add("llm", thought, root, end_ns=2_500)
    trace.add("search", retriever("warranty", DOCS), root, end_ns=3_500)
    again = {
        **llm("How long is the warranty?", "Two years."),
        "llm.input_messages.1.message.role": "assistant",
        "llm.input_messages.1.message.content": "I should look it up.",
        "llm.input_messages.2.message.role": "tool",
        "llm.input_messages.2.message.content": "found",
    }
    trace.add("llm", again, root)
    assert only(trace.turns()).answer == "Two years."


def test_marked_turns_in_one_trace_are_split() -> None:
    with sdk_turns() as turns, use_span(runtime.tracer().start_span("session"), True):
        for number in (1, 2):
            with sdk.turn(f"q{number}", conversation_id="c"), sdk.generate("m") as generate:
                generate.record(f"a{number}")
    assert len({turn.trace_id for turn in turns}) == 1
    assert [turn.answer for turn in sorted(turns, key=lambda t: t.started_at)] == ["a1", "a2"]


@pytest.mark.parametrize(
    "attributes",
    [
        {"db.system": "chroma", "db.operation": "add"},
        {"http.request.method": "GET"},
        {"gen_ai.operation.name": "embeddings", "gen_ai.provider.name": "openai"},
        {"haystack.component.name": "warm up"},
        {},
    ],
)
def test_stray_traces_make_no_turn(attributes: dict[str, object]) -> None:
    trace = Trace()
    trace.add("stray", attributes)
    assert trace.turns() == []


def test_a_root_that_never_came_is_named_by_the_id_its_spans_point_to() -> None:
    trace = Trace()
    missing = "00f067aa0ba902b7"
    trace.add("search", retriever("q", DOCS), missing)
    trace.add("llm", llm("q", "a"), missing)
    got = only(trace.turns())
    assert got.turn_id == f"{TRACE}-{missing}"
    assert not got.complete
    assert Missing("root", "not_captured") in got.missing


@pytest.mark.parametrize("parent", ["0" * 16, TRACE, f"{1:016x}"])
def test_impossible_parents_are_roots(parent: str) -> None:
    trace = Trace()
    trace.add("llm", llm("q", "a"), parent)
    assert only(trace.turns()).span_id == f"{1:016x}"


def test_a_cycle_of_parents_still_gives_its_turn() -> None:
    trace = Trace()
    trace.add("one", {"openinference.span.kind": "CHAIN", "input.value": "q"}, f"{2:016x}")
    trace.add("two", llm("q", "a"), f"{1:016x}")
    assert only(trace.turns()).answer == "a"


def test_redacted_text_is_absent_and_said_to_be_redacted() -> None:
    trace = Trace()
    root = trace.add("bot", {"openinference.span.kind": "CHAIN", "input.value": "__REDACTED__"})
    trace.add("llm", {**llm("x", "a"), "llm.input_messages.0.message.content": ""}, root)
    got = only(trace.turns())
    assert got.question is None
    assert Missing("question", "redacted") in got.missing


def test_a_cut_document_list_keeps_its_best_and_says_so() -> None:
    trace = Trace()
    root = trace.add("bot", {"openinference.span.kind": "CHAIN", "input.value": "q"})
    cut = json.dumps(DOCS)[:150]
    trace.add(
        "search",
        {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": cut},
        root,
    )
    trace.add("llm", llm("q", "a"), root)
    got = only(trace.turns())
    assert [chunk.chunk_id for chunk in got.retrievals[0].chunks] == ["a", "b"]
    assert Missing("retrievals[0]", "truncated") in got.missing
    assert not got.complete


def test_vector_store_events_are_ranked_with_a_distance() -> None:
    trace = Trace()
    root = trace.add("bot", {"openinference.span.kind": "CHAIN", "input.value": "q"})
    trace.add(
        "milvus.search",
        {"db.system": "milvus", "db.operation": "search"},
        root,
        events=(
            event(
                "db.search.result",
                2,
                **{"db.search.result.id": 9, "db.search.result.distance": "0.4"},
            ),
            event(
                "db.search.result",
                1,
                **{"db.search.result.id": 7, "db.search.result.distance": "0.1"},
            ),
        ),
    )
    trace.add("llm", llm("q", "a"), root)
    (retrieval,) = only(trace.turns()).retrievals
    assert [(c.rank, c.chunk_id, c.score, c.score_kind) for c in retrieval.chunks] == [
        (1, "7", 0.1, "distance"),
        (2, "9", 0.4, "distance"),
    ]


def test_llamaindex_events_alone_are_enough() -> None:
    node = {
        "node": {
            "id_": "n1",
            "text": "Refunds are possible within thirty days.",
            "relationships": {"1": {"node_id": "policy"}},
        },
        "score": 0.7,
    }
    trace = Trace()
    root = trace.add("query", {}, scope_name="llamaindex.opentelemetry.tracer")
    trace.add(
        "retrieve",
        {},
        root,
        scope_name="llamaindex.opentelemetry.tracer",
        events=(
            event("RetrievalStartEvent", 1, str_or_query_bundle="how long?"),
            event("RetrievalEndEvent", 2, nodes=json.dumps([json.dumps(node)])),
        ),
    )
    trace.add(
        "chat",
        {},
        root,
        scope_name="llamaindex.opentelemetry.tracer",
        events=(
            event(
                "LLMChatEndEvent",
                3,
                messages=json.dumps([{"role": "user", "content": "how long?"}]),
                response=json.dumps({"message": {"role": "assistant", "content": "30 days"}}),
            ),
        ),
    )
    got = only(trace.turns())
    assert (got.question, got.answer) == ("how long?", "30 days")
    (chunk,) = got.retrievals[0].chunks
    assert (chunk.chunk_id, chunk.document_id, chunk.score) == ("n1", "policy", 0.7)
    assert got.conventions == ("llamaindex",)


def test_mapped_attributes_fill_fields_and_tags() -> None:
    trace = Trace()
    root = trace.add("bot", {"app.q": "how long?", "app.shop": "de", "app.conv": "c9"})
    trace.add("llm", llm("prompt", "30 days"), root)
    got = only(
        trace.turns(
            attribute_map={
                "app.q": "question",
                "app.shop": "tags.shop",
                "app.conv": "conversation_id",
            }
        )
    )
    assert (got.question, got.conversation_id, got.tags) == ("how long?", "c9", {"shop": "de"})


def test_an_error_of_the_turn_is_told_and_a_side_steps_is_not() -> None:
    trace = Trace()
    root = trace.add("bot", {"openinference.span.kind": "CHAIN", "input.value": "q"})
    trace.add("audit", {}, root, status_code=2, status_message="sink down")
    trace.add("llm", llm("q", "a"), root)
    assert only(trace.turns()).error is None
    failed = Trace()
    failed.add("llm", llm("q", ""), status_code=2, status_message="rate limited")
    assert only(failed.turns()).error == "rate limited"


def test_window_is_what_stands_in_the_prompt_in_its_order() -> None:
    trace = Trace()
    root = trace.add("bot", {"openinference.span.kind": "CHAIN", "input.value": "q"})
    trace.add("search", retriever("q", DOCS), root)
    prompt = f"Context:\n{DOCS[2]['content']}\n{DOCS[0]['content']}\nQuestion: q"
    trace.add("llm", llm(prompt, "a"), root)
    got = only(trace.turns())
    assert [(c.rank, c.chunk_id) for c in got.window] == [(1, "c"), (2, "a")]
    assert [c.in_prompt for c in got.retrievals[0].chunks] == [True, False, True]
    assert got.window_source == "prompt"


def log(span: SpanRow, name: str, time_ns: int, body: Any = None, **attributes: Any) -> LogRow:
    return LogRow("p", TRACE, span.span_id, name, time_ns, body, attributes)


def test_messages_in_one_genai_event_are_joined_by_span() -> None:
    trace = Trace()
    call = trace.add("chat", {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "x"})
    details = log(
        call,
        "gen_ai.client.inference.operation.details",
        1,
        **{
            "gen_ai.system_instructions": [{"type": "text", "content": "Be brief."}],
            "gen_ai.input.messages": [
                {"role": "user", "parts": [{"type": "text", "content": "q"}]}
            ],
            "gen_ai.output.messages": [
                {"role": "assistant", "parts": [{"type": "text", "content": "a"}]}
            ],
        },
    )
    got = only(trace.turns(logs=[details]))
    assert (got.question, got.answer) == ("q", "a")
    assert only(trace.turns()).question is None


def test_old_message_events_are_ordered_by_time() -> None:
    trace = Trace()
    call = trace.add("chat", {"gen_ai.operation.name": "chat", "gen_ai.system": "openai"})
    choice = {"index": 0, "message": {"role": "assistant", "content": "a2"}}
    logs = [
        log(call, "gen_ai.choice", 9, choice),
        log(call, "gen_ai.user.message", 4, {"content": "q2"}),
        log(call, "gen_ai.user.message", 2, {"content": "q1"}),
        log(call, "gen_ai.assistant.message", 3, {"content": "a1"}),
        log(call, "gen_ai.system.message", 1, {"content": "s"}),
    ]
    got = only(trace.turns(logs=logs))
    assert (got.question, got.answer) == ("q2", "a2")
    assert [(m.role, m.content) for m in got.history] == [("user", "q1"), ("assistant", "a1")]


def test_metadata_that_is_a_python_repr_is_not_evaluated() -> None:
    trace = Trace()
    root = trace.add("bot", {"openinference.span.kind": "CHAIN", "input.value": "q"})
    result = {
        "db.query.result.id": "p1",
        "db.query.result.score": 0.5,
        "db.query.result.metadata": "{'version': __import__('os').getpid()}",
    }
    trace.add(
        "pinecone.query",
        {"db.system": "Pinecone", "db.operation": "query"},
        root,
        events=(event("db.query.result", 1, **result),),
    )
    trace.add("llm", llm("q", "a"), root)
    (chunk,) = only(trace.turns()).retrievals[0].chunks
    assert (chunk.chunk_id, chunk.score, chunk.version, chunk.metadata) == ("p1", 0.5, None, {})


def test_a_store_that_tells_no_results_is_a_retrieval_without_chunks() -> None:
    trace = Trace()
    root = trace.add("bot", {"openinference.span.kind": "CHAIN", "input.value": "q"})
    trace.add(
        "qdrant.query_points",
        {"db.system": "qdrant", "db.operation": "query_points", "db.vector.query.top_k": 5},
        root,
    )
    trace.add("llm", llm("q", "a"), root)
    got = only(trace.turns())
    assert [(r.top_k, r.chunks) for r in got.retrievals] == [(5, ())]
    assert Missing("retrievals[0].chunks", "not_captured") in got.missing


def test_a_retrieval_seen_to_return_nothing_misses_nothing() -> None:
    trace = Trace()
    root = trace.add("bot", {"openinference.span.kind": "CHAIN", "input.value": "q"})
    trace.add(
        "search",
        {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.query.text": "q",
         "gen_ai.retrieval.documents": "[]"},
        root,
    )  # fmt: skip
    trace.add("llm", llm("q", "I could not find that."), root)
    got = only(trace.turns())
    assert [item.chunks for item in got.retrievals] == [()]
    assert got.window == ()
    assert got.missing == ()


def test_a_window_nobody_saw_is_missing() -> None:
    trace = Trace()
    root = trace.add(
        "bot",
        {"openinference.span.kind": "CHAIN", "input.value": "How long?", "output.value": "30 days"},
    )
    trace.add("search", retriever("How long?", DOCS), root)
    trace.add("chat", {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}, root)
    got = only(trace.turns())
    assert got.window == ()
    assert Missing("window", "not_captured") in got.missing


def test_traceloop_nodes_as_json_in_json() -> None:
    node = {
        "node": {"id_": "n1", "text": "text of it", "metadata": {"version": "v1"}},
        "score": 0.4,
    }
    trace = Trace()
    root = trace.add("q.workflow", {"traceloop.span.kind": "workflow"})
    trace.add(
        "KbRetriever.task",
        {
            "traceloop.span.kind": "task",
            "traceloop.entity.name": "KbRetriever",
            "traceloop.entity.input": json.dumps({"args": ["how long?"], "kwargs": {}}),
            "traceloop.entity.output": json.dumps([json.dumps(node)]),
        },
        root,
    )
    trace.add(
        "openai.chat",
        {
            "llm.request.type": "chat",
            "gen_ai.prompt.0.role": "user",
            "gen_ai.prompt.0.content": "how long?",
            "gen_ai.completion.0.content": "30 days",
            "gen_ai.usage.prompt_tokens": 4,
        },
        root,
    )
    got = only(trace.turns())
    (retrieval,) = got.retrievals
    assert retrieval.query == "how long?"
    assert [(c.chunk_id, c.version, c.score) for c in retrieval.chunks] == [("n1", "v1", 0.4)]
    assert (got.question, got.answer, got.usage.input_tokens) == ("how long?", "30 days", 4)


def test_content_kept_elsewhere_is_not_captured() -> None:
    trace = Trace()
    trace.add(
        "chat",
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "x",
            "gen_ai.output.messages_ref": "s3://bucket/1",
        },
    )
    got = only(trace.turns())
    assert got.answer is None
    assert Missing("answer", "not_captured") in got.missing


def test_what_the_sdk_cut_or_withheld_is_said() -> None:
    content = sdk.Content(question="hashed", max_document=10)
    with capture(content=content) as captured, sdk.turn("secret question"):
        with sdk.retrieve("secret question") as step:
            step.record(DOCS)
        with sdk.generate("m") as step:
            step.record("a")
    got = only(assemble_turns(rows_of(captured.spans)))
    missing = {m.field: m.why for m in got.missing}
    assert got.question is None
    assert missing["question"] == "redacted"
    assert missing["retrievals[0].content"] == "truncated"
    assert missing["retrievals[0].query"] == "redacted"
    assert [chunk.chunk_id for chunk in got.retrievals[0].chunks] == ["a", "b", "c"]


def test_one_of_our_words_on_a_span_of_another_convention_is_read() -> None:
    trace = Trace()
    own = {"stagewatch.release": "r7", "stagewatch.tag.tier": "gold"}
    top = trace.add(
        "chain",
        {
            "openinference.span.kind": "CHAIN",
            "input.value": "How long?",
            "output.value": "30",
            **own,
        },
    )
    found = {
        "retrieval.documents.0.document.id": "d0",
        "retrieval.documents.0.document.content": "Thirty days.",
        "stagewatch.index.version": "2026-11",
    }
    trace.add("find", {"openinference.span.kind": "RETRIEVER", **found}, top)
    turn = only(trace.turns())
    assert (turn.release, turn.index_version) == ("r7", "2026-11")
    assert turn.tags["tier"] == "gold"
