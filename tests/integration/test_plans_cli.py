"""`run`, `diff`, `gate` and the pytest plugin without any server; a killed run goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from tests.support.plans_app import App, running_app
from tests.support.server import until

pytestmark = pytest.mark.integration

ROWS = [
    {"row_id": "stale", "kind": "stale_policy", "status": "confirmed",
     "question": "How many days do I have to request a refund?",
     "needs": [{"any_of": [{"chunk_id": "refund-policy#v7#0", "document_id": "refund-policy",
                            "version": "v7"}]}]},
    {"row_id": "mars", "kind": "unanswerable", "status": "confirmed",
     "question": "What is the weather on Mars tomorrow?"},
    {"row_id": "trap", "kind": "near_miss", "question": "How long are gift cards valid?",
     "needs": [{"any_of": [{"chunk_id": "nowhere"}]}]},
]  # fmt: skip
BOT = """
from stagewatch.demo.serve import ServedBot, deployment
healthy, stale = (ServedBot(deployment(s, "kb-" + s)) for s in ("healthy", "stale"))
def ask_healthy(body): return healthy.reply(body)
def ask_stale(body): return stale.reply(body)
"""
PLAN = """
top_k = 4
[connector]
kind = "python"
call = "{call}"
[connector.paths]
index_version = "index_version"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "bot_for_plans.py").write_text(BOT)
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    for state in ("healthy", "stale"):
        plan = PLAN.format(call=f"bot_for_plans:ask_{state}")
        (tmp_path / f"{state}.toml").write_text(plan)
    return tmp_path


def environment(**more: str) -> dict[str, str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("STAGEWATCH_", "GITHUB_"))}
    return {**clean, **more}


def call(cwd: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=cwd, env=environment(**more), capture_output=True,
        text=True, timeout=120, check=False,
    )  # fmt: skip


def stagewatch(cwd: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return call(cwd, "stagewatch", *words, **more)


def test_a_gate_in_ci_needs_no_server(folder: Path) -> None:
    for state in ("healthy", "stale"):
        done = stagewatch(folder, "run", f"{state}.toml", "--dataset", "rows.jsonl",
                          "--out", f"{state}.json")  # fmt: skip
        assert done.returncode == 0, done.stderr
    assert not (folder / ".stagewatch").exists()
    diff = stagewatch(folder, "diff", "healthy.json", "stale.json", "--json")
    assert list(json.loads(diff.stdout)["flipped"]) == ["stale_policy"]
    summary = folder / "summary.md"
    gate = stagewatch(
        folder, "gate", "healthy.json", "stale.json", "--junit", "gate.xml",
        GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(summary),
    )  # fmt: skip
    assert gate.returncode == 1
    assert "::error title=precision on stale policy rows::" in gate.stderr
    assert "stale (stale_source)" in gate.stderr
    assert "gate: BLOCKED" in summary.read_text()
    assert ET.parse(folder / "gate.xml").getroot().get("failures") == "1"
    assert "1 rows wait for a second person" in gate.stdout
    fine = stagewatch(folder, "gate", "stale.json", "healthy.json")
    assert fine.returncode == 0, fine.stdout
    # The unconfirmed trap row is missed in both runs: counted, it still does not drop.
    assert stagewatch(folder, "gate", "stale.json", "healthy.json", "--unconfirmed").returncode == 0
    (folder / "strict.toml").write_text(
        PLAN.format(call="m:f") + '[[gate.conditions]]\nname = "answers"\n'
        'metric = "faithfulness"\nrule = "max_fails"\n'
    )
    judged = stagewatch(folder, "gate", "healthy.json", "healthy.json", "--plan", "strict.toml")
    assert judged.returncode == 2
    assert "not calibrated" in judged.stdout


def test_what_cannot_run_is_refused_before_anything_is_asked(folder: Path) -> None:
    (folder / "bad.toml").write_text(
        'metrics = ["answer_precision"]\n' + PLAN.format(call="bot_for_plans:ask_stale")
    )
    done = stagewatch(folder, "run", "bad.toml", "--dataset", "rows.jsonl")
    assert done.returncode == 2
    assert "missing columns: expected_output" in done.stderr
    dry = stagewatch(folder, "run", "stale.toml", "--dataset", "rows.jsonl", "--dry-run", "--json")
    assert json.loads(dry.stdout)["app_calls"] == 3
    gone = stagewatch(folder, "run", "stale.toml", "--dataset", "none.jsonl")
    assert "no such file: none.jsonl" in gone.stderr


def test_each_row_is_a_test(folder: Path) -> None:
    done = call(
        folder, "pytest", "-p", "no:cacheprovider", "-v", "--stagewatch", "stale.toml",
        "--stagewatch-dataset", "rows.jsonl", "--stagewatch-out", "run.json",
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert "stale.toml::stale_policy-stale FAILED" in done.stdout
    assert "stale.toml::unanswerable-mars PASSED" in done.stdout
    assert "stale.toml::near_miss-trap XFAIL" in done.stdout
    assert "stage:    stale_source" in done.stdout
    assert json.loads((folder / "run.json").read_text())["run"]["state"] == "finished"
    healthy = call(folder, "pytest", "-p", "no:cacheprovider", "-q", "--stagewatch",
                   "healthy.toml", "--stagewatch-dataset", "rows.jsonl")  # fmt: skip
    assert healthy.returncode == 0, healthy.stdout
    broken = call(folder, "pytest", "-p", "no:cacheprovider", "--stagewatch", "none.toml")
    assert broken.returncode == 4
    assert "cannot read the plan" in broken.stdout + broken.stderr


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    with running_app() as app:
        killed = _killed_run(tmp_path, app)
        listed = _runs_of(tmp_path)
        assert listed[0]["state"] == "running"
        done = stagewatch(
            tmp_path, "run", "plan.toml", "--dataset", "rows.jsonl", "--data-dir", "data",
            "--resume", listed[0]["run_id"], "--json",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        ended = json.loads(done.stdout)
        assert ended["run_id"] == listed[0]["run_id"]
        assert sum(ended["counts"].values()) == 200
        assert len(app.asked) == 200
        # Stored rows are not asked again: only those under way or unwritten at the kill are.
        assert 200 <= sum(app.asked.values()) < 200 + killed


def _killed_run(folder: Path, app: App) -> int:
    app.wait_s = 0.02
    rows = [{"row_id": f"r{n}", "question": f"refund question {n}"} for n in range(200)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "plan.toml").write_text(f'[connector]\nurl = "{app.url}/ask"\nconcurrency = 2\n')
    process = subprocess.Popen(
        [sys.executable, "-m", "stagewatch", "run", "plan.toml", "--dataset", "rows.jsonl",
         "--data-dir", "data"],
        cwd=folder, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    until("enough rows to be asked", lambda: len(app.asked) > 100 or None)
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=20)
    assert len(app.asked) < 200
    return len(app.asked)


def _runs_of(folder: Path) -> list[dict[str, str]]:
    script = (
        "import json; from pathlib import Path\n"
        "from stagewatch.core.settings import load_settings\n"
        "from stagewatch.scorer.plans.local import opened_store\n"
        "from stagewatch.core.store.runs import list_runs\n"
        "with opened_store(load_settings({'STAGEWATCH_DATA_DIR': 'data'})) as store:\n"
        "    print(json.dumps(list_runs(store, 'default')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, env=environment(), capture_output=True,
        text=True, timeout=60, check=True,
    )  # fmt: skip
    found: list[dict[str, str]] = json.loads(done.stdout)
    return found
