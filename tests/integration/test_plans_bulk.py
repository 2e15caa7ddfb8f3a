"""Bulk promotion, disagreements and labels to look at again, on a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from tests.support.plans_app import App, good, running_app
from tests.support.refund import QUESTION, send_turn
from tests.support.server import Answer, Server, serving, stagewatch, until

pytestmark = pytest.mark.integration

WRONG = "You can request a refund within 14 days of delivery."
RIGHT = "You can request a refund within 30 days of delivery."


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("bulk") / "data") as started:
        exporter = OTLPSpanExporter(endpoint=f"{started.otlp_http}/v1/traces")
        send_turn(exporter, answer=RIGHT, release="fine")
        send_turn(exporter, answer=WRONG, release="bulk")
        send_turn(exporter, answer=WRONG, release="bulk")
        send_turn(exporter, question="Do you sell gift cards?", answer="No.", release="bulk")
        for turn in started.turns(4):
            started.scored(turn["turn_id"])
        yield started


def as_person(
    server: Server, name: str, method: str, path: str, body: object | None = None
) -> Answer:
    return server.call(method, f"/api/v1{path}", body, {"x-stagewatch-user": name})


def tally(found: dict[str, Any]) -> tuple[int, int, int, int]:
    return found["promoted"], found["already"], found["retired"], found["duplicates"]


def test_a_bulk_promotion_is_shown_first_and_then_done_once(server: Server) -> None:
    asked = {"dataset": "bulk", "release": "bulk"}
    shown = server.post("/promote", {**asked, "dry_run": True}, 200)
    assert (shown["matched"], shown["looked_at"], shown["dry_run"]) == (3, 3, True)
    assert tally(shown) == (2, 0, 0, 1)
    assert sum(shown["kinds"].values()) == 2
    assert server.call("GET", "/api/v1/datasets/bulk/rows").status == 404

    done = server.post("/promote", asked, 200)
    assert tally(done) == tally(shown)
    assert done["items"] == shown["items"]
    rows = server.get("/datasets/bulk/rows")["items"]
    assert {row["question"] for row in rows} == {QUESTION, "Do you sell gift cards?"}
    ids = {row["row_id"] for row in rows}
    twin = next(item for item in done["items"] if item["outcome"] == "duplicate")
    assert twin["row_id"] in ids

    assert tally(server.post("/promote", asked, 200)) == (0, 2, 0, 1)
    assert {row["row_id"] for row in server.get("/datasets/bulk/rows")["items"]} == ids
    both = server.post("/promote", {**asked, "with_duplicates": True}, 200)
    assert tally(both) == (1, 2, 0, 0)


def test_bulk_rows_are_those_of_single_promotion(server: Server) -> None:
    turn = server.get("/turns?release=fine")["items"][0]
    one = server.post(f"/turns/{turn['turn_id']}/promote", {"dataset": "single"}, 201)
    server.post("/promote", {"dataset": "many", "release": "fine"}, 200)
    many = server.get("/datasets/many/rows")["items"][0]
    for other in ("row_id", "dataset"):
        one.pop(other), many.pop(other)
    assert {k: v for k, v in one.items() if k != "duplicates"} == many


def test_a_retired_row_is_not_promoted_again_in_bulk(server: Server) -> None:
    asked = {"dataset": "retiring", "release": "fine"}
    row_id = server.post("/promote", asked, 200)["items"][0]["row_id"]
    server.call("DELETE", f"/api/v1/datasets/retiring/rows/{row_id}")
    assert tally(server.post("/promote", asked, 200)) == (0, 0, 1, 0)
    assert server.get("/datasets/retiring/rows")["total"] == 0


def test_a_bulk_promotion_closes_flags(server: Server) -> None:
    exporter = OTLPSpanExporter(endpoint=f"{server.otlp_http}/v1/traces")
    trace_id = send_turn(exporter, question="Is it closed?", release="flagged")
    until("the turn", lambda: server.get("/turns?release=flagged")["items"] or None)
    server.post("/feedback", {"trace_id": trace_id, "kind": "disputed"}, 201)
    asked = {"dataset": "flagged", "release": "flagged", "flagged": True}
    assert server.post("/promote", {**asked, "dry_run": True}, 200)["promoted"] == 1
    assert server.get("/turns?release=flagged&flagged=true")["total"] == 1
    server.post("/promote", asked, 200)
    assert server.get("/turns?release=flagged&flagged=true")["total"] == 0


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "dataset"),
        ({"dataset": "x", "limit": 501}, "limit"),
        ({"dataset": "x", "metric": "faithfulness"}, "below"),
        ({"dataset": "x", "colour": "red"}, "colour"),
    ],
)
def test_a_bulk_promotion_says_what_is_wrong(
    server: Server, body: dict[str, Any], says: str
) -> None:
    answer = server.call("POST", "/api/v1/promote", body)
    assert answer.status == 400, answer.body
    assert says in answer.json()["detail"]


def test_bulk_promotion_from_the_command_line(server: Server, tmp_path: Path) -> None:
    words = ("dataset", "add", "shell", "--filter", "release=bulk", "--filter", "q=gift")
    shown = stagewatch(server, tmp_path, *words, "--dry-run")
    assert "would promote 1" in shown.stdout, shown.stderr
    done = stagewatch(server, tmp_path, *words, "--json")
    assert json.loads(done.stdout)["promoted"] == 1, done.stderr
    wrong = stagewatch(server, tmp_path, "dataset", "add", "shell", "--filter", "colour=red")
    assert wrong.returncode == 2
    assert "--filter" in wrong.stderr


def test_a_disagreement_is_shown_until_somebody_settles_it(server: Server) -> None:
    made = as_person(server, "Ann", "POST", "/datasets", {"name": "argued"})
    assert made.status == 201
    row = {"question": "How long?", "kind": "stale_policy", "expected_output": ["30 days"]}
    added = as_person(server, "Ann", "POST", "/datasets/argued/rows", row).json()["row"]
    path = f"/datasets/argued/rows/{added['row_id']}"
    own = as_person(server, "Ann", "POST", f"{path}/refuse", {"reason": "hm"})
    assert own.status == 403
    assert as_person(server, "Bea", "POST", f"{path}/refuse", {}).status == 400
    refused = as_person(server, "Bea", "POST", f"{path}/refuse", {"reason": "v8 says 60 <b>"})
    assert refused.json()["row"]["status"] == "needs_review"
    page = server.call("GET", "/datasets/argued").body.decode()
    assert "Bea refused the label: v8 says 60 &lt;b&gt;" in page

    edit = {"expected_output": ["60 days"]}
    assert as_person(server, "Cyd", "PUT", path, edit).status == 200
    page = server.call("GET", "/datasets/argued").body.decode()
    assert "Cyd changed the label of Ann" in page
    assert "refused the label" not in page
    assert as_person(server, "Cyd", "POST", f"{path}/confirm").status == 403
    assert as_person(server, "Ann", "POST", f"{path}/confirm").status == 200
    assert "disagreement" not in server.call("GET", "/datasets/argued").body.decode()

    story = [(e["by"], e["action"], e["status"]) for e in server.get(f"{path}/history")["items"]]
    assert story == [
        ("Ann", "row.add", "needs_review"),
        ("Bea", "row.refuse", "needs_review"),
        ("Cyd", "row.edit", "needs_review"),
        ("Ann", "row.confirm", "confirmed"),
    ]
    changed = server.get(f"{path}/history")["items"][2]["changes"]
    wanted = {"field": "expected_output", "before": ["30 days"], "after": ["60 days"]}
    assert wanted in changed
    shown = server.call("GET", path).body.decode()
    assert "confirmed the label" in shown
    assert server.call("GET", "/api/v1/datasets/argued/rows/none/history").status == 404


def test_a_refused_label_counts_in_no_gate_even_of_a_happy_row(server: Server, app: App) -> None:
    as_person(server, "Ann", "POST", "/datasets", {"name": "refused"})
    row = {"question": "How long?", "expected_output": ["30 days"]}
    added = as_person(server, "Ann", "POST", "/datasets/refused/rows", row).json()["row"]
    assert added["status"] == "confirmed"
    run_id = ran(server, app, "refused")
    path = f"/datasets/refused/rows/{added['row_id']}/refuse"
    as_person(server, "Bea", "POST", path, {"reason": "not so"})
    again = ran(server, app, "refused")
    gate = server.post("/gate", {"baseline": run_id, "candidate": again})
    assert gate["waiting"] == 1


@pytest.fixture(scope="module")
def app() -> Iterator[App]:
    with running_app() as started:
        yield started


def ran(server: Server, app: App, dataset: str) -> str:
    """Run a plan on a dataset's present rows; the run's id."""
    server.post(f"/datasets/{dataset}/versions", {}, 201)
    plan = {
        "name": dataset, "dataset": dataset, "top_k": 2,
        "connector": {"url": app.url, "paths": {"chunk_id": "id"}},
    }  # fmt: skip
    server.post("/plans", plan, 201)
    run_id: str = server.post(f"/plans/{dataset}/runs", {}, 202)["run_id"]

    def finished() -> bool:
        return bool(server.get(f"/runs/{run_id}")["state"] == "finished")

    until("the run to end", finished)
    return run_id


def test_rows_that_fail_with_every_stage_passing_are_to_be_checked(
    server: Server, app: App
) -> None:
    as_person(server, "Ann", "POST", "/datasets", {"name": "odd"})
    asked = "Customers may request a refund within how many days of delivery?"
    row = {
        "question": asked, "expected_output": ["Refunds take 90 days to request."],
        "needs": [{"any_of": [{"chunk_id": "refunds#1"}]}],
    }  # fmt: skip
    row_id = as_person(server, "Ann", "POST", "/datasets/odd/rows", row).json()["row"]["row_id"]
    app.reply = good
    run_id = ran(server, app, "odd")
    found = server.get("/datasets/odd/recheck")["items"]
    assert [(item["row_id"], item["run_id"]) for item in found] == [(row_id, run_id)]
    assert "Re-check labels" in server.call("GET", "/datasets/odd").body.decode()
    as_person(server, "Bea", "POST", f"/datasets/odd/rows/{row_id}/confirm")
    assert server.get("/datasets/odd/recheck")["items"] == []


def test_a_dispute_over_a_turn_that_passes_is_to_be_checked(server: Server) -> None:
    turn = server.get("/turns?release=fine")["items"][0]
    said = {"trace_id": turn["trace_id"], "kind": "disputed", "comment": "no"}
    server.post("/feedback", said, 201)

    def listed() -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = server.get("/review/recheck")["items"]
        return [item for item in items if item["turn_id"] == turn["turn_id"]]

    assert until("the turn", lambda: listed() or None)[0]["reasons"] == ["disputed"]
    assert "Re-check labels" in server.call("GET", "/review").body.decode()
    server.post(f"/review/{turn['turn_id']}", {"action": "reject"})
    assert listed() == []
