"""Rules over HTTP, on the command line and on the pages of a real server; outages as people see
them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from tests.support.refund import send_turn
from tests.support.scorer_openai_server import ScriptedServer, running_server
from tests.support.server import Server, serving, until

pytestmark = pytest.mark.integration

RULE = {"name": "beta", "priority": 5, "filters": {"release": ["2.*"]}, "rate": 1.0}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("rules") / "data") as started:
        yield started


def send(server: Server, **more: Any) -> str:
    exporter = OTLPSpanExporter(endpoint=f"{server.otlp_http}/v1/traces")
    trace_id = send_turn(exporter, **more)

    def there() -> str | None:
        answer = server.call("GET", f"/api/v1/traces/{trace_id}")
        turns = answer.json()["turns"] if answer.status == 200 else []
        return turns[0]["turn_id"] if turns else None

    return until("the turn", there)


def decided(server: Server, turn_id: str) -> dict[str, Any]:
    def ask() -> dict[str, Any] | None:
        found: dict[str, Any] = server.get(f"/turns/{turn_id}")
        return found if found["decision"] else None

    return until("a decision", ask)


def test_a_rule_is_made_changed_and_deleted_and_the_audit_has_it(server: Server) -> None:
    before = server.get("/rules")
    assert [(r["name"], r["scope"], r["rate"]) for r in before["items"]] == [
        ("sample", "global", 1.0)
    ]
    made = server.post("/rules?project=crud", RULE, 201)
    assert made["filters"]["release"] == ["2.*"]
    assert server.call("POST", "/api/v1/rules?project=crud", RULE).status == 409
    changed = server.call("PUT", "/api/v1/rules/beta?project=crud", {**RULE, "rate": 0.5})
    assert changed.status == 200
    found = server.get("/rules?project=crud")["items"]
    assert [(r["name"], r["scope"], r["rate"]) for r in found] == [
        ("beta", "project", 0.5),
        ("sample", "global", 1.0),
    ]
    assert server.call("DELETE", "/api/v1/rules/beta?project=crud").status == 200
    assert server.call("DELETE", "/api/v1/rules/beta?project=crud").status == 404
    assert "in the settings" in server.call("DELETE", "/api/v1/rules/sample").json()["detail"]
    actions = [line["action"] for line in server.get("/audit?project=crud")["items"]]
    assert actions[:3] == ["rule.delete", "rule.change", "rule.create"]
    assert len(server.get("/rules")["items"]) == 1


@pytest.mark.parametrize(
    ("method", "path", "body", "says"),
    [
        ("POST", "/rules", {"name": "x", "rate": 3}, "rate"),
        ("POST", "/rules", {"name": "x", "metrics": ["nope"]}, "unknown nope"),
        ("POST", "/rules", {"rate": 1}, "name"),
        ("POST", "/rules", {"name": "x", "calls_per_day": 10**30}, "calls_per_day"),
        ("POST", "/rules", {"name": "x", "rare_below": 10**30}, "rare_below"),
        ("POST", "/rules", {"name": "x", "filters": {"question_min": 10**30}}, "question_min"),
        ("PUT", "/rules/one", {"name": "two"}, "not the 'one'"),
        ("PUT", "/rules/probe", {}, "taken"),
        ("POST", "/rules/preview", {"name": "x", "filters": {"a": 1}}, "filters.a"),
        ("POST", "/backfills", {"since": "2026-01-01"}, "since"),
        ("POST", "/backfills", {"since": "2026-01-01T00:00:00Z", "scope": "half"}, "scope"),
        ("POST", "/backfills", {"since": "2026-01-01T00:00:00Z", "judge": "openai"}, "not conf"),
    ],
)
def test_wrong_requests_are_400_and_say_what_is_wrong(
    server: Server, method: str, path: str, body: dict[str, Any], says: str
) -> None:
    answer = server.call(method, f"/api/v1{path}", body)
    assert answer.status in {400, 422}
    assert says in json.dumps(answer.json())


def test_jobs_that_do_not_exist_are_404(server: Server) -> None:
    assert server.call("GET", "/api/v1/backfills/none").status == 404
    assert server.call("POST", "/api/v1/backfills/none/cancel").status == 404


def test_the_first_matching_rule_decides_and_its_name_is_on_the_decision(tmp_path: Path) -> None:
    """The project's own rules take effect without a restart."""
    with serving(tmp_path / "data") as server:
        server.post("/rules", RULE, 201)
        server.call("PUT", "/api/v1/rules/sample", {"rate": 0.0})
        two = decided(server, send(server, release="2.1"))
        one = decided(server, send(server, release="1.9"))
        assert (two["decision"]["rule"], two["decision"]["outcome"]) == ("beta", "scored")
        assert two["scoring"].startswith(
            "Scored by the embedded judge: sampled at 1 by rule 'beta'"
        )
        assert (one["decision"]["rule"], one["decision"]["outcome"]) == ("sample", "not_sampled")
        assert one["scoring"] == "Not scored: not in the sample of 0 that rule 'sample' draws."
        server.call("PUT", "/api/v1/rules/sample", {"enabled": False})
        none = decided(server, send(server, release="1.9"))
        assert none["decision"]["outcome"] == "filtered"
        assert none["scoring"] == "Not scored: no rule matches this turn."
        counted = server.get("/rules")
        assert counted["unmatched_24h"] == 1
        beta = next(rule for rule in counted["items"] if rule["name"] == "beta")
        assert beta["last_24h"] == {"matched": 1, "outcomes": {"scored": 1}}
        seen = server.post("/rules/preview", {**RULE, "name": "new", "priority": 1, "rate": 0.5})
        assert (seen["looked_at"], seen["matching"], seen["decided"]) == (3, 1, 1)
        assert seen["read_a_day"] == 0.5
        assert seen["calls_a_day"] == 0
        assert "would match 1 of the last 3 turns" in seen["sentence"]
        behind = server.post("/rules/preview", {**RULE, "name": "new", "priority": 9})
        assert "rules before it take them all" in behind["sentence"]


def test_a_reader_may_look_and_not_change(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as server:
        admin = server.post("/keys", {"name": "a", "project": "*", "roles": ["admin"]}, 201)["key"]
        head = {"authorization": f"Bearer {admin}"}
        body = {"name": "r", "project": "shop", "roles": ["read"]}
        made = server.call("POST", "/api/v1/keys", body, head).json()["key"]
        reader = {"authorization": f"Bearer {made}"}
        assert server.call("GET", "/api/v1/rules", headers=reader).status == 200
        assert server.call("POST", "/api/v1/rules/preview", RULE, reader).status == 200
        since = {"since": "2026-01-01T00:00:00Z"}
        for method, path, sent in (
            ("POST", "/rules", RULE),
            ("PUT", "/rules/beta", RULE),
            ("DELETE", "/rules/beta", None),
            ("POST", "/backfills", since),
            ("POST", "/backfills/x/cancel", None),
        ):
            assert server.call(method, f"/api/v1{path}", sent, reader).status == 403, path
        assert server.call("GET", "/api/v1/rules").status == 401


def test_rules_on_the_command_line(server: Server, tmp_path: Path) -> None:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("STAGEWATCH_", "OTEL_"))}

    def stagewatch(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "stagewatch", "rules", *words, "--project", "cli"],
            env={**clean, "STAGEWATCH_URL": server.api}, capture_output=True, text=True,
            timeout=60, check=False, cwd=tmp_path,
        )  # fmt: skip

    rule = tmp_path / "rule.toml"
    rule.write_text('name = "gold"\nrate = 0.5\n[filters.tags]\nplan = "gold"\n')
    seen = stagewatch("set", str(rule), "--preview")
    assert "would match 0 of the last 0 turns" in seen.stdout
    assert stagewatch("set", str(rule)).returncode == 0
    listed = stagewatch("list")
    assert "gold" in listed.stdout
    assert json.loads(stagewatch("list", "--json").stdout)["items"][0]["name"] == "gold"
    wrong = stagewatch("set", '{"name": "gold", "rate": 7}')
    assert wrong.returncode == 2
    assert "rate" in wrong.stderr
    typed = stagewatch("set", '{"name": "gold", "rate": "0.5"}')
    assert typed.returncode == 2
    assert "rule: rate: a number is wanted, not text" in typed.stderr
    assert stagewatch("delete", "gold").returncode == 0
    assert stagewatch("delete", "gold").returncode == 2


@pytest.fixture(scope="module")
def scripted() -> Iterator[ScriptedServer]:
    with running_server() as started:
        yield started


def metric(server: Server, name: str) -> float:
    lines = server.call("GET", "/metrics").body.decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


def test_an_outage_is_seen_everywhere_and_ends_by_itself(
    tmp_path: Path, scripted: ScriptedServer
) -> None:
    environ = {
        "STAGEWATCH_JUDGE": "openai",
        "STAGEWATCH_JUDGE_MODEL": "good-outage",
        "OPENAI_API_KEY": "k",
        "OPENAI_BASE_URL": scripted.base_url,
    }
    scripted.fail_with(401)
    with serving(tmp_path / "data", **environ) as server:
        turn_id = send(server)

        def waiting() -> dict[str, Any] | None:
            found = decided(server, turn_id)
            return found if "cannot be used" in found["decision"]["why"] else None

        turn = until("the turn to wait", waiting)
        assert turn["decision"]["outcome"] == "pending"
        assert "AuthenticationError" in turn["scoring"]
        until("the metric", lambda: metric(server, "stagewatch_scorer_paused{") == 1)
        ready = server.call("GET", "/readyz")
        # Spans are taken all the same, so the server is ready.
        assert ready.status == 200
        assert ready.json()["parts"]["scorer"]["paused"] is True
        assert "AuthenticationError" in ready.json()["parts"]["scorer"]["says"]
        until("the banner", lambda: b"Scoring is paused" in server.call("GET", "/").body)
        assert b"AuthenticationError" in server.call("GET", "/health").body
        scripted.fail_with(0)
        until(
            "the score", lambda: server.get(f"/turns/{turn_id}")["decision"]["outcome"] == "scored"
        )
        until("the metric", lambda: metric(server, "stagewatch_scorer_paused{") == 0)
        assert server.call("GET", "/readyz").status == 200
        until("no banner", lambda: b"Scoring is paused" not in server.call("GET", "/").body)


def test_a_spent_budget_is_a_decision_a_metric_and_a_banner(
    tmp_path: Path, scripted: ScriptedServer
) -> None:
    environ = {
        "STAGEWATCH_JUDGE": "openai",
        "STAGEWATCH_JUDGE_MODEL": "good-budget",
        "STAGEWATCH_BUDGET_CALLS_PER_DAY": "5",
        "OPENAI_API_KEY": "k",
        "OPENAI_BASE_URL": scripted.base_url,
    }
    with serving(tmp_path / "data", **environ) as server:
        ids = [send(server, question=f"How many days for item {n}?") for n in range(3)]

        def outcomes() -> list[str] | None:
            found = sorted(decided(server, i)["decision"]["outcome"] for i in ids)
            return found if "pending" not in found else None

        assert until("all decided", outcomes) == ["over_budget", "over_budget", "scored"]
        assert scripted.calls("good-budget") <= 5
        until("the metric", lambda: metric(server, "stagewatch_scorer_budgets_spent") == 1)
        assert metric(server, "stagewatch_scorer_judge_calls_today") == scripted.calls(
            "good-budget"
        )
        until("the banner", lambda: b"over budget" in server.call("GET", "/").body)
        assert server.call("GET", "/readyz").status == 200
        # Free metrics and the embedded judge's word are there all the same.
        over = next(i for i in ids if decided(server, i)["decision"]["outcome"] == "over_budget")
        assert {s["judge"] for s in server.get(f"/turns/{over}")["scores"]} == {"embedded", None}


def test_pages_show_the_rules_and_backfills(server: Server) -> None:
    evil = {"name": "page", "filters": {"service": ["<script>alert(1)</script>"]}}
    server.post("/rules?project=pages", evil, 201)
    page = server.call("GET", "/rules?project=pages&edit=page").body.decode()
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert" not in page
    assert "Change rule page" in page
    send(server)
    job = server.post("/backfills", {"since": "2020-01-01T00:00:00Z"}, 201)
    assert job["forecast"]["usd"] == 0

    def done() -> dict[str, Any] | None:
        found: dict[str, Any] = server.get(f"/backfills/{job['job_id']}")
        return found if found["progress"]["state"] == "done" else None

    assert until("the backfill", done)["progress"]["share"] == 1.0
    assert "done: " in server.call("GET", "/backfills").body.decode()
    assert server.get("/backfills")["items"][0]["job_id"] == job["job_id"]


INSTRUMENTED = '''
"""Wraps the openai client as instrumentations do: a span a call, unless spans are suppressed."""
import os
import sys

if any("stagewatch" in word or word == "-m" for word in sys.orig_argv):
    from openai.resources.chat.completions import Completions
    from opentelemetry import context

    create = Completions.create

    def wrapped(self, *args, **kwargs):
        keys = (context._SUPPRESS_INSTRUMENTATION_KEY, "suppress_instrumentation",
                "suppress_language_model_instrumentation")
        quiet = all(context.get_value(key) for key in keys)
        with open(os.environ["STAGEWATCH_TEST_CALLS"], "a") as log:
            log.write("quiet\\n" if quiet else "span\\n")
        return create(self, *args, **kwargs)

    Completions.create = wrapped
'''


def test_the_judges_own_calls_make_no_span_in_an_instrumented_process(
    tmp_path: Path, scripted: ScriptedServer
) -> None:
    folder = tmp_path / "instrumented"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(INSTRUMENTED)
    calls = tmp_path / "calls"
    environ = {
        "STAGEWATCH_JUDGE": "openai",
        "STAGEWATCH_JUDGE_MODEL": "good-instrumented",
        "OPENAI_API_KEY": "k",
        "OPENAI_BASE_URL": scripted.base_url,
        "PYTHONPATH": str(folder),
        "STAGEWATCH_TEST_CALLS": str(calls),
    }
    with serving(tmp_path / "data", **environ) as server:
        turn_id = send(server)
        until(
            "the score",
            lambda: decided(server, turn_id)["decision"]["outcome"] == "scored",
        )
        seen = calls.read_text().split()
        assert len(seen) == scripted.calls("good-instrumented") > 0
        assert set(seen) == {"quiet"}
        assert len(server.turns(1)) == 1


def test_another_type_is_refused_with_the_field_that_has_it(server: Server) -> None:
    since = {"since": "2026-11-30T00:00:00Z"}
    refused = (
        ("/rules", {"name": "typed", "enabled": 1}, "rule: enabled: true or false is wanted, not"),
        ("/rules/preview", {"name": "typed", "rate": True}, "rule: rate: a number is wanted, not"),
        ("/backfills", {**since, "dry_run": "yes"}, "dry_run: true or false is wanted, not text"),
        ("/backfills", {**since, "agreed_usd": "1"}, "agreed_usd: a number is wanted, not text"),
        ("/backfills", {"since": 1764460800}, "since: text is wanted, not a number"),
        ("/alerts/dry-run", {"days": "7"}, "days: a number is wanted, not text"),
        ("/channels", {"name": "c", "url": "https://hooks.example/x", "words": "no"},
         "channel: words: true or false is wanted, not text"),
    )  # fmt: skip
    for path, body, says in refused:
        answer = server.call("POST", f"/api/v1{path}", body)
        assert answer.status == 400, (path, body, answer.body)
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["detail"].startswith(says), answer.json()
    assert "typed" not in [rule["name"] for rule in server.get("/rules")["items"]]
