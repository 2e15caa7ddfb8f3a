"""Probes against a live app and a real server: stored, run, scheduled, kept out of live numbers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.alerts_past import send_turn_of_trace
from tests.support.plans_bot import BotApp, running_bot
from tests.support.server import Server, serving, stagewatch, until

pytestmark = pytest.mark.integration

QUESTION = "How many days do I have to request a refund?"
PROBE = """
dataset = "golden"
top_k = 4
every_minutes = 600

[connector]
url = "{url}/ask"
concurrency = 2

[connector.paths]
trace_id = "trace_id"
release = "release"
index_version = "index_version"
"""
ROWS = [
    {"row_id": "refund", "question": QUESTION, "status": "confirmed",
     "needs": [{"any_of": [{"document_id": "refund-policy", "version": "v7"}]}],
     "expected_output": ["You can request a refund within 30 days of delivery."]},
    {"row_id": "gift", "question": "How long are gift cards valid?", "status": "confirmed",
     "needs": [{"any_of": [{"document_id": "gift-cards", "version": "v2"}]}]},
]  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("probes") / "data") as started:
        rows = "\n".join(json.dumps(row) for row in ROWS).encode()
        answer = started.call("POST", "/api/v1/datasets", {"name": "golden"})
        assert answer.status in {200, 201}, answer.body
        answer = started.call("POST", "/api/v1/datasets/golden/import", raw=rows)
        assert answer.status in {200, 201}, answer.body
        yield started


@pytest.fixture(scope="module")
def bot(server: Server) -> Iterator[BotApp]:
    with running_bot(
        server.otlp_http, server.api, state="healthy", index_version="kb-1"
    ) as started:
        yield started


def test_from_a_file_to_a_failing_row_and_never_into_live_numbers(
    server: Server, bot: BotApp, tmp_path: Path
) -> None:
    (tmp_path / "nightly.toml").write_text(PROBE.format(url=bot.url))
    made = stagewatch(server, tmp_path, "probes", "set", "nightly.toml")
    assert made.returncode == 0, made.stderr
    # The schedule starts the first pass at once.
    first = until("the first pass", lambda: finished(server))
    assert first["counts"] == {"pass": 2, "fail": 0, "errored": 0}, server.get("/probes/nightly")

    bot.deploy("stale", "kb-2")
    ran = stagewatch(server, tmp_path, "probes", "run", "nightly")
    assert ran.returncode == 1, (ran.stdout, ran.stderr)
    found = server.get("/probes/nightly")
    worst = found["rows"][0]
    assert (worst["row_id"], worst["verdict"], worst["stage"]) == ("refund", "fail", "stale_source")
    assert len(found["passes"]) == 2
    listed = stagewatch(server, tmp_path, "probes", "list", "--json")
    assert json.loads(listed.stdout)["items"][0]["last_pass"]["counts"]["fail"] >= 1

    series = server.get("/probes/nightly/series?metric=answer_precision&step=3600")
    assert sum(point["n"] for point in series["items"]) == 2
    assert [item["what"] for item in series["breaks"]] == ["index version kb-1 → kb-2"]

    # The live app sent spans of what it was asked: they are probes, and no live number has them.
    turn = until("the probe's turn", lambda: turn_of(server, worst["trace_id"]))
    assert turn["probe"] is True
    decided = until("its decision", lambda: server.get(f"/turns/{turn['turn_id']}")["decision"])
    assert (decided["outcome"], decided["rule"]) == ("filtered", "probe")
    assert server.get("/turns?service=refund-bot")["items"] == []
    assert len(server.get("/turns?service=refund-bot&probe=true")["items"]) >= 1

    for page in ("/probes", "/probes/nightly", "/alerts", "/channels"):
        assert server.call("GET", page).status == 200, page
    assert server.call("GET", "/probes/none").status == 404
    gone = stagewatch(server, tmp_path, "probes", "delete", "nightly")
    assert gone.returncode == 0
    assert "nightly" not in [item["name"] for item in server.get("/probes")["items"]]


def finished(server: Server) -> dict[str, Any] | None:
    found: dict[str, Any] | None = server.get("/probes/nightly")["last_pass"]
    return found if found and found["state"] == "finished" else None


def turn_of(server: Server, trace_id: str) -> dict[str, Any] | None:
    answer = server.call("GET", f"/api/v1/traces/{trace_id}")
    turns = answer.json()["turns"] if answer.status == 200 else []
    return turns[0] if turns else None


def test_an_app_that_knows_nothing_of_probes_is_kept_out_too(server: Server) -> None:
    """The trace alone tells: the app's spans carry no mark."""
    trace = "ab" * 16
    server.post(
        "/probes",
        {
            "name": "plain", "dataset": "golden", "every_minutes": 600,
            "connector": {"url": f"{server.api}/api/v1/none", "timeout_s": 5},
        },
        201,
    )  # fmt: skip
    # Every row errors: what matters are the traces that were marked for it.
    until("the pass", lambda: server.get("/probes/plain")["last_pass"])
    rows = until("its rows", lambda: server.get("/probes/plain")["rows"])
    marked = rows[0]["trace_id"]
    send_turn_of_trace(server.otlp_http, marked)
    send_turn_of_trace(server.otlp_http, trace)
    probe = until("the marked turn", lambda: turn_of(server, marked))
    live = until("the other turn", lambda: turn_of(server, trace))
    assert (probe["probe"], live["probe"]) == (True, False)


def test_what_cannot_be_stored_says_why(server: Server) -> None:
    connector = {"url": "http://127.0.0.1:9/ask"}
    missing = {"name": "x", "dataset": "none", "connector": connector}
    assert server.call("POST", "/api/v1/probes", missing).status == 404
    code = {"name": "x", "dataset": "golden", "connector": {"kind": "python", "call": "os:system"}}
    answer = server.call("POST", "/api/v1/probes", code)
    assert (answer.status, "command line only" in answer.body.decode()) == (400, True)
    assert server.call("POST", "/api/v1/probes/none/run").status == 404


def test_a_callable_over_a_file_needs_no_server(server: Server, tmp_path: Path) -> None:
    (tmp_path / "myapp.py").write_text(
        "def ask(body):\n"
        "    text = 'You can request a refund within 30 days of delivery.'\n"
        "    chunk = {'id': 'c', 'document_id': 'refund-policy', 'version': 'v7', 'content': text}\n"
        "    return {'answer': text, 'chunks': [chunk]}\n"
    )
    (tmp_path / "probe.toml").write_text(
        'dataset = "golden"\n[connector]\nkind = "python"\ncall = "myapp:ask"\n'
    )
    (tmp_path / "rows.jsonl").write_text(json.dumps(ROWS[0]) + "\n")
    clean = {k: v for k, v in os.environ.items() if not k.startswith("STAGEWATCH_")}
    ran = subprocess.run(
        [sys.executable, "-m", "stagewatch", "probes", "run", "probe.toml", "--dataset",
         "rows.jsonl", "--json"],
        env=clean, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, (ran.stdout, ran.stderr)
    found = json.loads(ran.stdout)
    assert found["pass"]["counts"] == {"pass": 1, "fail": 0, "errored": 0}
    assert found["rows"][0]["scores"]["answer_precision"]["value"] == 1.0
