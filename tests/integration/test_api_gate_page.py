"""The page of two runs: a gate that checked nothing does not look like one that passed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.plans_app import App, running_app
from tests.support.server import Server, serving, until

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def app() -> Iterator[App]:
    with running_app() as started:
        yield started


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("gate") / "data") as started:
        started.post("/datasets", {"name": "d"}, 201)
        row = {
            "question": "How many days to request a refund?",
            "kind": "happy_path",
            "needs": [{"any_of": [{"chunk_id": "refunds#1"}]}],
        }
        started.post("/datasets/d/rows", row, 201)
        started.post("/datasets/d/versions", {}, 201)
        yield started


def page_of_two_runs(server: Server, app: App, name: str, gate: dict[str, object]) -> str:
    plan = {"name": name, "dataset": "d", "top_k": 2, "gate": gate,
            "connector": {"url": f"{app.url}/ask"}}  # fmt: skip
    server.post("/plans", plan, 201)
    ids = []
    for _ in range(2):
        run_id = server.post(f"/plans/{name}/runs", {}, 202)["run_id"]
        until("the run", lambda: server.get(f"/runs/{run_id}")["state"] == "finished")  # noqa: B023
        ids.append(run_id)
    answer = server.call("GET", f"/runs/{ids[0]}/diff/{ids[1]}", headers={"accept": "text/html"})
    assert answer.status == 200
    return answer.body.decode()


def test_a_gate_without_a_row_to_check_warns(server: Server, app: App) -> None:
    page = page_of_two_runs(server, app, "idle", {})
    assert '<div class="banner warn"><strong>Gate: pass, because no condition had a row' in page
    assert "✓" not in page
    assert "[[gate.conditions]]" in page


def test_a_gate_that_checked_a_row_passes(server: Server, app: App) -> None:
    condition = {"name": "recall holds", "metric": "context_recall", "rule": "no_drop"}
    page = page_of_two_runs(server, app, "held", {"conditions": [condition]})
    assert '<div class="banner ok"><strong>Gate: pass</strong>' in page
    assert "✓ recall holds" in page
