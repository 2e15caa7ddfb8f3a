"""Running plans against a real app over HTTP, on the real engine."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.support.plans_app import App, good, running_app

from stagewatch.core.clock import SystemClock
from stagewatch.core.codec import from_json
from stagewatch.core.errors import ConflictError, InvalidInputError
from stagewatch.core.model import Chunk, DatasetRow, Need, Passage, Turn
from stagewatch.core.store import Store
from stagewatch.core.store.runs import list_runs, run_row_bodies
from stagewatch.scorer.plans.launch import (
    Access,
    Launch,
    Source,
    load_summaries,
    need_run,
    prepare_run,
    store_start,
)
from stagewatch.scorer.plans.plan import parse_plan
from stagewatch.scorer.plans.results import Run, RunRow, run_from_bytes, run_to_bytes
from stagewatch.scorer.plans.run import Progress, run_plan

pytestmark = pytest.mark.integration

REFUND_NEED = (Need((Passage("refunds#1", "refunds", "v7"),)),)


@pytest.fixture
def app() -> Iterator[App]:
    with running_app() as started:
        yield started


def rows_of(n: int) -> list[DatasetRow]:
    return [
        DatasetRow(
            f"r{i:03}", "d", 1, "happy_path", "unknown",
            f"How many days to request a refund, case {i}?", needs=REFUND_NEED, status="confirmed",
            expected_output=("A refund can be requested within 30 days of delivery.",),
        )
        for i in range(n)
    ]  # fmt: skip


def prepared(
    store: Store, app: App, project: str, rows: list[DatasetRow], *, resume: str | None = None,
    environ: dict[str, str] | None = None, connector: dict[str, Any] | None = None, **fields: Any,
) -> Launch:  # fmt: skip
    plan = parse_plan(
        {
            "name": "p", "top_k": 1,
            "connector": {"url": f"{app.url}/ask", "concurrency": 4, **(connector or {})},
            **fields,
        }
    )  # fmt: skip
    return prepare_run(
        store, store.settings, SystemClock(), plan, Source("d", 1, rows), Access(environ or {}),
        project=project, by="t", resume=resume,
    )  # fmt: skip


def carried_out(store: Store, launch: Launch, **more: Any) -> Run:
    store_start(store, launch)
    return run_plan(store, launch.run, launch.bench, launch.rows, **more)


def whole_rows(store: Store, project: str, run_id: str) -> list[RunRow]:
    return [from_json(RunRow, body) for body in run_row_bodies(store, project, run_id)]


def test_rows_are_asked_scored_and_stored(store: Store, project: str, app: App) -> None:
    seen: list[Progress] = []
    run = carried_out(
        store,
        prepared(store, app, project, rows_of(5), connector={"paths": {"index_version": "index"}}),
        progress=seen.append,
    )
    assert (run.state, run.counts) == ("finished", {"pass": 5, "fail": 0, "errored": 0})
    assert run.pipeline == {"index_version": ("kb-1",)}
    assert [p.done for p in seen] == [0, 1, 2, 3, 4, 5]
    assert need_run(store, project, run.run_id) == run
    row = whole_rows(store, project, run.run_id)[0]
    assert row.turn is not None
    assert [chunk.chunk_id for chunk in row.turn.window] == ["refunds#1"]
    assert len(row.turn.retrievals[0].chunks) == 2
    assert row.turn.window[0].relevant is True
    scores = {score.metric: score for score in row.scores}
    assert scores["context_recall"].basis == "gold"
    assert scores["answer_precision"].value == 1.0
    assert row.claims[0].label == "SUPPORTED"
    again = run_from_bytes(run_to_bytes(run, whole_rows(store, project, run.run_id)))
    assert again.rows[0] == row


def test_only_the_plans_metrics_are_scored_and_decide(store: Store, project: str, app: App) -> None:
    launch = prepared(
        store, app, project, rows_of(1), metrics=["context_recall", "context_precision"],
        thresholds={"context_precision": 1.1},
    )  # fmt: skip
    run = carried_out(store, launch)
    row = load_summaries(store, project, run.run_id)[0]
    assert set(row.scores) == {"context_recall", "context_precision"}


def test_no_more_rows_are_under_way_than_the_plan_says(
    store: Store, project: str, app: App
) -> None:
    app.wait_s = 0.05
    carried_out(store, prepared(store, app, project, rows_of(12), connector={"concurrency": 3}))
    assert app.most_under_way == 3


def test_a_stopped_run_goes_on_with_the_rows_it_lacks(store: Store, project: str, app: App) -> None:
    stop = threading.Event()

    def halt(progress: Progress) -> None:
        if progress.done >= 3:
            stop.set()

    first = carried_out(store, prepared(store, app, project, rows_of(10)), progress=halt, stop=stop)
    assert first.state == "stopped"
    kept = len(load_summaries(store, project, first.run_id))
    assert 3 <= kept < 10
    launch = prepared(store, app, project, rows_of(10), resume=first.run_id)
    assert launch.forecast.rows == 10 - kept
    second = carried_out(store, launch)
    assert (second.run_id, second.state) == (first.run_id, "finished")
    assert second.counts == {"pass": 10, "fail": 0, "errored": 0}
    assert set(app.asked.values()) == {1}
    assert len(list_runs(store, project)) == 1
    with pytest.raises(ConflictError, match="is finished"):
        prepared(store, app, project, rows_of(10), resume=first.run_id)


def test_errored_rows_are_kept_apart_and_asked_again_on_demand(
    store: Store, project: str, app: App
) -> None:
    def half(body: dict[str, Any]) -> tuple[int, bytes, dict[str, str]]:
        odd = int(str(body["question"]).rstrip("?").split()[-1]) % 2
        return (500, b"secret words", {}) if odd else good(body)

    app.reply = half
    run = carried_out(store, prepared(store, app, project, rows_of(6)))
    assert run.state == "finished"
    assert run.counts == {"pass": 3, "fail": 0, "errored": 3}
    lost = [row for row in load_summaries(store, project, run.run_id) if row.verdict == "errored"]
    assert {row.error for row in lost} == {"the app answered 500"}
    app.reply = good
    launch = prepared(store, app, project, rows_of(6), resume=run.run_id)
    mended = carried_out(store, launch, retry_errored=True)
    assert mended.counts == {"pass": 6, "fail": 0, "errored": 0}
    assert sorted(app.asked.values()) == [1, 1, 1, 2, 2, 2]


def reply_with(body: object, status: int = 200, **headers: str) -> Any:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda _: (status, data, dict(headers))


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (reply_with({"answer": "x"}), "retrieval context path $.chunks found nothing: check the path"),
        (reply_with({"chunks": []}), "answer path $.answer found nothing: check the path"),
        (reply_with({"answer": "x", "chunks": [{"body": "t"}]}), "chunk paths (content content, id id) found nothing"),
        (reply_with(b"<html>"), "the app's answer is not JSON"),
        (reply_with({}, 429), "the app answered 429"),
        (reply_with({}, 302, Location="http://127.0.0.1:1/"), "the app answered 302"),
    ],
)  # fmt: skip
def test_when_every_row_errors_the_run_stops_and_says_why(
    store: Store, project: str, app: App, reply: Any, says: str
) -> None:
    app.reply = reply
    run = carried_out(store, prepared(store, app, project, rows_of(30)))
    assert run.state == "stopped"
    assert run.note.startswith("every row errors: ")
    assert says in run.note
    assert sum(app.asked.values()) < 15


def test_an_app_that_does_not_answer_in_time_is_an_errored_row(
    store: Store, project: str, app: App
) -> None:
    app.wait_s = 0.6
    launch = prepared(store, app, project, rows_of(1), connector={"timeout_s": 0.1})
    run = carried_out(store, launch)
    assert load_summaries(store, project, run.run_id)[0].error == (
        "the app did not answer in 0.1 s"
    )
    gone = prepared(store, app, project, rows_of(1), connector={"url": "http://127.0.0.1:9/"})
    run = carried_out(store, gone)
    assert "cannot be reached" in load_summaries(store, project, run.run_id)[0].error


def test_an_empty_list_is_an_answer_and_a_missing_path_is_not(
    store: Store, project: str, app: App
) -> None:
    app.reply = reply_with({"answer": "I could not find that.", "chunks": []})
    run = carried_out(store, prepared(store, app, project, rows_of(1)))
    row = load_summaries(store, project, run.run_id)[0]
    assert row.error == ""
    assert row.scores["context_recall"].value == 0.0


def test_fixed_context_scores_the_generator_alone_on_stored_passages(
    store: Store, project: str, app: App
) -> None:
    stored = Chunk(1, "refunds#1", "refunds", "v7", "Refunds are possible within 30 days.")
    turn = Turn("t-s", "t", "s", project, "bot", SystemClock().now(), 1.0, "q", "a",
                window=(stored,))  # fmt: skip
    rows = [replace(rows_of(1)[0], turn=turn, expected_output=())]
    app.reply = lambda body: (
        200, json.dumps({"answer": body["context"][0]["content"]}).encode(), {}
    )  # fmt: skip
    launch = prepared(
        store, app, project, rows, mode="fixed_context",
        connector={"body": {"question": "{{question}}", "context": "{{context}}"}},
    )  # fmt: skip
    run = carried_out(store, launch)
    assert app.bodies[0]["context"][0]["id"] == "refunds#1"
    row = load_summaries(store, project, run.run_id)[0]
    assert (row.verdict, row.stage) == ("pass", "ok")
    assert set(row.scores) <= {"faithfulness", "answer_relevancy", "answer_precision", "refusal"}


def test_credentials_come_from_the_environment_and_are_stored_nowhere(
    store: Store, project: str, app: App
) -> None:
    launch = prepared(
        store, app, project, rows_of(1), environ={"BOT_TOKEN": "hush-7"},
        connector={"headers": {"authorization": "Bearer ${BOT_TOKEN}"}},
    )  # fmt: skip
    run = carried_out(store, launch)
    assert app.headers[0]["authorization"] == "Bearer hush-7"
    kept = json.dumps(list_runs(store, project)) + "".join(
        run_row_bodies(store, project, run.run_id)
    )
    assert "hush-7" not in kept
    assert "${BOT_TOKEN}" in kept


def test_a_server_imports_no_code_for_a_plan(store: Store, project: str) -> None:
    plan = parse_plan({"name": "p", "connector": {"kind": "python", "call": "os:system"}})
    with pytest.raises(InvalidInputError, match="command line only"):
        prepare_run(
            store, store.settings, SystemClock(), plan, Source("d", 1, rows_of(1)),
            Access({}, set(), local=False), project=project,
        )  # fmt: skip


def test_a_superseded_page_is_known_by_the_label_even_when_it_stands_alone(
    store: Store, project: str, app: App
) -> None:
    old = {"id": "refunds#0", "document_id": "refunds", "version": "v6",
           "content": "Customers may request a refund within 14 days of delivery."}  # fmt: skip
    app.reply = reply_with({"answer": old["content"], "chunks": [old]})
    rows = [replace(rows_of(1)[0], kind="stale_policy")]
    run = carried_out(store, prepared(store, app, project, rows))
    row = load_summaries(store, project, run.run_id)[0]
    assert (row.verdict, row.stage) == ("fail", "stale_source")


def test_the_judge_that_the_plan_fixes_is_the_only_one(
    store: Store, project: str, app: App
) -> None:
    with pytest.raises(InvalidInputError, match="the plan fixes judge other-1"):
        prepared(store, app, project, rows_of(1), judge_fingerprint="other-1")
