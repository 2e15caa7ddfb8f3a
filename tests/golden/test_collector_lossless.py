"""Every captured request, stored by the engine's own decoding, comes back as the same message."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import xxhash
from tests.support.collector_json import otlp_json
from tests.support.collector_rebuild import (
    LOGS as LOG_ROWS,
)
from tests.support.collector_rebuild import (
    SPANS as SPAN_ROWS,
)
from tests.support.collector_rebuild import around, around_message, flat, log_of, span_of

from stagewatch.collector.check import check_protobuf
from stagewatch.collector.frames import Frame, pack
from stagewatch.collector.otlp_json import check_json
from stagewatch.collector.segments import Sealed, TokenHash
from stagewatch.collector.signals import LOGS, TRACES, Signal
from stagewatch.collector.writer import insert_segment
from stagewatch.core.store import Store
from stagewatch.core.store.spans import logs_of_traces, spans_of_traces

CAPTURES = Path(__file__).parent / "otlp"
REQUESTS = sorted(CAPTURES.glob("*/[0-9]*.pb"))
RECEIVED_NS = 1_796_040_000_123_456_000


def store_bodies(
    store: Store, folder: Path, signal: Signal, project: str, bodies: Iterable[bytes]
) -> None:
    """Insert bodies as one segment, as the writer does."""
    token = TokenHash()
    data = b""
    for body in bodies:
        entries = len(getattr(signal.request.FromString(body), signal.entries))
        digest = xxhash.xxh3_128_digest(body)
        frame = Frame(project, RECEIVED_NS, entries, digest, len(body))
        token.add(frame, pack(frame))
        data += pack(frame) + body
    path = folder / token.name(signal.name)
    path.write_bytes(data)
    insert_segment(store, Sealed(path, signal.name, len(data)))


def items_of(signal: Signal, message: Any) -> list[tuple[bytes, tuple[str, ...]]]:
    found = []
    for entry in getattr(message, signal.entries):
        for group in getattr(entry, signal.groups):
            for item in getattr(group, signal.items):
                item.status.SetInParent() if signal is TRACES else item.body.SetInParent()
                found.append(flat(item, around_message(entry, group)))
    return sorted(found)


def stored_items(store: Store, signal: Signal, project: str) -> list[tuple[bytes, tuple[str, ...]]]:
    if signal is TRACES:
        rows = store.rows(SPAN_ROWS, {"project": project})
        for row in rows:
            row["end_ns"] = int(row["end_ns"])
        spans = [(span_of(row), around(row)) for row in rows]
        for span, _ in spans:
            span.status.SetInParent()
        return sorted(flat(span, head) for span, head in spans)
    logs = [(log_of(row), around(row)) for row in store.rows(LOG_ROWS, {"project": project})]
    return sorted(flat(log, head) for log, head in logs)


@pytest.mark.parametrize("path", REQUESTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_stored_request_reads_back_as_the_message_that_was_sent(
    store: Store, project: str, tmp_path: Path, path: Path
) -> None:
    signal = LOGS if ".logs." in path.name else TRACES
    body = path.read_bytes()
    checked = check_protobuf(signal, body)
    assert checked.body == body, "a clean body passes as the bytes it came in"
    store_bodies(store, tmp_path, signal, project, [body])
    sent = items_of(signal, signal.request.FromString(body))
    assert sent
    assert stored_items(store, signal, project) == sent


@pytest.mark.parametrize("path", REQUESTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_same_request_in_json_becomes_the_same_protobuf(path: Path) -> None:
    signal = LOGS if ".logs." in path.name else TRACES
    message = signal.request.FromString(path.read_bytes())
    checked = check_json(signal, otlp_json(message))
    assert not checked.rejected
    assert signal.request.FromString(checked.body) == message


def test_values_of_every_kind_are_told_apart(store: Store, project: str, tmp_path: Path) -> None:
    request = TRACES.request()
    entry = request.resource_spans.add(schema_url="https://example.test/resource")
    group = entry.scope_spans.add(schema_url="https://example.test/scope")
    group.scope.name = "tests"
    group.scope.dropped_attributes_count = 2
    entry.resource.dropped_attributes_count = 3
    span = group.spans.add(
        trace_id=bytes(range(16)),
        span_id=bytes(range(8)),
        parent_span_id=b"\xff" * 8,
        trace_state="a=b",
        flags=0x301,
        name="n",
        kind=99,
        start_time_unix_nano=2**64 - 1,
        end_time_unix_nano=5,
        dropped_attributes_count=7,
        dropped_events_count=8,
        dropped_links_count=9,
    )
    span.status.code = 2
    span.status.message = "went wrong"
    for holder in (span, group.scope, entry.resource):
        _every_kind(holder.attributes)
    event = span.events.add(time_unix_nano=4, name="event", dropped_attributes_count=1)
    _every_kind(event.attributes)
    link = span.links.add(trace_id=b"t" * 16, span_id=b"s" * 8, trace_state="x=y", flags=1)
    _every_kind(link.attributes)
    for key, size in (("nul", 5), ("one", 127), ("two", 128), ("three", 16384), ("four", 2097152)):
        pair = entry.resource.attributes.add()
        pair.key = key
        pair.value.string_value = "\0" * 5 if key == "nul" else "x" * size
    body = request.SerializeToString()
    store_bodies(store, tmp_path, TRACES, project, [body])
    assert stored_items(store, TRACES, project) == items_of(TRACES, request)

    row = spans_of_traces(store, project, [span.trace_id.hex()])[span.trace_id.hex()][0]
    assert row.attributes == {
        "empty text": "",
        "text": "naïve \x00 …",
        "true": True,
        "false": False,
        "zero": 0,
        "least": -(2**63),
        "most": 2**63 - 1,
        "double": 0.1,
        "minus zero": 0.0,
        "infinite": float("inf"),
        "list": ["a", 1, None, [True]],
        "map": {"k": {"inner": 2.5}},
        "bytes": "AP8=",
        "unset": None,
        "": "empty key",
        "again": "last",
    }
    assert (row.start_ns, row.end_ns, row.kind) == (2**64 - 1, 5, 99)
    assert row.parent_id == "ff" * 8
    assert row.events[0].attributes["list"] == ["a", 1, None, [True]]
    assert row.links[0]["attributes"]["map"] == {"k": {"inner": 2.5}}
    assert row.resource["text"] == "naïve \x00 …"
    assert row.scope_attributes["bytes"] == "AP8="
    marks = store.value("SELECT marks FROM spans WHERE project = {p:String}", {"p": project})
    assert marks == 1 | 2, "it ends before it starts, and both are far off"


def _every_kind(attributes: Any) -> None:
    def add(key: str) -> Any:
        pair = attributes.add()
        pair.key = key
        return pair.value

    add("empty text").string_value = ""
    add("text").string_value = "naïve \x00 …"
    add("true").bool_value = True
    add("false").bool_value = False
    add("zero").int_value = 0
    add("least").int_value = -(2**63)
    add("most").int_value = 2**63 - 1
    add("double").double_value = 0.1
    add("minus zero").double_value = -0.0
    add("infinite").double_value = float("inf")
    items = add("list").array_value.values
    items.add().string_value = "a"
    items.add().int_value = 1
    items.add()
    items.add().array_value.values.add().bool_value = True
    pair = add("map").kvlist_value.values.add()
    pair.key = "k"
    inner = pair.value.kvlist_value.values.add()
    inner.key = "inner"
    inner.value.double_value = 2.5
    add("bytes").bytes_value = b"\x00\xff"
    attributes.add().key = "unset"
    add("").string_value = "empty key"
    add("again").int_value = 1
    add("again").string_value = "last"


def test_one_segment_serves_many_projects_and_counts_each_body_once(
    store: Store, project: str, tmp_path: Path
) -> None:
    paths = [path for path in REQUESTS if ".traces." in path.name]
    for number, path in enumerate(paths):
        store_bodies(store, tmp_path, TRACES, f"{project}-{number % 3}", [path.read_bytes()])
    sent = sum(len(items_of(TRACES, TRACES.request.FromString(p.read_bytes()))) for p in paths)
    where = {"p": f"{project}-%"}
    assert store.value("SELECT count() FROM spans WHERE project LIKE {p:String}", where) == sent
    for table in ("trace_index", "rollup_minute"):
        total = store.value(
            f"SELECT sum(spans) FROM {table} WHERE project LIKE {{p:String}}", where
        )
        assert total == sent
    assert (
        store.value("SELECT sum(n) FROM trace_touch WHERE project LIKE {p:String}", where) == sent
    )


def test_the_same_segment_inserted_again_changes_no_table(
    store: Store, project: str, tmp_path: Path
) -> None:
    tables = ("spans", "trace_index", "trace_touch", "rollup_minute", "attr_keys", "bodies", "logs")

    def counts() -> list[Any]:
        asked = {"p": project}
        return [
            store.row(
                f"SELECT count() AS rows, "
                f"{'sum(spans)' if table in ('trace_index', 'rollup_minute') else '0'} AS spans, "
                f"{'sum(seen)' if table == 'attr_keys' else '0'} AS seen "
                f"FROM {table} WHERE project = {{p:String}}",
                asked,
            )
            for table in tables
        ]

    for signal in (TRACES, LOGS):
        bodies = [path.read_bytes() for path in REQUESTS if f".{signal.name}." in path.name]
        store_bodies(store, tmp_path, signal, project, bodies)
    first = counts()
    assert all(row["rows"] for row in first)
    for signal in (TRACES, LOGS):
        bodies = [path.read_bytes() for path in REQUESTS if f".{signal.name}." in path.name]
        store_bodies(store, tmp_path, signal, project, bodies)
    assert counts() == first


def test_a_span_in_two_bodies_is_read_once_and_logs_are_joined_to_it(
    store: Store, project: str, tmp_path: Path
) -> None:
    folder = CAPTURES / "otel-openai-v2-legacy-events"
    traces = [path.read_bytes() for path in sorted(folder.glob("*.traces.pb"))]
    logs = [path.read_bytes() for path in sorted(folder.glob("*.logs.pb"))]
    again = TRACES.request.FromString(traces[0])
    again.resource_spans[0].resource.dropped_attributes_count = 1
    store_bodies(store, tmp_path, TRACES, project, [*traces, again.SerializeToString()])
    store_bodies(store, tmp_path, LOGS, project, logs)
    sent = {
        span.span_id.hex(): span.trace_id.hex()
        for body in traces
        for entry in TRACES.request.FromString(body).resource_spans
        for group in entry.scope_spans
        for span in group.spans
    }
    found = spans_of_traces(store, project, sorted(set(sent.values())))
    read = [span for spans in found.values() for span in spans]
    assert sorted(span.span_id for span in read) == sorted(sent)
    assert all(
        [s.start_ns for s in spans] == sorted(s.start_ns for s in spans) for spans in found.values()
    )
    records = [
        log
        for trace_logs in logs_of_traces(store, project, list(found)).values()
        for log in trace_logs
    ]
    assert records
    assert all(log.span_id in sent for log in records if log.span_id)
    assert {log.event_name for log in records} >= {"gen_ai.user.message", "gen_ai.choice"}
