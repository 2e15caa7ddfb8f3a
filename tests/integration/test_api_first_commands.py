"""The command line for somebody new: the wrong folder, an empty list, and help that reads well."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from tests.support.refund import send_turn
from tests.support.server import Server, serving, until

from stagewatch.core.cli import build_parser

pytestmark = pytest.mark.integration


def stagewatch(*words: str, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("STAGEWATCH_")}
    return subprocess.run(
        [sys.executable, "-m", "stagewatch", *words],
        env={**clean, **environ}, cwd=cwd, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("commands") / "data") as started:
        yield started


def test_the_doctor_looks_at_the_server_it_is_told_of(server: Server, tmp_path: Path) -> None:
    found = stagewatch("doctor", cwd=tmp_path, STAGEWATCH_URL=server.api)
    assert found.returncode == 0, found.stdout
    assert f"{server.api} answers" in found.stdout
    assert "in use" not in found.stdout


def test_the_doctor_names_a_server_that_holds_another_folder(
    server: Server, tmp_path: Path
) -> None:
    port = server.api.rsplit(":", 1)[1]
    found = stagewatch("doctor", cwd=tmp_path, STAGEWATCH_PORT=port)
    assert found.returncode == 1
    assert f"one on another folder at {server.api}" in found.stdout
    assert f"--url {server.api}" in found.stdout
    assert "stop what holds it" not in found.stdout


def test_a_list_without_turns_says_which_folder_it_read(server: Server, tmp_path: Path) -> None:
    here = stagewatch("turns", cwd=tmp_path)
    assert here.returncode == 0
    assert "no turn yet in .stagewatch, which no running server holds" in here.stdout
    there = stagewatch("turns", "--words", "zebra", cwd=tmp_path, STAGEWATCH_URL=server.api)
    assert there.stdout == "no turn matches\n"


def test_a_turn_begins_with_when_and_of_what_version(server: Server, tmp_path: Path) -> None:
    send_turn(
        OTLPSpanExporter(
            endpoint=f"{server.otlp_http}/v1/traces", headers={"x-stagewatch-project": "told"}
        )
    )
    # Spans come one by one: the root, which begins first, is the last.
    turn = until(
        "the whole turn",
        lambda: next((t for t in server.turns(1, "project=told") if t["answer"]), None),
    )
    shown = stagewatch("turn", turn["turn_id"], cwd=tmp_path, STAGEWATCH_URL=server.api)
    first = shown.stdout.splitlines()[0]
    assert first == (
        f"asked      {turn['started_at'][:19]}Z of refund-bot, release 1.4.2, index kb-1"
    )


def test_an_alert_that_is_not_there_says_where_to_look(server: Server, tmp_path: Path) -> None:
    found = stagewatch("alerts", "ack", "zzz", cwd=tmp_path, STAGEWATCH_URL=server.api)
    assert found.returncode == 2
    assert "no alert has an id that begins with 'zzz'; 'stagewatch alerts list'" in found.stderr


def test_each_example_of_a_help_stands_on_a_line_of_its_own() -> None:
    lines = build_parser().format_help().splitlines()
    assert "Start a server:    stagewatch up" in lines
    assert "What is wrong:     stagewatch doctor" in lines


def test_a_verb_s_help_begins_with_its_own_options(tmp_path: Path) -> None:
    shown = stagewatch("turns", "--help", cwd=tmp_path).stdout
    body = shown[shown.index("options:") :]
    assert body.index("--flagged") < body.index("settings:") < body.index("--data-dir")


def test_the_role_of_a_key_is_explained(tmp_path: Path) -> None:
    assert "admin does all that, and makes keys" in " ".join(
        stagewatch("key", "create", "--help", cwd=tmp_path).stdout.split()
    )
