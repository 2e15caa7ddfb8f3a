"""A server whose probes cannot run, or whose app never answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.clickhouse_front import clickhouse_front
from tests.support.probes_oddapp import OddApp, odd_app
from tests.support.server import Server, serving, stagewatch, until

pytestmark = pytest.mark.fault
ROW = {"row_id": "r1", "question": "How long?", "status": "confirmed",
       "needs": [{"any_of": [{"document_id": "refunds"}]}]}  # fmt: skip


@pytest.fixture(scope="module")
def app() -> Iterator[OddApp]:
    with odd_app() as started:
        yield started


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("probes") / "data"
    with serving(folder, STAGEWATCH_PLAN_ENV="BOT_TOKEN") as started:
        make_dataset(started)
        yield started


def body(name: str, url: str, **fields: Any) -> dict[str, Any]:
    connector = {"url": url, "timeout_s": 5, **fields.pop("connector", {})}
    return {"name": name, "dataset": "golden", "connector": connector, **fields}


def test_what_cannot_run_is_refused_where_it_is_stored(server: Server, app: OddApp) -> None:
    refused = (
        body("a", "http://a..b/x"),
        body("a", "http://h/x", version=2**40),
        body("a", "http://h/x", connector={"body": {"n": 10**30}}),
        body("a", "http://h/x", connector={"headers": {"authorization": "Bearer ${BOT_TOKEN}"}}),
        body("a", "http://h/x", raw={"url": "http://b..c/"}),
    )
    for sent in refused:
        answer = server.call("POST", "/api/v1/probes", sent)
        assert answer.status == 400, (sent, answer.body)
    assert "BOT_TOKEN" in server.call("POST", "/api/v1/probes", refused[3]).json()["detail"]
    assert "a" not in [item["name"] for item in server.get("/probes")["items"]]


def test_a_run_that_cannot_begin_ends_at_once_and_says_why(
    server: Server, app: OddApp, tmp_path: Path
) -> None:
    server.post("/probes", body("tagged", f"{app.url}/ok", tags=["none"]), 201)
    ran = stagewatch(server, tmp_path, "probes", "run", "tagged")
    assert (ran.returncode, "no rows for this probe" in ran.stderr) == (2, True), ran

    def passes() -> list[dict[str, Any]] | None:
        return server.get("/probes/tagged")["passes"] or None

    (blocked,) = until("the blocked pass", passes)
    assert (blocked["state"], "no rows" in blocked["note"]) == ("blocked", True)
    assert "no rows" in server.get("/probes/tagged")["trouble"]
    assert server.call("GET", "/probes/tagged").status == 200
    assert server.output().count("a probe cannot run") == 1


def test_what_is_not_there_is_not_found(server: Server, app: OddApp) -> None:
    assert server.call("GET", "/api/v1/probes/none/passes/x").status == 404
    server.post("/probes", body("there", f"{app.url}/ok"), 201)
    assert server.call("GET", "/api/v1/probes/there/passes/x").status == 404
    assert server.call("GET", "/api/v1/channels/deliveries?channel=none").status == 404
    assert server.call("GET", "/api/v1/alerts/none/deliveries").status == 404
    hook = {"name": "ops", "url": "https://hooks.example/x"}
    server.post("/channels", hook)
    assert server.get("/channels/deliveries?channel=ops")["items"] == []
    odd: tuple[dict[str, Any], ...] = (
        {"since": "2026-01-01T00:00:00Z"},
        {"by": "x"},
        {"stages": ["kitchen"]},
        {"events": []},
    )
    for field in odd:
        assert server.call("POST", "/api/v1/channels", {**hook, **field}).status == 400, field


def test_readers_see_the_host_of_a_probe_and_no_more(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as server:
        server.post("/datasets", {"name": "golden"}, 201)
        server.post("/probes", body("keyed", "http://h:9/ok?key=s3cret", enabled=False), 201)
        admin = server.post("/keys", {"name": "a", "roles": ["admin"], "project": "*"}, 201)["key"]
        reader = server.call(
            "POST", "/api/v1/keys", {"name": "r", "roles": ["read"]}, bearer(admin)
        ).json()["key"]
        for path in ("/api/v1/probes", "/api/v1/probes/keyed"):
            seen = server.call("GET", path, headers=bearer(reader))
            assert (seen.status, b"s3cret" in seen.body) == (200, False)
            assert "http://h:9/•••" in seen.body.decode()
            assert b"?key=s3cret" in server.call("GET", path, headers=bearer(admin)).body


def test_readers_see_no_credentials_of_a_connector(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as server:
        make_dataset(server)
        literals = {"question": "{{question}}", "api_key": "s3cret", "max_tokens": 300}
        connector = {"url": "http://127.0.0.1:9/ask?token=s3cret", "body": literals}
        raw = {"body": {**literals, "auth": {"value": ["s3cret"]}}}
        probe = body("p", "http://127.0.0.1:9/", connector=connector, raw=raw, enabled=False)
        server.post("/probes", probe, 201)
        server.post("/plans", {"name": "n", "dataset": "golden", "connector": connector}, 201)
        run = server.post("/plans/n/runs", {}, 202)["run_id"]
        until("the run", lambda: server.get(f"/runs/{run}")["progress"] is None)
        admin = server.post("/keys", {"name": "a", "roles": ["admin"], "project": "*"}, 201)["key"]
        keys = {
            role: server.call(
                "POST", "/api/v1/keys", {"name": role, "roles": [role]}, bearer(admin)
            ).json()["key"]
            for role in ("read", "write")
        }
        places = (
            "/api/v1/probes", "/api/v1/probes/p", "/api/v1/plans", "/api/v1/plans/n",
            "/api/v1/runs", f"/api/v1/runs/{run}", f"/api/v1/runs/{run}/export", "/runs",
            f"/runs/{run}", "/probes", "/probes/p",
        )  # fmt: skip
        for path in places:
            seen = server.call("GET", path, headers=bearer(keys["read"]))
            assert (seen.status, b"s3cret" in seen.body) == (200, False), path
        for path in places[:7]:
            assert b"s3cret" in server.call("GET", path, headers=bearer(keys["write"])).body, path
        shown = server.call("GET", "/api/v1/plans/n", headers=bearer(keys["read"])).json()
        assert shown["connector"]["body"] == {**literals, "api_key": "•••"}
        assert shown["connector"]["url"] == "http://127.0.0.1:9/ask?token=•••"


def test_a_server_that_was_killed_asks_again_at_once(tmp_path: Path, app: OddApp) -> None:
    server = Server(tmp_path / "data")
    try:
        server.start()
        make_dataset(server)
        asked = app.asked.count("/hang")
        sent = body("cut", f"{app.url}/hang", every_minutes=600, connector={"timeout_s": 600})
        server.post("/probes", sent, 201)
        until("the request", lambda: app.asked.count("/hang") > asked)
        server.kill()
        server.start()
        until("the next pass", lambda: app.asked.count("/hang") > asked + 1, 45)
        newest, dead = server.get("/probes/cut")["passes"]
        assert (newest["state"], dead["state"]) == ("running", "stopped")
        assert dead["note"] == "its process ended before it did"
        assert server.call("POST", "/api/v1/probes/cut/run").status == 409
    finally:
        server.kill()


def test_another_scorer_goes_on_when_one_is_killed(tmp_path: Path, app: OddApp) -> None:
    with clickhouse_front(tmp_path / "engine") as url:
        environ = {"STAGEWATCH_CLICKHOUSE_URL": url}
        api = Server(tmp_path / "api", environ, ("api",))
        scorers = [Server(tmp_path / f"s{i}", environ, ("scorer",)) for i in range(2)]
        try:
            api.start()
            make_dataset(api)
            asked = app.asked.count("/hang")
            sent = body("cut", f"{app.url}/hang", every_minutes=600, connector={"timeout_s": 600})
            api.post("/probes", sent, 201)
            for scorer in scorers:
                scorer.start()
            until("the request", lambda: app.asked.count("/hang") > asked)
            first = api.get("/probes/cut")
            assert first["running"] is True
            owner = first["last_pass"]["owner"]
            killed, other = sorted(
                scorers, key=lambda s: f"-{s.process.pid if s.process else 0}-" not in owner
            )
            killed.kill()
            until("the next pass", lambda: app.asked.count("/hang") > asked + 1, 45)
            newest, dead = api.get("/probes/cut")["passes"]
            assert (newest["state"], dead["state"]) == ("running", "stopped")
            assert other.process is not None
            assert f"-{other.process.pid}-" in newest["owner"]
        finally:
            for server in (api, *scorers):
                if server.process is not None and server.process.poll() is None:
                    server.kill()


def make_dataset(server: Server) -> None:
    server.post("/datasets", {"name": "golden"}, 201)
    raw = json.dumps(ROW).encode()
    assert server.call("POST", "/api/v1/datasets/golden/import", raw=raw).status < 300


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def test_a_server_ends_while_an_app_does_not_answer(server: Server, app: OddApp) -> None:
    asked = app.asked.count("/hang")
    server.post("/probes", body("stuck", f"{app.url}/hang", connector={"timeout_s": 600}), 201)
    until("the request", lambda: app.asked.count("/hang") > asked)
    assert server.stop() == 0
    server.start()
    (last,) = server.get("/probes/stuck")["passes"][-1:]
    assert (last["state"], last["done"]) == ("stopped", 0)
    server.call("DELETE", "/api/v1/probes/stuck")
