"""The demo's own ending: each injected fault is named for what it is, and a gate stops its return."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.integration


@pytest.mark.timeout(400)
def test_the_demo_names_what_was_broken(tmp_path: Path) -> None:
    environ = {k: v for k, v in os.environ.items() if not k.startswith("STAGEWATCH_")}
    result = subprocess.run(
        [sys.executable, "-m", "stagewatch", "demo", "--once", "--json", "--data-dir",
         str(tmp_path / "demo")],
        env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=380, check=False,
    )  # fmt: skip
    assert result.returncode == 0, (result.stdout[-4000:], result.stderr[-4000:])
    lines = [line for line in result.stdout.splitlines() if line.startswith("{")]
    found = json.loads(lines[-1])
    healthy, reindex, numbers, stale = found["phases"]
    assert healthy["stages"].get("ok", 0) >= 0.95 * healthy["turns"]
    assert reindex["named"] in {"ranking", "retrieval"}
    assert numbers["named"] == "generation"
    assert stale["named"] == "stale_source"
    stages = {alert["stage"] for alert in found["alerts"]}
    assert "generation" in stages
    assert "stale_source" in stages
    assert stages & {"ranking", "retrieval"}
    broke_at = min(alert["since"] for alert in found["alerts"])
    for alert in found["alerts"]:
        assert alert["turn_ids"]
        assert alert["near"]
        assert alert["since"] >= broke_at
    assert "the healthy phase raised no alarm" in result.stdout
    assert "server stopped (exit 0)" in result.stdout
    assert f"{found['url']}{found['diff']}" in result.stdout
    leaves_a_blocked_gate(found, tmp_path / "demo", environ)


def leaves_a_blocked_gate(found: dict[str, Any], data_dir: Path, environ: dict[str, str]) -> None:
    """What the folder holds once the demo's server is gone, asked with the commands of a user."""

    def asked(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "stagewatch", *words, "--data-dir", str(data_dir)],
            env=environ, cwd=data_dir, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    exported = asked("dataset", "export", "refunds", "--version", "1")
    rows = [json.loads(line) for line in exported.stdout.splitlines()]
    assert {row["status"] for row in rows} == {"confirmed"}, exported.stderr
    ids = {row["kind"]: row["row_id"] for row in rows}
    assert set(ids) == {"near_miss", "stale_policy", "happy_path"}
    assert {row["row_id"] for row in found["rows"]} == {row["row_id"] for row in rows}
    traps = [row["provenance"] for row in rows if row["kind"] != "happy_path"]
    assert all(said["feedback"] and said["promoted_by"] == "Ada" for said in traps)
    assert all(said["reviewed_by"] == "Ben" for said in traps)

    baseline, candidate = found["runs"]
    assert [baseline["state"], candidate["state"]] == ["finished", "finished"]
    assert baseline["counts"] == {"pass": len(rows), "fail": 0, "errored": 0}
    assert candidate["counts"] == {"pass": len(rows) - 2, "fail": 2, "errored": 0}

    # Without names: the newest run against the finished one before it.
    said = asked("gate", "--json")
    gate = json.loads(said.stdout)
    assert (said.returncode, gate["outcome"]) == (1, "blocked"), said.stderr
    assert gate["candidate"] == candidate["run_id"]
    blocked = {row["row_id"]: row["stage"] for c in gate["conditions"] for row in c["details"]}
    assert blocked == {ids["near_miss"]: "stale_source", ids["stale_policy"]: "stale_source"}
