"""Plans, runs, diffs and the gate over HTTP, and their pages."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.plans_app import App, good, running_app
from tests.support.server import Server, serving, until

pytestmark = pytest.mark.integration

EVIL = "<script>alert(1)</script>'\"</title>"
NEEDS = [{"any_of": [{"chunk_id": "refunds#1"}]}]


@pytest.fixture(scope="module")
def app() -> Iterator[App]:
    with running_app() as started:
        yield started


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("plans") / "data", APP_TOKEN="hush",
                 STAGEWATCH_PLAN_ENV="APP_TOKEN") as started:  # fmt: skip
        started.post("/datasets", {"name": "d"}, 201)
        for question in ("How many days to request a refund?", f"refund {EVIL}"):
            row = {"question": question, "kind": "happy_path", "needs": NEEDS}
            started.post("/datasets/d/rows", row, 201)
        trap = {"question": "refund delivery trap?", "kind": "near_miss", "needs": NEEDS}
        started.post("/datasets/d/rows", trap, 201)
        started.post("/datasets/d/versions", {}, 201)
        yield started


def plan(app: App, name: str, **fields: Any) -> dict[str, Any]:
    connector = {"url": f"{app.url}/ask", **fields.pop("connector", {})}
    return {"name": name, "dataset": "d", "top_k": 2, "connector": connector, **fields}


def ended(server: Server, run_id: str) -> dict[str, Any]:
    def ask() -> dict[str, Any] | None:
        found: dict[str, Any] = server.get(f"/runs/{run_id}")
        return None if found["progress"] else found

    return until("the run to end", ask)


def run_of(server: Server, app: App, name: str, **fields: Any) -> dict[str, Any]:
    server.post("/plans", plan(app, name, **fields), 201)
    started = server.post(f"/plans/{name}/runs", {}, 202)
    assert started["forecast"]["rows"] == 3
    return ended(server, started["run_id"])


def test_a_run_tells_metric_by_metric_and_row_by_row(server: Server, app: App) -> None:
    run = run_of(server, app, "whole",
                 connector={"headers": {"authorization": "Bearer ${APP_TOKEN}"}})  # fmt: skip
    assert app.headers[-1]["authorization"] == "Bearer hush"
    assert (run["state"], run["version"], run["dataset"]) == ("finished", 1, "d")
    assert sum(run["counts"].values()) == 3
    recall = next(m for m in run["metrics"] if m["metric"] == "context_recall")
    assert recall["judged"] == 3
    assert sum(item["n"] for item in recall["bins"]) == 3
    assert {k["kind"]: k["waiting"] for k in run["kinds"]} == {"happy_path": 0, "near_miss": 1}
    row = run["items"][0]
    assert row["scores"]["context_recall"]["basis"] == "gold"
    whole = server.get(f"/runs/{run['run_id']}/rows/{row['row_id']}")
    assert whole["turn"]["window"][0]["chunk_id"] == "refunds#1"
    assert "hush" not in json.dumps([run, whole, server.get("/plans")["items"]])
    assert server.get("/runs?plan=whole")["items"][0]["run_id"] == run["run_id"]


def test_diff_and_gate_over_http(server: Server, app: App) -> None:
    first = run_of(server, app, "two")
    old = [{"id": "gifts#1", "content": "Gift cards are valid for 3 years."}]
    app.reply = lambda _: (200, json.dumps({"answer": "3 years.", "chunks": old}).encode(), {})
    try:
        second = run_of(server, app, "two")
    finally:
        app.reply = good
    diff = server.get(f"/runs/{first['run_id']}/diff/{second['run_id']}")
    assert diff["common"] == 3
    assert {r["after"] for rows in diff["flipped"].values() for r in rows} == {"fail"}
    assert "recall down" in diff["sentence"]
    # The only trap row waits for a second person: the rows that broke are under no condition.
    strict = server.post("/gate", {})
    assert (strict["baseline"], strict["candidate"]) == (first["run_id"], second["run_id"])
    assert (strict["outcome"], strict["exit_code"], strict["waiting"]) == ("cannot_tell", 2, 1)
    assert "no condition looks at" in strict["conditions"][-1]["sentence"]
    lenient = server.post("/gate", {"options": {"require_second_reviewer": False}})
    assert (lenient["outcome"], lenient["exit_code"]) == ("blocked", 1)
    reverse = {"baseline": second["run_id"], "candidate": first["run_id"],
               "options": {"require_second_reviewer": False}}  # fmt: skip
    assert server.post("/gate", reverse)["outcome"] == "pass"


def test_pages_show_runs_and_escape_what_they_show(server: Server, app: App) -> None:
    one, two = run_of(server, app, "pages"), run_of(server, app, "pages")
    evil = next(row for row in one["items"] if "script" in row["question"])
    for path in (
        "/runs", f"/runs/{one['run_id']}", f"/runs/{one['run_id']}?verdict=pass&kind=happy_path",
        f"/runs/{one['run_id']}/rows/{evil['row_id']}",
        f"/runs/{one['run_id']}/diff/{two['run_id']}",
        f"/runs/compare?a={one['run_id']}&b={two['run_id']}",
    ):  # fmt: skip
        page = server.call("GET", path, headers={"accept": "text/html"})
        assert page.status == 200, (path, page.body[:500], server.output())
        assert b"<script>alert" not in page.body, path
    assert server.call("GET", "/runs/none", headers={"accept": "text/html"}).status == 404


def test_a_run_can_be_stopped_and_resumed(server: Server, app: App) -> None:
    told = threading.Event()

    def once_told(body: dict[str, Any]) -> tuple[int, bytes, dict[str, str]]:
        told.wait(60)
        return good(body)

    app.reply = once_told
    try:
        server.post("/plans", plan(app, "slow", connector={"concurrency": 1}), 201)
        run_id = server.post("/plans/slow/runs", {}, 202)["run_id"]
        assert server.post(f"/runs/{run_id}/stop", {}, 202)["stopping"] is True
        told.set()
        assert ended(server, run_id)["state"] == "stopped"
    finally:
        told.set()
        app.reply = good
    server.post(f"/runs/{run_id}/resume", {}, 202)
    assert ended(server, run_id)["state"] == "finished"
    elsewhere = plan(app, "slow", connector={"url": f"{app.url}/other"})
    server.post("/plans", elsewhere, 201)
    refused = server.call("POST", f"/api/v1/runs/{run_id}/resume", {})
    assert refused.status == 409
    assert "connector is another one now" in refused.json()["detail"]


def test_a_run_from_elsewhere_can_be_brought_in_once(server: Server, app: App) -> None:
    run = run_of(server, app, "export")
    body = server.get(f"/runs/{run['run_id']}/export")
    body["run"]["run_id"] = "from-ci"
    assert server.post("/runs/import", body, 201) == {"run_id": "from-ci", "rows": 3}
    assert server.get(f"/runs/from-ci/diff/{run['run_id']}")["common"] == 3
    assert server.call("POST", "/api/v1/runs/import", body).status == 409
    body["run"]["run_id"] = "../x"
    assert server.call("POST", "/api/v1/runs/import", body).status == 400


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "says"),
    [
        ("POST", "/plans", {"name": "x"}, 400, "connector"),
        ("POST", "/plans", {"name": "x", "connector": {"kind": "python", "call": "os:system"}}, 400, "command line"),
        ("POST", "/plans/none/runs", {}, 404, "no plan"),
        ("GET", "/runs/none", None, 404, "no run"),
        ("GET", "/runs/none/rows/x", None, 404, "no row"),
        ("GET", "/runs/none/diff/none", None, 404, "no run"),
        ("POST", "/gate", {"candidate": "none"}, 404, "no run"),
        ("POST", "/gate", {"baseline": "../x"}, 400, "baseline"),
        ("POST", "/gate", {"plan_id": "none"}, 404, "no run"),
        ("POST", "/runs/import", {"run": {}}, 400, "RunFile"),
    ],
)  # fmt: skip
def test_bad_input_says_what_is_wrong(
    server: Server, method: str, path: str, body: object, status: int, says: str
) -> None:
    answer = server.call(method, f"/api/v1{path}", body)
    assert answer.status == status, answer.body
    assert says in answer.json()["detail"]


def test_a_plan_may_read_only_the_variables_the_server_names(server: Server, app: App) -> None:
    asked = plan(app, "greedy", connector={"headers": {"x-key": "${OPENAI_API_KEY}"}})
    server.post("/plans", asked, 201)
    refused = server.call("POST", "/api/v1/plans/greedy/runs", {})
    assert refused.status == 400
    assert "STAGEWATCH_PLAN_ENV" in refused.json()["detail"]


def test_missing_columns_are_named_before_a_run_starts(server: Server, app: App) -> None:
    server.post("/plans", plan(app, "lacking", metrics=["answer_precision"]), 201)
    refused = server.call("POST", "/api/v1/plans/lacking/runs", {})
    assert refused.status == 400
    assert "missing columns: expected_output" in refused.json()["detail"]


def test_who_may_do_what(tmp_path: Path, app: App) -> None:
    with serving(tmp_path / "data") as closed:
        made = closed.post("/keys", {"name": "Ops", "project": "*", "roles": ["admin"]}, 201)
        admin = {"authorization": f"Bearer {made['key']}"}

        def key(role: str) -> dict[str, str]:
            body = {"name": role, "project": "default", "roles": [role]}
            return {"x-api-key": closed.call("POST", "/api/v1/keys", body, admin).json()["key"]}

        read, write = key("read"), key("write")
        asked = plan(app, "p")
        assert closed.call("POST", "/api/v1/plans", asked, write).status == 403
        assert closed.call("POST", "/api/v1/plans", asked, admin).status == 201
        assert closed.call("GET", "/api/v1/plans", headers=read).status == 200
        assert closed.call("POST", "/api/v1/plans/p/runs", {}, read).status == 403
        assert closed.call("POST", "/api/v1/plans/p/runs", {}, write).status == 404
