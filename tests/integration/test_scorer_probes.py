"""Passes of a probe over a real store and a small real app."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.support.plans_app import CHUNKS, App, good, running_app

from stagewatch.core.clock import ManualClock
from stagewatch.core.codec import from_json
from stagewatch.core.errors import ConflictError, InvalidInputError, NotFoundError
from stagewatch.core.model import DatasetRow, Need, Passage
from stagewatch.core.settings import Settings
from stagewatch.core.store import Store
from stagewatch.core.store.datasets import ensure_dataset, put_rows
from stagewatch.core.store.probes import (
    calls_on,
    mark_traces,
    newest_row_bodies,
    probe_readings,
    probe_traces_among,
)
from stagewatch.scorer.probes.ask import ProbeResult
from stagewatch.scorer.probes.passes import Surroundings, run_pass
from stagewatch.scorer.probes.probe import Probe, parse_probe
from stagewatch.scorer.probes.record import (
    Pass,
    beat_pass,
    is_due,
    passes_of,
    settled_pass,
    tell_pass,
)
from stagewatch.scorer.probes.series import probe_series

AT = datetime(2026, 11, 30, 12, tzinfo=UTC)
MONTH = timedelta(days=30)


@pytest.fixture
def app() -> Iterator[App]:
    with running_app() as started:
        yield started


class Bench:
    def __init__(self, store: Store, settings: Settings, project: str, app: App) -> None:
        self.store, self.project, self.app = store, project, app
        self.clock = ManualClock(AT)
        numbers = itertools.count(1)
        self.around = Surroundings(
            store, settings, self.clock, {}, lambda: f"{next(numbers):032x}", local=True
        )

    def rows(self, *rows: DatasetRow) -> None:
        ensure_dataset(self.store, self.project, "live", at=AT)
        put_rows(self.store, self.project, list(rows), at=AT)

    def probe(self, **fields: Any) -> Probe:
        base: dict[str, Any] = {
            "name": "p", "dataset": "live",
            "connector": {"url": f"{self.app.url}/ask", "concurrency": 2,
                          "body": {"question": "{{question}}", "rewrite": True}},
        }  # fmt: skip
        return parse_probe({**base, **fields})

    def run(self, probe: Probe, **options: Any) -> Pass:
        return run_pass(self.around, self.project, probe, **options)

    def results(self, *row_ids: str) -> dict[str, ProbeResult]:
        bodies = newest_row_bodies(self.store, self.project, "p", list(row_ids))
        found = [from_json(ProbeResult, body) for body in bodies]
        return {item.row.row_id: item for item in found}


@pytest.fixture
def bench(store: Store, settings: Settings, project: str, app: App) -> Bench:
    return Bench(store, settings, project, app)


def row(row_id: str, question: str, *chunks: str, **fields: Any) -> DatasetRow:
    needs = tuple(Need((Passage(chunk_id=chunk),)) for chunk in chunks)
    base: dict[str, Any] = {
        "row_id": row_id, "dataset": "live", "version_added": 1, "kind": "happy_path",
        "failure": "ok", "question": question, "needs": needs, "status": "confirmed",
    }  # fmt: skip
    return DatasetRow(**{**base, **fields})


REFUND = row("r1", "Within how many days may I request a refund?", "refunds#1")
GIFT = row("r2", "Are gift cards valid for years?", "gifts#1",
           expected_output=("Gift cards are valid for 3 years from the date of issue.",))  # fmt: skip


def score(result: ProbeResult, metric: str) -> tuple[str, float | None]:
    return next((s.status, s.value) for s in result.row.scores if s.metric == metric)


def test_rows_are_asked_and_scored_by_their_labels(bench: Bench) -> None:
    bench.rows(REFUND, GIFT)
    ended = bench.run(bench.probe())
    assert (ended.state, ended.rows, ended.done, ended.calls) == ("finished", 2, 2, 2)
    assert ended.counts == {"pass": 2, "fail": 0, "errored": 0}
    found = bench.results("r1", "r2")
    assert score(found["r1"], "retrieved_recall") == ("scored", 1.0)
    assert score(found["r1"], "first_relevant_rank") == ("scored", 1.0)
    assert score(found["r2"], "answer_precision") == ("scored", 1.0)
    assert passes_of(bench.store, bench.project, "p") == [ended]


def test_every_request_says_that_it_is_a_probe_and_brings_a_trace(bench: Bench) -> None:
    bench.rows(REFUND)
    bench.run(bench.probe())
    headers = bench.app.headers[0]
    assert headers["x-stagewatch-probe"] == "p"
    version, trace_id, span_id, flags = headers["traceparent"].split("-")
    assert (version, len(trace_id), len(span_id), flags) == ("00", 32, 16, "01")
    assert bench.results("r1")["r1"].trace_id == trace_id
    assert probe_traces_among(bench.store, bench.project, [trace_id, "f" * 32]) == {trace_id}
    assert probe_traces_among(bench.store, "another", [trace_id]) == set()


def test_the_trace_that_the_app_names_counts_too(bench: Bench) -> None:
    bench.rows(REFUND)
    bench.app.reply = lambda body: (
        200, json.dumps({**json.loads(good(body)[1]), "trace": "A" * 32}).encode(), {},
    )  # fmt: skip
    connector = {"url": f"{bench.app.url}/ask", "paths": {"trace_id": "trace"}}
    bench.run(bench.probe(connector=connector))
    assert bench.results("r1")["r1"].trace_id == "a" * 32
    assert probe_traces_among(bench.store, bench.project, ["a" * 32]) == {"a" * 32}


def unhelpful(body: dict[str, Any]) -> Any:
    """With its rewrite the app finds the passage second, without it first."""
    ranked = CHUNKS if not body["rewrite"] else CHUNKS[::-1]
    return 200, json.dumps({"answer": "30 days", "chunks": ranked}).encode(), {}


def test_a_rewrite_that_hurts_has_a_negative_gain(bench: Bench) -> None:
    bench.rows(REFUND, row("r3", "Who are you?", kind="unanswerable"))
    bench.app.reply = unhelpful
    raw = {"body": {"question": "{{question}}", "rewrite": False}}
    ended = bench.run(bench.probe(raw=raw))
    # The row without needs has no rank: it is asked once.
    assert (ended.rows, ended.calls) == (2, 3)
    found = bench.results("r1")["r1"]
    assert score(found, "reciprocal_rank") == ("scored", 0.5)
    assert score(found, "rewrite_gain") == ("scored", -0.5)
    series = probe_series(
        bench.store, bench.project, "p", "rewrite_gain", "pass_rate",
        since=AT - timedelta(hours=1), until=AT + timedelta(hours=1), step=timedelta(hours=2),
    )  # fmt: skip
    (point,) = series.items
    assert (point.n, point.estimate) == (1, -0.5)
    assert point.low is not None and point.high is not None
    assert -1 <= point.low < -0.5 < point.high <= 1


def test_a_gain_without_one_of_its_ranks_is_unscored(bench: Bench) -> None:
    def half(body: dict[str, Any]) -> Any:
        return good(body) if body["rewrite"] else (500, b"", {})

    bench.rows(REFUND)
    bench.app.reply = half
    bench.run(bench.probe(raw={"body": {"question": "{{question}}", "rewrite": False}}))
    found = bench.results("r1")["r1"]
    assert score(found, "rewrite_gain") == ("unscored", None)
    (gain,) = [s for s in found.row.scores if s.metric == "rewrite_gain"]
    assert gain.reason == "raw: the app answered 500"


def test_the_calls_of_the_day_are_a_hard_limit_and_rows_take_turns(bench: Bench) -> None:
    rows = [row(f"r{n}", f"refund request number {n}?", "refunds#1") for n in range(5)]
    bench.rows(*rows)
    probe = bench.probe(max_calls_per_day=7)
    assert bench.run(probe).rows == 5
    bench.clock.advance(60)
    second = bench.run(probe)
    assert (second.rows, second.state) == (2, "finished")
    assert second.note.startswith("2 of 5 rows: the 7 calls of the day are used up")
    bench.clock.advance(60)
    assert bench.run(probe).rows == 0
    assert sum(bench.app.asked.values()) == 7
    assert calls_on(bench.store, bench.project, "p", bench.clock.now()) == 7
    bench.clock.advance(86_400)
    bench.run(probe.model_copy(update={"max_calls_per_day": 3}))
    # The three that were not asked a second time yesterday come first today.
    assert sorted(bench.app.asked.values()) == [2, 2, 2, 2, 2]


def test_an_app_that_is_down_is_not_hammered(bench: Bench) -> None:
    bench.rows(*[row(f"r{n}", f"refund {n}?", "refunds#1") for n in range(40)])
    bench.app.reply = lambda _: (503, b"", {})
    ended = bench.run(bench.probe())
    assert ended.state == "stopped"
    assert ended.note == "every row errors: the app answered 503"
    assert ended.counts["errored"] == ended.done < 10
    bench.app.reply = good
    bench.clock.advance(60)
    assert bench.run(bench.probe()).state == "finished"


def test_concurrency_is_bounded_and_a_stop_ends_it(bench: Bench) -> None:
    bench.rows(*[row(f"r{n}", f"refund {n}?", "refunds#1") for n in range(30)])
    bench.app.wait_s = 0.05
    stop = threading.Event()
    reply = bench.app.reply

    def stopping(body: dict[str, Any]) -> Any:
        if sum(bench.app.asked.values()) >= 8:
            stop.set()
        return reply(body)

    bench.app.reply = stopping
    ended = bench.run(bench.probe(), stop=stop)
    assert bench.app.most_under_way == 2
    assert (ended.state, ended.note) == ("stopped", "stopped before every row was asked")
    assert 8 <= ended.done < 12


def under_way(bench: Bench, **fields: Any) -> Pass:
    item = Pass("x", "p", bench.project, "live", None, "running", AT, AT, rows=1)
    item = replace(item, **fields)
    tell_pass(bench.store, item, AT)
    return item


def test_one_pass_at_a_time(bench: Bench) -> None:
    bench.rows(REFUND)
    beat_pass(bench.store, under_way(bench))
    probe = bench.probe(every_minutes=1)
    with pytest.raises(ConflictError, match="under way"):
        bench.run(probe)
    running = settled_pass(bench.store, bench.project, "p", "", AT)
    assert running is not None
    assert not is_due(probe, running, AT + timedelta(days=1))


@pytest.mark.parametrize("owner", ["", "a-process-before"])
def test_a_pass_whose_process_died_is_ended_and_done_again(bench: Bench, owner: str) -> None:
    """It never beat, or it beat lately but the engine has another process now."""
    bench.rows(REFUND)
    item = under_way(bench, owner=owner)
    if owner:
        beat_pass(bench.store, item)
    probe = bench.probe(every_minutes=60)
    dead = settled_pass(bench.store, bench.project, "p", "", AT)
    assert dead is not None
    assert (dead.state, dead.note) == ("stopped", "its process ended before it did")
    assert is_due(probe, dead, AT)
    # Done again once: a second death in a row waits for its time.
    under_way(bench, pass_id="y", started_at=AT + timedelta(seconds=1))
    dead = settled_pass(bench.store, bench.project, "p", "", AT)
    assert dead is not None
    assert (dead.pass_id, dead.redo) == ("y", False)
    assert not is_due(probe, dead, AT + timedelta(minutes=59))
    assert bench.run(probe).state == "finished"


def test_a_pass_that_was_taken_over_ends(bench: Bench) -> None:
    """The store was away, or the process slept, for longer than others wait."""
    bench.rows(*[row(f"r{n}", f"refund {n}?", "refunds#1") for n in range(20)])
    reply = bench.app.reply

    def late(body: dict[str, Any]) -> Any:
        if bench.clock.now() == AT:
            under_way(bench, pass_id="other", started_at=AT + timedelta(seconds=5))
            bench.clock.advance(11)
        return reply(body)

    bench.app.reply = late
    ended = bench.run(bench.probe())
    assert (ended.state, ended.note) == (
        "stopped", "it was silent for too long, and another pass began",
    )  # fmt: skip
    assert ended.done < 20


def test_when_a_pass_is_due(bench: Bench) -> None:
    bench.rows(REFUND)
    probe = bench.probe(every_minutes=30)
    assert is_due(probe, None, AT)
    ended = bench.run(probe)
    assert not is_due(probe, ended, AT + timedelta(minutes=29))
    assert is_due(probe, ended, AT + timedelta(minutes=30))
    assert not is_due(probe.model_copy(update={"enabled": False}), None, AT)


def test_series_break_where_the_app_changes(bench: Bench) -> None:
    bench.rows(REFUND, GIFT)
    paths = {"release": "release"}
    connector = {"url": f"{bench.app.url}/ask", "paths": paths}

    def released(name: str, ranked: list[Any]) -> Callable[[Any], Any]:
        body = {"answer": "30 days", "chunks": ranked, "release": name}
        return lambda _: (200, json.dumps(body).encode(), {})

    probe = bench.probe(connector=connector, metrics=["retrieved_recall", "reciprocal_rank"])
    bench.app.reply = released("1", CHUNKS)
    for _ in range(3):
        bench.run(probe)
        bench.clock.advance(600)
    bench.app.reply = released("2", [])
    bench.run(probe)
    found = probe_series(
        bench.store, bench.project, "p", "retrieved_recall", "pass_rate",
        since=AT, until=AT + timedelta(hours=1), step=timedelta(hours=1),
    )  # fmt: skip
    assert [item.what for item in found.breaks] == ["release 1 → 2"]
    assert [(point.n, point.estimate) for point in found.items] == [(6, 1.0), (2, 0.0)]
    readings, _ = probe_readings(
        bench.store, bench.project, "p", "retrieved_recall", AT, AT + MONTH
    )
    # Six answers to two rows are two clusters, not six witnesses.
    assert {reading.conversation_id for reading in readings} == {"r1", "r2"}
    assert {reading.basis for reading in readings} == {"gold"}


def ask_here(body: dict[str, Any]) -> dict[str, Any]:
    """The callable of the next test."""
    return {"answer": CHUNKS[0]["content"], "chunks": CHUNKS, "asked": body["question"]}


def test_a_python_callable_is_asked_where_a_person_runs_it(bench: Bench) -> None:
    connector = {"kind": "python", "call": f"{__name__}:ask_here"}
    ended = bench.run(bench.probe(connector=connector), given=[REFUND])
    assert (ended.state, ended.counts["pass"]) == ("finished", 1)


def test_what_cannot_run_says_why(bench: Bench) -> None:
    with pytest.raises(NotFoundError, match="no dataset 'live'"):
        bench.run(bench.probe())
    bench.rows(REFUND)
    with pytest.raises(InvalidInputError, match="no rows"):
        bench.run(bench.probe(tags=["nightly"]))


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"metrics": ["beauty"]}, "unknown metric 'beauty'"),
        ({"raw": {}}, "something has to differ"),
        ({"every_minutes": 0}, "every_minutes"),
        ({"connector": {"url": "ftp://x"}}, "connector"),
        ({"connector": {"url": "http://x", "headers": {"Authorization": "s3cret"}}}, "variable"),
        ({"max_calls_per_day": 0}, "max_calls_per_day"),
        ({"judge": "openai"}, "judge_model"),
    ],
)
def test_a_probe_that_does_not_fit_is_refused(fields: dict[str, Any], says: str) -> None:
    base: dict[str, Any] = {"name": "p", "dataset": "d", "connector": {"url": "http://x/ask"}}
    with pytest.raises(InvalidInputError) as caught:
        parse_probe({**base, **fields})
    assert says in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_marked_traces_are_found_again(store: Store, project: str) -> None:
    mark_traces(store, project, "p", ["", "a" * 32, "a" * 32], at=AT)
    assert probe_traces_among(store, project, ["a" * 32, ""]) == {"a" * 32}
    assert probe_traces_among(store, project, []) == set()
