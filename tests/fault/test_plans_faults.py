"""A server that is killed in the middle of a run, and one that is stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.plans_app import App, running_app
from tests.support.server import Server, until

pytestmark = pytest.mark.fault

ROWS = 60


def started_run(server: Server, app: App) -> str:
    app.wait_s = 0.05
    server.post("/datasets", {"name": "d"}, 201)
    body = b"".join(b'{"question": "refund question %d"}\n' % n for n in range(ROWS))
    assert server.call("POST", "/api/v1/datasets/d/import?format=jsonl", raw=body).status == 201
    plan = {"name": "p", "dataset": "d", "connector": {"url": f"{app.url}/ask", "concurrency": 2}}
    server.post("/plans", plan, 201)
    run_id = str(server.post("/plans/p/runs", {}, 202)["run_id"])
    until("half of the rows to be asked", lambda: len(app.asked) > ROWS // 2 or None)
    return run_id


def finished(server: Server, run_id: str) -> dict[str, Any]:
    def ask() -> dict[str, Any] | None:
        found: dict[str, Any] = server.get(f"/runs/{run_id}")
        return None if found["progress"] else found

    return until("the run to end", ask)


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_run_outlives_its_server(tmp_path: Path, how: str) -> None:
    with running_app() as app:
        server = Server(tmp_path / "data").start()
        run_id = started_run(server, app)
        if how == "kill":
            server.kill()
        else:
            assert server.stop() == 0
        asked = len(app.asked)
        assert asked < ROWS
        server.start()
        try:
            left = server.get(f"/runs/{run_id}")
            assert left["state"] == ("running" if how == "kill" else "stopped")
            assert left["progress"] is None
            kept = len(left["items"])
            assert how == "kill" or kept == asked
            app.wait_s = 0.0
            server.post(f"/runs/{run_id}/resume", {}, 202)
            done = finished(server, run_id)
            assert (done["state"], len(done["items"])) == ("finished", ROWS), server.output()
            assert len(app.asked) == ROWS
            # A row that was stored is never asked again.
            assert sum(app.asked.values()) == ROWS + (asked - kept)
        finally:
            server.stop()
