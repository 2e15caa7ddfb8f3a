"""Dataset checks, coverage, version diffs, folders and feedback files on a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from tests.support.refund import QUESTION, send_turn
from tests.support.server import Server, serving, stagewatch

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("sets") / "data") as started:
        exporter = OTLPSpanExporter(endpoint=f"{started.otlp_http}/v1/traces")
        send_turn(exporter)
        send_turn(exporter, question="Do you sell gift cards?", answer="No.")
        started.turns(2)
        yield started


def dataset(server: Server, name: str, *rows: dict[str, Any]) -> list[str]:
    server.post("/datasets", {"name": name}, 201)
    return [server.post(f"/datasets/{name}/rows", row, 201)["row"]["row_id"] for row in rows]


def need(chunk_id: str) -> list[dict[str, Any]]:
    return [{"any_of": [{"chunk_id": chunk_id}]}]


def test_a_check_names_passages_that_no_turn_has_fetched(server: Server) -> None:
    seen, unseen, twice = dataset(
        server, "checked",
        {"question": QUESTION, "needs": need("refund-policy#v7#0")},
        {"question": "What of gifts?", "needs": need("gone#1")},
        {"question": "How many days do I have for requesting refunds?",
         "needs": [{"any_of": [{"document_id": "shipping"}]}]},
    )  # fmt: skip
    found = server.get("/datasets/checked/check")
    assert [item["row_id"] for item in found["items"]] == [unseen]
    assert found["items"][0]["warnings"] == ["needs name passages never seen in traffic: gone#1"]
    assert found["duplicates"] == [[seen, twice]] or found["duplicates"] == [[twice, seen]]


def test_coverage_of_live_questions(server: Server) -> None:
    dataset(server, "covering", {"question": "How many days to request a refund?"})
    found = server.get("/datasets/covering/coverage")
    assert (found["questions"], found["by_kind"], found["far"]) == (2, {"happy_path": 1}, 1)
    assert found["examples"][0]["question"] == "Do you sell gift cards?"


def test_a_diff_of_versions_names_what_changed(server: Server) -> None:
    kept, gone = dataset(server, "moving", {"question": "one"}, {"question": "two"})
    server.post("/datasets/moving/versions", {}, 201)
    server.call("PUT", f"/api/v1/datasets/moving/rows/{kept}", {"tags": ["x"]})
    server.call("DELETE", f"/api/v1/datasets/moving/rows/{gone}")
    server.post("/datasets/moving/rows", {"question": "three"}, 201)
    server.post("/datasets/moving/versions", {}, 201)
    for query in ("old=1&new=2", "old=1"):
        items = server.get(f"/datasets/moving/diff?{query}")["items"]
        assert {(i["question"], i["what"], tuple(i["fields"])) for i in items} == {
            ("one", "changed", ("tags",)), ("two", "removed", ()), ("three", "added", ()),
        }  # fmt: skip
    assert server.call("GET", "/api/v1/datasets/moving/diff?old=9").status == 404


def test_rows_live_in_a_folder_and_come_back(server: Server, tmp_path: Path) -> None:
    row_id, other = dataset(server, "filed", {"question": "Where is it?"}, {"question": "Gone?"})
    pulled = stagewatch(server, tmp_path, "dataset", "pull", "filed", "rows")
    assert "2 rows in rows" in pulled.stdout, pulled.stderr
    path = next((tmp_path / "rows" / "happy_path").glob("where-is-it-*.json"))
    body = json.loads(path.read_text())
    path.write_text(json.dumps({**body, "expected_output": ["Here."]}))
    next((tmp_path / "rows" / "happy_path").glob("gone-*.json")).unlink()
    (tmp_path / "rows" / "happy_path" / "new.json").write_text('{"question": "New?"}')
    pushed = stagewatch(server, tmp_path, "dataset", "push", "filed", "rows", "--prune", "--json")
    assert json.loads(pushed.stdout) == {"pushed": 2, "retired": 1, "same": 0}, pushed.stderr
    rows = {row["row_id"]: row for row in server.get("/datasets/filed/rows")["items"]}
    assert rows[row_id]["expected_output"] == ["Here."]
    assert other not in rows
    again = stagewatch(server, tmp_path, "dataset", "push", "filed", "rows", "--json")
    assert json.loads(again.stdout) == {"pushed": 0, "retired": 0, "same": 2}
    fresh = stagewatch(server, tmp_path, "dataset", "push", "fresh", "rows", "--json")
    assert json.loads(fresh.stdout)["pushed"] == 2


def test_tickets_are_previewed_then_stored_once(server: Server, tmp_path: Path) -> None:
    turn = next(t for t in server.turns(2) if t["question"] == QUESTION)
    (tmp_path / "tickets.csv").write_text(
        "Subject,Created,Text,Id\n"
        f'"{QUESTION.upper()}",2999-01-01T00:00:00Z,late,9\n'
        f'"{QUESTION}",{turn["started_at"]},the policy says 30,17\n'
        '"Never asked",,x,18\n'
    )
    words = ("feedback", "tickets.csv", "--map", "question=Subject", "--map", "at=Created",
             "--map", "comment=Text", "--map", "external_id=Id", "--source", "desk", "--json")  # fmt: skip
    preview = stagewatch(server, tmp_path, *words)
    assert preview.returncode == 1, preview.stderr
    items = json.loads(preview.stdout)["items"]
    assert [item["turn_id"] for item in items] == ["", turn["turn_id"], ""]
    assert [item["problem"] for item in items] == [
        "no turn asked this in the day before", "", "no turn asked this",
    ]  # fmt: skip
    path = f"/feedback?trace_id={turn['trace_id']}"
    assert server.get(path)["items"] == []
    for _ in range(2):
        stored = json.loads(stagewatch(server, tmp_path, *words, "--store").stdout)
        assert stored["stored"] == 1
    said = server.get(path)["items"]
    assert [(f["kind"], f["comment"], f["source"]) for f in said] == [
        ("disputed", "the policy says 30", "desk")
    ]
    assert "disputed" in json.dumps(server.get(f"/turns/{turn['turn_id']}")["flags"])


@pytest.mark.parametrize("mapping", ["{}", '{"question": "Nope"}', "x"])
def test_a_bad_mapping_is_refused(server: Server, mapping: str) -> None:
    path = f"/api/v1/feedback/import?format=jsonl&mapping={quote(mapping)}"
    answer = server.call("POST", path, raw=b'{"q": "x"}')
    assert answer.status == 400
    assert "mapping" in answer.json()["detail"]
