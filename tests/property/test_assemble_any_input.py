"""Whatever arrives, in whatever order: assembly gives the same turns and never raises."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.assemble_decode import GOLDEN, capture_rows

from stagewatch.collector.assemble import assemble_turns, why_turnless
from stagewatch.collector.assemble.lenient import parse_json
from stagewatch.collector.assemble.scrub import scrubbed
from stagewatch.collector.assemble.tables import conventions
from stagewatch.core.codec import to_json
from stagewatch.core.model import LogRow, SpanEvent, SpanRow

IDS = st.sampled_from([f"{n:016x}" for n in range(8)])

SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63),
    st.floats(allow_nan=True, allow_infinity=True),
    st.text(max_size=20),
    st.binary(max_size=8),
    st.sampled_from(
        [
            "LLM",
            "RETRIEVER",
            "RERANKER",
            "CHAIN",
            "turn",
            "retrieve",
            "generate",
            "rewrite",
            "chat",
            "retrieval",
            "__REDACTED__",
            "sha256:" + "0" * 32,
            '{"documents": [{"id": "a", "content": "b"}, ["c", 1], null]}',
            '[{"role": "user", "content": "q"}, {"role": "assistant", "parts": [{"text": "a"}]}]',
            '[{"id": "x", "page_content": "cut of',
            '"quoted"',
            "[" * 300,
            '{"a": ' * 300,
        ]
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from(["id", "content", "role", "parts", "messages", "kwargs", "args", "0"]),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=8,
)


def _known_keys() -> list[str]:
    keys: set[str] = set()
    for table in conventions():
        keys |= table.keys
        for rule in table.kinds:
            keys |= set(rule.attributes)
        for sources in table.read.values():
            for source in sources:
                key = source.partition("#")[0].lstrip("^@%")
                keys |= {
                    key.replace(".{i}", f".{n}") + tail for n in (0, 1, 10) for tail in ("", ".id")
                }
                keys.add(key.replace(".*", ".session_id"))
    return sorted(keys)


KEYS = st.one_of(st.sampled_from(_known_keys()), st.text(max_size=8))
ATTRIBUTES = st.dictionaries(KEYS, VALUES, max_size=8)
TIMES = st.one_of(st.integers(0, 5), st.integers(0, 2**64 - 1))
EVENT_NAMES = st.sampled_from(
    ["db.query.result", "RetrievalEndEvent", "gen_ai.choice", "gen_ai.user.message", "exception"]
)
SPANS = st.builds(
    SpanRow,
    project=st.just("p"),
    trace_id=st.just("0" * 31 + "1"),
    span_id=IDS,
    parent_id=st.one_of(IDS, st.sampled_from(["", "0" * 16, "0" * 31 + "1"])),
    name=st.sampled_from(["", "rewrite_query", "retrieve", "rerank", "chat"]),
    kind=st.integers(0, 5),
    start_ns=TIMES,
    end_ns=TIMES,
    status_code=st.integers(0, 3),
    status_message=st.text(max_size=4),
    scope_name=st.sampled_from(["", "langfuse-sdk", "openinference.x", "llamaindex.opentelemetry"]),
    scope_version=st.just(""),
    resource=ATTRIBUTES,
    attributes=ATTRIBUTES,
    events=st.lists(st.builds(SpanEvent, EVENT_NAMES, TIMES, ATTRIBUTES), max_size=3).map(tuple),
    dropped_attributes=st.integers(0, 2),
)
LOGS = st.builds(
    LogRow,
    project=st.just("p"),
    trace_id=st.just("0" * 31 + "1"),
    span_id=IDS,
    event_name=EVENT_NAMES,
    time_ns=TIMES,
    body=VALUES,
    attributes=ATTRIBUTES,
)


@settings(max_examples=300, deadline=None)
@given(st.lists(SPANS, max_size=10), st.lists(LOGS, max_size=4), st.randoms(use_true_random=False))
def test_any_spans_in_any_order_give_the_same_turns(
    spans: list[SpanRow], logs: list[LogRow], shuffler: random.Random
) -> None:
    mapped = {
        "question": "question",
        "0": "answer",
        "session.id": "conversation_id",
        "gen_ai.retrieval.documents": "documents",
        "gen_ai.request.model": "model",
        "input.value": "prompt",
        "output.value": "completion",
    }
    turns = assemble_turns(spans, logs, attribute_map=mapped)
    mixed, mixed_logs = list(spans), list(logs)
    shuffler.shuffle(mixed)
    shuffler.shuffle(mixed_logs)
    again = assemble_turns(mixed, mixed_logs, attribute_map=mapped)
    # repr, since a NaN is not equal to itself.
    assert repr(again) == repr(turns)
    assert len({turn.turn_id for turn in turns}) == len(turns)
    assert to_json(turns)
    if spans and not turns:
        assert why_turnless(mixed, mixed_logs, attribute_map=mapped)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_captures_assemble_the_same_in_any_order_and_sent_twice(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(p.name for p in GOLDEN.iterdir() if p.is_dir())))
    spans, logs = capture_rows(GOLDEN / name)
    trace_id = data.draw(st.sampled_from(sorted({span.trace_id for span in spans})))
    spans = [span for span in spans if span.trace_id == trace_id]
    logs = [log for log in logs if log.trace_id == trace_id]
    mixed = data.draw(st.permutations(spans + spans[::2]))
    assert assemble_turns(mixed, logs[::-1]) == assemble_turns(spans, logs)


@settings(max_examples=200, deadline=None)
@given(VALUES, st.integers(0, 200))
@example({"id": ['\\"']}, 9)
def test_json_cut_anywhere_is_read_without_error(value: Any, at: int) -> None:
    text = to_json({"documents": scrubbed(value, 0)}).decode()
    whole, was_cut = parse_json(text)
    assert not was_cut
    part, _ = parse_json(text[:at])
    assert part is None or at >= len(text) or isinstance(part, dict | list | str)
    assert whole is not None


def test_json_cut_mid_string_keeps_what_came_before() -> None:
    text = '[{"id": "a", "content": "first"}, {"id": "b", "content": "seco'
    assert parse_json(text) == (
        [{"id": "a", "content": "first"}, {"id": "b", "content": "seco"}],
        True,
    )
    assert parse_json('[{"id": "a"}, {"id"') == ([{"id": "a"}], True)
    assert parse_json("not json") == (None, False)
