"""From a dispute to a gate that fails, and to one that passes again (docs/guide-refund.md)."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from tests.support.plans_bot import BotApp, running_bot
from tests.support.server import Server, serving, stagewatch, until

pytestmark = pytest.mark.integration

QUESTION = "How many days do I have to request a refund?"
PLAN = """
dataset = "regressions"
top_k = 4

[connector]
url = "{url}/ask"
concurrency = 4

[connector.paths]
trace_id = "trace_id"
release = "release"
index_version = "index_version"
"""


def as_person(server: Server, name: str, method: str, path: str, body: object) -> Any:
    answer = server.call(method, f"/api/v1{path}", body, {"x-stagewatch-user": name})
    return answer.status, answer.json()


def disputed_turn(server: Server, bot: BotApp) -> dict[str, Any]:
    """A customer is told 14 days, and disputes it."""
    said = bot.ask(QUESTION)
    assert "14 days" in said["answer"]
    turn = server.turns(1)[0]
    scored = server.scored(turn["turn_id"])
    assert scored["diagnosis"]["stage"] == "stale_source"
    server.post(
        "/feedback",
        {
            "trace_id": said["trace_id"],
            "kind": "corrected",
            "comment": "the policy says 30",
            "corrected_answer": "You can request a refund within 30 days of delivery.",
            "external_id": "ticket-17",
        },
        201,
    )
    return scored


def promoted_row(server: Server, turn: dict[str, Any]) -> str:
    """Alice promotes with one call; her own word is not enough; Bob confirms."""
    queue = until("the turn in the queue", lambda: server.get("/review")["items"] or None)
    assert queue[0]["suggested"]["kind"] == "stale_policy"
    needs = queue[0]["suggested"]["needs"]
    assert needs[0]["any_of"][0]["version"] == "v7"
    status, row = as_person(
        server, "Alice", "POST", f"/turns/{turn['turn_id']}/promote", {"dataset": "regressions"}
    )
    assert (status, row["kind"], row["status"]) == (201, "stale_policy", "needs_review")
    assert row["expected_output"] == ["You can request a refund within 30 days of delivery."]
    path = f"/datasets/regressions/rows/{row['row_id']}/confirm"
    assert as_person(server, "Alice", "POST", path, {})[0] == 403
    assert as_person(server, "Bob", "POST", path, {})[0] == 200
    return str(row["row_id"])


def run_of(server: Server, cwd: Path) -> str:
    done = stagewatch(server, cwd, "run", "plan.toml", "--out", "run.json")
    assert done.returncode == 0, done.stderr
    return str(server.get("/runs")["items"][0]["run_id"])


def test_the_refund_story(tmp_path: Path) -> None:
    with (
        serving(tmp_path / "data") as server,
        running_bot(server.otlp_http, server.api, state="stale", index_version="kb-11-15") as bot,
    ):
        row_id = promoted_row(server, disputed_turn(server, bot))
        happy = {
            "question": "How long are gift cards valid?", "kind": "happy_path",
            "needs": [{"any_of": [{"chunk_id": "gift-cards#v2#0"}]}],
        }  # fmt: skip
        server.post("/datasets/regressions/rows", happy, 201)
        server.post("/datasets/regressions/versions", {"note": "the dispute"}, 201)
        (tmp_path / "plan.toml").write_text(PLAN.format(url=bot.url))

        bot.deploy("healthy", "kb-11-16")
        baseline = run_of(server, tmp_path)
        first = server.get(f"/runs/{baseline}")
        assert first["counts"] == {"pass": 2, "fail": 0, "errored": 0}
        assert first["version"] == 1
        assert first["pipeline"]["index_version"] == ["kb-11-16"]

        bot.deploy("stale", "kb-11-22")
        broken = run_of(server, tmp_path)
        gate = stagewatch(server, tmp_path, "gate", baseline, broken, "--junit", "gate.xml")
        assert gate.returncode == 1, gate.stdout + gate.stderr
        said = server.post("/gate", {"baseline": baseline, "candidate": broken})
        blocked = [c for c in said["conditions"] if c["outcome"] == "blocked"]
        assert [c["rows"] for c in blocked] == [[row_id]]
        assert blocked[0]["details"][0]["stage"] == "stale_source"
        failure = ET.parse(tmp_path / "gate.xml").getroot().find(".//failure")
        assert failure is not None
        assert row_id in (failure.text or "")
        assert "stale_source" in (failure.text or "")
        diff = server.get(f"/runs/{baseline}/diff/{broken}")
        assert [r["row_id"] for r in diff["flipped"]["stale_policy"]] == [row_id]
        assert diff["flipped"]["stale_policy"][0]["stage_after"] == "stale_source"

        bot.deploy("healthy", "kb-11-23")
        run_of(server, tmp_path)
        # Without names: the newest run against the finished one before it.
        mended = stagewatch(server, tmp_path, "gate")
        assert mended.returncode == 0, mended.stdout
        against = stagewatch(
            server, tmp_path, "gate", baseline, str(server.get("/runs")["items"][0]["run_id"])
        )
        assert against.returncode == 0, against.stdout
        for page in ("/runs", f"/runs/{broken}", f"/runs/{broken}/rows/{row_id}",
                     f"/runs/{baseline}/diff/{broken}"):  # fmt: skip
            shown = server.call("GET", page, headers={"accept": "text/html"})
            assert shown.status == 200, (page, shown.body[:2000], server.output())
