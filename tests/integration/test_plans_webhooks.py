"""Feedback by webhook on a real server: signed, once, and made by an administrator only."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from tests.support.refund import send_turn
from tests.support.server import Answer, Server, serving, stagewatch

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("hooks") / "data") as started:
        send_turn(OTLPSpanExporter(endpoint=f"{started.otlp_http}/v1/traces"), release="bulk")
        started.turns(1)
        yield started


MAPPING = {
    "trace_id": "$.ticket.trace", "kind": "=disputed", "comment": '$.ticket["the text"]',
    "external_id": "$.ticket.id",
}  # fmt: skip


def deliver(
    server: Server, source: str, secret: str, body: object, header: str = "x-stagewatch-signature"
) -> Answer:
    raw = json.dumps(body).encode()
    signed = hmac.new(secret.encode(), raw, hashlib.sha256).hexdigest()
    return server.call(
        "POST", f"/api/v1/feedback/webhook/{source}", headers={header: f"sha256={signed}"}, raw=raw
    )


def hook(server: Server, source: str, **fields: Any) -> dict[str, Any]:
    answer = server.call("PUT", f"/api/v1/feedback/webhooks/{source}",
                         {"mapping": MAPPING, **fields})  # fmt: skip
    assert answer.status == 201, answer.body
    made: dict[str, Any] = answer.json()
    return made


def test_a_signed_delivery_becomes_feedback_once(server: Server) -> None:
    turn = server.get("/turns?release=bulk")["items"][0]
    made = hook(server, "desk")
    body = {"ticket": {"id": 17, "trace": turn["trace_id"], "the text": "wrong!"}}
    first = deliver(server, "desk", made["secret"], body)
    assert (first.status, first.json()["turn_id"]) == (201, turn["turn_id"])
    changed = {"ticket": {**body["ticket"], "the text": "other words"}}
    for again in (body, changed):
        answer = deliver(server, "desk", made["secret"], again)
        assert (answer.status, answer.json()["repeat"]) == (200, True)
    said = server.get(f"/feedback?trace_id={turn['trace_id']}")["items"]
    mine = [item for item in said if item["source"] == "desk"]
    assert [(i["comment"], i["external_id"], i["by"]) for i in mine] == [
        ("wrong!", "17", "webhook desk")
    ]
    assert made["secret"] not in json.dumps(server.get("/feedback/webhooks"))


def test_a_delivery_before_its_trace_waits(server: Server) -> None:
    made = hook(server, "early", header="X-Desk-Sign")
    body = {"ticket": {"id": "e-1", "trace": "ab" * 16}}
    assert deliver(server, "early", made["secret"], body).status == 401
    assert deliver(server, "early", made["secret"], body, "x-desk-sign").status == 202


@pytest.mark.parametrize("signature", ["", "sha256=", "sha256=00", "é" * 64, "0" * 64])
def test_a_bad_signature_is_refused(server: Server, signature: str) -> None:
    hook(server, "strict")
    for source in ("strict", "nobody"):
        answer = server.call(
            "POST", f"/api/v1/feedback/webhook/{source}", {"ticket": {}},
            {"x-stagewatch-signature": signature.encode().decode("latin-1")},
        )  # fmt: skip
        assert answer.status == 401, (source, answer.body)


def test_a_new_secret_replaces_the_old_one_and_a_deleted_source_is_gone(server: Server) -> None:
    old, new = hook(server, "turning")["secret"], hook(server, "turning")["secret"]
    body = {"ticket": {"id": "t-1", "trace": "cd" * 16}}
    assert deliver(server, "turning", old, body).status == 401
    assert deliver(server, "turning", new, body).status == 202
    assert server.call("DELETE", "/api/v1/feedback/webhooks/turning").status == 200
    assert deliver(server, "turning", new, body).status == 401
    assert server.call("DELETE", "/api/v1/feedback/webhooks/turning").status == 404


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ([], "object"),
        ({}, "external_id"),
        ({"ticket": {"id": "x"}}, "neither trace id"),
        ({"ticket": {"id": {"no": "text"}}}, "external_id"),
        ({"ticket": {"id": "x", "trace": "zz"}}, "32 hex"),
    ],
)
def test_a_delivery_that_does_not_fit_says_why(server: Server, body: object, says: str) -> None:
    made = hook(server, "fitting")
    answer = deliver(server, "fitting", made["secret"], body)
    assert answer.status == 400
    assert says in answer.json()["detail"]


@pytest.mark.parametrize(
    ("mapping", "says"),
    [
        ({"trace_id": "$.t"}, "external_id"),
        ({"trace_id": "$.t", "external_id": "=1"}, "external_id"),
        ({"external_id": "$.id"}, "trace_id"),
        ({"trace_id": "$.t[", "external_id": "$.id"}, "path"),
        ({"trace_id": "$.t", "external_id": "$.id", "colour": "$.c"}, "colour"),
    ],
)
def test_a_mapping_that_cannot_work_is_refused(
    server: Server, mapping: dict[str, str], says: str
) -> None:
    answer = server.call("PUT", "/api/v1/feedback/webhooks/bad", {"mapping": mapping})
    assert answer.status == 400
    assert says in answer.json()["detail"]


def test_a_webhook_from_the_command_line(server: Server, tmp_path: Path) -> None:
    made = stagewatch(
        server, tmp_path, "feedback", "webhook", "shell", "--map", "trace_id=$.t", "--map",
        "external_id=$.id", "--json",
    )  # fmt: skip
    secret = json.loads(made.stdout)["secret"]
    assert deliver(server, "shell", secret, {"t": "ef" * 16, "id": 1}).status == 202


def test_only_an_administrator_makes_webhooks(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as closed:
        made = closed.post("/keys", {"name": "Ops", "project": "*", "roles": ["admin"]}, 201)
        admin = {"authorization": f"Bearer {made['key']}"}
        body = {"name": "w", "project": "default", "roles": ["write"]}
        key = closed.call("POST", "/api/v1/keys", body, admin).json()["key"]
        path, asked = "/api/v1/feedback/webhooks/desk", {"mapping": MAPPING}
        assert closed.call("PUT", path, asked, {"x-api-key": key}).status == 403
        secret = closed.call("PUT", path, asked, admin).json()["secret"]
        sent = {"ticket": {"id": "k-1", "trace": "ab" * 16}}
        assert deliver(closed, "desk", secret, sent).status == 202
