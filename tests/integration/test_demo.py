"""The demo's own ending: each injected fault must be named for what it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

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
