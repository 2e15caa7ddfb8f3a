"""The HTTP API of a real server: contract, bad input, keys, hostile content."""

from __future__ import annotations

import csv
import http.client
import io
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from tests.support.refund import send_turn
from tests.support.server import Server, serving

pytestmark = pytest.mark.integration

EVIL = "<script>alert(1)</script>'\"</title>=cmd|' /C calc'!A0"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("api") / "data") as started:
        exporter = OTLPSpanExporter(endpoint=f"{started.otlp_http}/v1/traces")
        send_turn(exporter)
        send_turn(exporter, answer="You can request a refund within 30 days of delivery.")
        send_turn(exporter, question=EVIL, answer=EVIL)
        for turn in started.turns(3):
            started.scored(turn["turn_id"])
        yield started


def turn_of(server: Server, answer_part: str) -> dict[str, Any]:
    return next(t for t in server.turns(3) if answer_part in (t["answer"] or ""))


@pytest.mark.parametrize(
    "path",
    [
        "/turns?since=0001-01-01T00:00:00Z", "/turns?until=9999-12-31T23:59:59-14:00",
        "/series?metric=faithfulness&since=0001-01-01T00:00:00%2B14:00&step=1e8",
        "/series?metric=faithfulness&since=2020-01-01T00:00:00Z&until=9999-12-31T23:59:59-14:00&step=3e8",
    ],
)  # fmt: skip
def test_times_at_the_ends_of_the_calendar_are_times(server: Server, path: str) -> None:
    assert server.get(path)["items"]


LONE = {"dataset": "half-made", "tags": ["\ud800"]}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/turns/{turn}/promote", LONE),
        ("/review/{turn}", {"action": "flag", "note": "a\udfff"}),
        ("/datasets", {"name": "half-made", "note": "\ud800x"}),
        ("/feedback", {"trace_id": "a" * 32, "kind": "disputed", "comment": "\ud83d"}),
        ("/datasets/half-made/import", {"question": "\ud800", "kind": "happy_path"}),
    ],
)
def test_text_that_is_not_unicode_is_refused_and_leaves_nothing(
    server: Server, path: str, body: dict[str, Any]
) -> None:
    turn_id = turn_of(server, "14 days")["turn_id"]
    answer = server.call("POST", f"/api/v1{path.format(turn=turn_id)}", body)
    assert answer.status == 400, answer.body
    assert "not valid Unicode" in answer.json()["detail"]
    assert "half-made" not in {item["name"] for item in server.get("/datasets")["items"]}
    assert server.get(f"/turns/{turn_id}")["flags"] == []


def test_a_whole_pair_is_text_like_any_other(server: Server) -> None:
    turn_id = turn_of(server, "14 days")["turn_id"]
    row = server.post(f"/turns/{turn_id}/promote", {"dataset": "pairs", "tags": ["\ud83d\ude00"]})
    assert row["tags"] == ["\U0001f600"]


LABELS = {
    "faithfulness": ("SUPPORTED", "relevant"), "chunk_relevance": ("not_relevant", "ABSENT"),
    "context_sufficiency": ("pass", "sufficient"), "rewrite_fidelity": ("fail", "kept"),
    "answer_relevancy": ("pass", "yes"),
}  # fmt: skip


@pytest.mark.parametrize("metric", LABELS)
def test_labels_come_from_closed_sets(server: Server, metric: str) -> None:
    turn_id = turn_of(server, "within 30 days")["turn_id"]
    good, bad = LABELS[metric]
    label = {"metric": metric, "item": "x", "label": good}
    assert server.post("/labels", {"turn_id": turn_id, "labels": [label]}) == {"stored": 1}
    wrong = [{**label, "label": bad}]
    for path, body in (
        ("/labels", {"turn_id": turn_id, "labels": wrong}),
        (f"/review/{turn_id}", {"action": "label", "labels": wrong}),
    ):
        answer = server.call("POST", f"/api/v1{path}", body)
        assert answer.status == 400, answer.body
        assert f"label of {metric}: use one of" in answer.json()["detail"]
        assert good in answer.json()["detail"]


def test_health_is_open_and_says_what_each_part_does(server: Server) -> None:
    assert server.call("GET", "/healthz").json() == {"ok": True}
    ready = server.call("GET", "/readyz")
    assert ready.status == 200
    assert {"collector", "scorer", "store"} <= set(ready.json()["parts"])
    metrics = server.call("GET", "/metrics").body.decode()
    assert "stagewatch_scorer_turns_total" in metrics


def test_a_turn_has_the_fields_of_the_contract(server: Server) -> None:
    turn = server.get(f"/turns/{turn_of(server, '14 days')['turn_id']}")
    wanted = {
        "turn_id", "trace_id", "span_id", "project", "service", "release", "index_version",
        "prompt_version", "started_at", "duration_ms", "conversation_id", "turn_index", "question",
        "history", "rewritten_query", "retrievals", "reranked", "window", "answer", "refused",
        "model", "usage", "error", "conventions", "missing", "scores", "claims", "diagnosis",
        "decision", "feedback", "flags", "user_id", "environment", "tags", "request_model",
        "response_model",
    }  # fmt: skip
    assert wanted <= set(turn)
    assert turn["turn_id"] == f"{turn['trace_id']}-{turn['span_id']}"
    chunk = turn["retrievals"][0]["chunks"][0]
    assert {"rank", "chunk_id", "document_id", "version", "content", "score", "score_kind",
            "in_prompt", "cited", "relevant", "superseded", "valid_from", "valid_to",
            "metadata"} <= set(chunk)  # fmt: skip
    assert chunk["rank"] == 1
    assert chunk["relevant"] is True
    assert turn["usage"] == {"input_tokens": 61, "output_tokens": 11, "cost_usd": None}
    assert turn["started_at"].endswith("Z")


@pytest.mark.parametrize(
    ("query", "n"),
    [
        ("diagnosis=generation", 1), ("metric=faithfulness&below=0.7", None), ("q=refund+DELIVERY", 2),
        ("release=1.4.2", 3), ("release=9", 0), ("flagged=true", 0), ("chunk_id=shipping%23v5%230", 3),
        ("since=2020-01-01T00:00:00Z&until=2021-01-01T00:00:00Z", 0),
    ],
)  # fmt: skip
def test_filters(server: Server, query: str, n: int | None) -> None:
    found = server.get(f"/turns?{query}")
    assert n is None or len(found["items"]) == n
    assert found["total"] == len(found["items"])
    assert found["total_exact"] is True


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "says"),
    [
        ("GET", "/api/v1/turns?limit=0", None, 400, "limit"),
        ("GET", "/api/v1/turns?since=yesterday", None, 400, "since"),
        ("GET", "/api/v1/turns?since=2026-01-01T00:00:00", None, 400, "UTC offset"),
        ("GET", "/api/v1/turns?metric=faithfulness", None, 400, "go together"),
        ("GET", "/api/v1/turns?cursor=zzz", None, 400, "cursor"),
        ("GET", "/api/v1/turns?project=../etc", None, 400, "project"),
        ("GET", "/api/v1/turns/none", None, 404, "no turn"),
        ("GET", f"/api/v1/traces/{'0' * 32}", None, 404, "no trace"),
        ("GET", "/api/v1/nothing", None, 404, ""),
        ("DELETE", "/api/v1/turns", None, 405, ""),
        ("POST", "/api/v1/feedback", {"trace_id": "x", "kind": "disputed"}, 400, "trace_id"),
        ("POST", "/api/v1/feedback", {"trace_id": "a" * 32, "kind": "hated"}, 400, "kind"),
        ("POST", "/api/v1/feedback", {"trace_id": "a" * 32, "kind": "corrected"}, 400, "corrected"),
        ("POST", "/api/v1/feedback", {"trace_id": "a" * 32, "kind": "disputed", "x": 1}, 400, "x"),
        ("GET", "/api/v1/series?metric=faithfulness&stat=average", None, 400, "stat"),
        ("GET", "/api/v1/datasets/none/rows", None, 404, "no dataset"),
        ("POST", "/api/v1/datasets", {"name": "../x"}, 400, "name"),
        ("POST", "/api/v1/keys", {"name": "k", "roles": ["king"]}, 400, "roles"),
        ("POST", "/api/v1/alerts/none/ack", {}, 404, "no alert"),
        ("POST", "/api/v1/labels", {"turn_id": "t", "labels": [
            {"metric": "mood", "label": "pass"}]}, 400, "labels.0.metric"),
        ("GET", "/api/v1/series?metric=faithfulness&step=1e300", None, 400, "step"),
        ("GET", "/api/v1/series?metric=faithfulness&step=1e9&since=0001-01-01T00:00:00%2B14:00",
         None, 400, "step"),
    ],
)  # fmt: skip
def test_bad_input_is_a_problem_that_says_what_is_wrong(
    server: Server, method: str, path: str, body: object, status: int, says: str
) -> None:
    answer = server.call(method, path, body)
    assert answer.status == status, answer.body
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    assert set(problem) == {"type", "title", "status", "detail"}
    assert says in problem["detail"]


def test_json_that_is_not_json_is_refused_without_repeating_it(server: Server) -> None:
    answer = server.call("POST", "/api/v1/feedback", raw=b'{"SECRET')
    assert answer.status == 400
    assert b"SECRET" not in answer.body


def test_feedback_is_idempotent(server: Server) -> None:
    turn = turn_of(server, "30 days")
    body = {"trace_id": turn["trace_id"].upper(), "kind": "thumbs_up", "external_id": "e-1"}
    first = server.post("/feedback", body, 201)
    second = server.post("/feedback", body, 201)
    assert first["feedback"]["feedback_id"] == second["feedback"]["feedback_id"]
    said = server.get(f"/feedback?trace_id={turn['trace_id']}")["items"]
    assert len([item for item in said if item["external_id"] == "e-1"]) == 1
    assert server.get(f"/turns/{turn['turn_id']}")["flags"] == []


def test_hostile_text_is_text_on_every_page(server: Server) -> None:
    turn = turn_of(server, "<script>")
    for path in ("/", "/turns", f"/turns/{turn['turn_id']}", f"/traces/{turn['trace_id']}"):
        page = server.call("GET", path, headers={"accept": "text/html"})
        assert page.status == 200, path
        assert b"<script>alert" not in page.body, path
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe-inline" not in policy
    assert "alert(1)" not in server.output()


def test_a_dataset_goes_out_and_in_again_in_every_format(server: Server) -> None:
    turn = turn_of(server, "<script>")
    server.post(f"/turns/{turn['turn_id']}/promote", {
        "dataset": "round", "kind": "near_miss", "expected_output": [EVIL], "tags": ["a"]}, 201)  # fmt: skip
    server.post("/datasets/round/rows", {"question": "=1+1", "kind": "unanswerable"}, 201)
    rows = server.get("/datasets/round/rows")["items"]
    keep = ("question", "kind", "failure", "needs", "expected_output", "status", "turn", "tags")
    wanted = sorted(json.dumps({k: row[k] for k in keep}, sort_keys=True) for row in rows)
    for kind in ("jsonl", "csv", "parquet"):
        body = server.call("GET", f"/api/v1/datasets/round/export?format={kind}").body
        if kind == "csv":
            cells = list(csv.reader(io.StringIO(body.decode())))
            assert not [c for row in cells for c in row if c.startswith(("=", "+", "@"))]
        if kind == "parquet":
            assert pq.read_table(io.BytesIO(body)).num_rows == 2
        said = server.call("POST", f"/api/v1/datasets/back-{kind}/import?format={kind}", raw=body)
        assert said.json()["imported"] == 2, said.body
        back = server.get(f"/datasets/back-{kind}/rows")["items"]
        got = sorted(json.dumps({k: row[k] for k in keep}, sort_keys=True) for row in back)
        assert got == wanted, kind


@pytest.mark.parametrize(
    ("kind", "body", "says"),
    [
        ("jsonl", b'{"question": "a"}\n{"question": 5}', "row 2: not a valid DatasetRow: question"),
        ("jsonl", b"nope", "row 1: not JSON"),
        ("jsonl", b'{"question": "a", "colour": 1}', "unknown field 'colour'"),
        ("csv", b"question,needs\na,{oops", "row 1: needs: not JSON"),
        ("csv", b"\xff\xfe", "not a UTF-8 CSV"),
        ("parquet", b"PAR1", "not a Parquet file"),
    ],
)
def test_a_bad_import_names_the_row_and_imports_nothing(
    server: Server, kind: str, body: bytes, says: str
) -> None:
    name = f"bad-{kind}-{abs(hash(body)) % 1000}"
    answer = server.call("POST", f"/api/v1/datasets/{name}/import?format={kind}", raw=body)
    assert answer.status == 400
    assert says in answer.json()["detail"]
    rows = server.call("GET", f"/api/v1/datasets/{name}/rows")
    assert rows.status == 404 or rows.json()["items"] == []


def test_versions_never_change(server: Server) -> None:
    server.post("/datasets", {"name": "frozen", "description": "d"}, 201)
    row = server.post("/datasets/frozen/rows", {"question": "one", "kind": "happy_path"}, 201)[
        "row"
    ]
    assert server.post("/datasets/frozen/versions", {"note": "first"}, 201)["version"] == 1
    changed = server.call(
        "PUT", f"/api/v1/datasets/frozen/rows/{row['row_id']}", {"question": "two"}
    )
    assert changed.status == 200
    server.post("/datasets/frozen/rows", {"question": "three"}, 201)
    assert server.post("/datasets/frozen/versions", {}, 201)["version"] == 2
    server.call("DELETE", f"/api/v1/datasets/frozen/rows/{row['row_id']}")
    asked = [
        sorted(r["question"] for r in server.get(f"/datasets/frozen/rows{query}")["items"])
        for query in ("?version=1", "?version=2", "")
    ]
    assert asked == [["one"], ["three", "two"], ["three"]]
    assert server.call("GET", "/api/v1/datasets/frozen/rows?version=7").status == 404
    assert server.call("POST", "/api/v1/datasets", {"name": "frozen"}).status == 409


def test_series_and_drift_answer(server: Server) -> None:
    found = server.get("/series?metric=faithfulness&stat=pass_rate&step=60")
    assert sum(point["n"] for point in found["items"]) == 3
    assert all(0 <= p["low"] <= p["estimate"] <= p["high"] <= 1 for p in found["items"])
    assert server.get("/drift")["items"] == []
    assert server.get("/alerts")["items"] == []
    assert {item["metric"] for item in server.get("/calibration")["items"]} >= {"faithfulness"}


def test_other_hosts_and_other_sites_are_refused(server: Server) -> None:
    rebound = server.call("GET", "/api/v1/turns", headers={"host": "evil.test"})
    assert rebound.status == 421
    body = {"trace_id": "a" * 32, "kind": "disputed"}
    crossed = server.call("POST", "/api/v1/feedback", body, {"origin": "http://evil.test"})
    assert crossed.status == 403


def test_the_api_description_is_served_and_is_the_one_checked_in(server: Server) -> None:
    served = server.call("GET", "/api/v1/openapi.json").json()
    kept = json.loads(Path("docs/openapi.json").read_text())
    assert served == kept, "the API changed: make openapi"
    contract = [
        "/turns", "/turns/{turn_id}", "/traces/{trace_id}", "/feedback", "/series", "/drift",
        "/alerts", "/alerts/{alert_id}/ack", "/review", "/review/{turn_id}", "/datasets",
        "/turns/{turn_id}/promote", "/datasets/{name}/rows", "/datasets/{name}/versions",
        "/datasets/{name}/export", "/datasets/{name}/import", "/calibration", "/labels", "/keys",
        "/projects", "/events",
    ]  # fmt: skip
    for path in contract:
        assert f"/api/v1{path}" in served["paths"], path


def test_events_tell_counts(server: Server) -> None:
    host = server.api.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=20)
    connection.request("GET", "/api/v1/events")
    stream = connection.getresponse()
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert stream.readline() == b"event: counts\n"
    counts = json.loads(stream.readline().removeprefix(b"data: "))
    assert counts["turns"] >= 3
    connection.close()


def test_keys_close_the_server_and_keep_projects_apart(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as server:
        made = server.post("/keys", {"name": "Ops", "project": "*", "roles": ["admin"]}, 201)
        assert server.call("GET", "/api/v1/turns").status == 401
        admin = {"authorization": f"Bearer {made['key']}"}

        def key(project: str, *roles: str) -> dict[str, str]:
            body = {"name": f"{project} {roles[0]}", "project": project, "roles": list(roles)}
            answer = server.call("POST", "/api/v1/keys", body, admin)
            assert answer.status == 201
            return {"x-api-key": answer.json()["key"]}

        send, read_a, read_b = key("a", "ingest"), key("a", "read"), key("b", "read")
        exporter = OTLPSpanExporter(endpoint=f"{server.otlp_http}/v1/traces", headers=send)
        send_turn(exporter)
        deadline = time.monotonic() + 60
        while not (found := server.call("GET", "/api/v1/turns", headers=read_a).json()["items"]):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        turn_id, trace_id = found[0]["turn_id"], found[0]["trace_id"]
        assert found[0]["project"] == "a"
        assert server.call("GET", "/api/v1/turns", headers=read_b).json()["items"] == []
        assert server.call("GET", f"/api/v1/turns/{turn_id}", headers=read_b).status == 404
        assert server.call("GET", f"/api/v1/traces/{trace_id}", headers=read_b).status == 404
        assert server.call("GET", "/api/v1/turns?project=a", headers=read_b).status == 403
        assert server.call("GET", "/api/v1/turns", headers=send).status == 403
        body = {"trace_id": trace_id, "kind": "disputed"}
        assert server.call("POST", "/api/v1/feedback", body, read_a).status == 403
        assert server.call("POST", "/api/v1/feedback", body, send).status == 201
        assert server.call("GET", f"/api/v1/turns/{turn_id}", headers=admin).status == 200
        listed = server.call("GET", "/api/v1/keys", headers=admin)
        assert made["key"] not in listed.body.decode()
        assert "hash" not in listed.body.decode()

        page = server.call("GET", "/", headers={"accept": "text/html"})
        assert b"Sign in" in page.body
        server.call("DELETE", f"/api/v1/keys/{found and made['id']}", headers=admin)
        assert server.call("GET", "/api/v1/keys", headers=admin).status == 401
        assert made["key"] not in server.output()


def test_a_passage_that_was_never_fetched_is_found_by_its_words(server: Server) -> None:
    found = server.get("/passages?q=SHIPPING+days")["items"]
    assert [item["chunk_id"] for item in found] == ["shipping#v5#0"]
    assert found[0]["fetched"] >= 3
    assert server.get("/passages?q=no+such+words")["items"] == []
    assert server.call("GET", "/api/v1/passages?q=x").status == 400
