"""The command line: what goes wrong is one line, and verbs work with and without a server."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
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
        env={**clean, **environ},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def one_line(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode == 2, (result.stdout, result.stderr)
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    return lines[0]


def test_a_port_in_use_is_named_with_its_setting(tmp_path: Path) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        port = str(held.getsockname()[1])
        free = {"STAGEWATCH_OTLP_GRPC_PORT": "0", "STAGEWATCH_OTLP_HTTP_PORT": "0"}
        said = one_line(stagewatch("up", "--port", port, cwd=tmp_path, **free))
        assert port in said
        assert "STAGEWATCH_PORT" in said
        for name in ("STAGEWATCH_OTLP_HTTP_PORT", "STAGEWATCH_OTLP_GRPC_PORT"):
            said = one_line(
                stagewatch("up", cwd=tmp_path, **{**free, "STAGEWATCH_PORT": "0", name: port})
            )
            assert port in said
            assert name in said


def test_an_unknown_setting_names_the_nearest(tmp_path: Path) -> None:
    said = one_line(stagewatch("up", cwd=tmp_path, STAGEWATCH_OTLP_GRPC_PROT="1"))
    assert "did you mean STAGEWATCH_OTLP_GRPC_PORT?" in said


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said = one_line(stagewatch("up", "--data-dir", str(tmp_path / "file" / "x"), cwd=tmp_path))
    assert "cannot write in the data folder" in said


def test_a_second_process_on_the_folder_is_told_and_the_first_goes_on(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as server:
        send_turn(OTLPSpanExporter(endpoint=f"{server.otlp_http}/v1/traces"))
        server.turns(1)
        second = Server(tmp_path / "data")
        result = stagewatch(
            "up", "--data-dir", str(tmp_path / "data"), cwd=tmp_path, STAGEWATCH_PORT="0",
            STAGEWATCH_OTLP_GRPC_PORT="0", STAGEWATCH_OTLP_HTTP_PORT="0",
        )  # fmt: skip
        assert "is open in another stagewatch process" in one_line(result)
        assert second.process is None
        assert len(server.turns(1)) == 1
        # Verbs on the same folder find the running server by themselves.
        listed = stagewatch("turns", "--json", "--data-dir", str(tmp_path / "data"), cwd=tmp_path)
        assert len(json.loads(listed.stdout)["items"]) == 1


def test_verbs_with_and_without_a_server_say_the_same(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    captures = Path(__file__).parents[1] / "golden" / "otlp" / "recommended-own-sdk"
    with serving(tmp_path / "data") as server:
        sent = stagewatch("ingest", str(captures), "--data-dir", data, cwd=tmp_path)
        assert sent.returncode == 0, sent.stderr
        assert "2 of 2 files accepted" in sent.stdout
        turns = server.turns(2)
        for turn in turns:
            server.scored(turn["turn_id"])
        added = stagewatch(
            "dataset", "add", "regressions", turns[0]["turn_id"], "--data-dir", data, cwd=tmp_path
        )
        assert added.returncode == 0, added.stderr
        with_server = stagewatch("turn", turns[0]["turn_id"], "--data-dir", data, cwd=tmp_path)
        doctor = stagewatch("doctor", "--data-dir", data, cwd=tmp_path)
        assert doctor.returncode == 0, doctor.stdout
    without = stagewatch("turn", turns[0]["turn_id"], "--data-dir", data, cwd=tmp_path)
    assert without.stdout == with_server.stdout
    assert "retrieved" in without.stdout
    frozen = stagewatch("dataset", "freeze", "regressions", "--data-dir", data, cwd=tmp_path)
    assert "version 1 with 1 rows" in frozen.stdout
    out = tmp_path / "rows.jsonl"
    stagewatch(
        "dataset", "export", "regressions", "--version", "1", "--out", str(out), "--data-dir", data,
        cwd=tmp_path,
    )  # fmt: skip
    assert json.loads(out.read_text())["dataset"] == "regressions"
    back = stagewatch("dataset", "import", "copy", str(out), "--data-dir", data, cwd=tmp_path)
    assert "1 rows imported into copy" in back.stdout, back.stderr
    missing = stagewatch("turn", "none", "--data-dir", data, cwd=tmp_path)
    assert "no turn with this id" in one_line(missing)


def test_a_collector_that_is_not_there_is_said(tmp_path: Path) -> None:
    (tmp_path / "x.pb").write_bytes(b"")
    result = stagewatch("ingest", "x.pb", "--otlp", "http://127.0.0.1:9", cwd=tmp_path)
    assert "no collector answers at http://127.0.0.1:9" in one_line(result)
    gone = stagewatch("turns", "--url", "http://127.0.0.1:9", cwd=tmp_path)
    assert "no stagewatch server answers" in one_line(gone)


def test_what_a_collector_refuses_is_said_per_file(tmp_path: Path) -> None:
    (tmp_path / "bad.pb").write_bytes(b"\xff\xff\xffgarbage")
    with serving(tmp_path / "data") as server:
        result = stagewatch("ingest", "bad.pb", "--otlp", server.otlp_http, cwd=tmp_path)
    assert result.returncode == 1
    assert "0 of 1 files accepted" in result.stdout
    assert "bad.pb: the collector refused it (400)" in result.stdout


def test_every_verb_has_help() -> None:
    parser = build_parser()
    verbs = parser._subparsers._group_actions[0].choices  # type: ignore[union-attr]
    assert {
        "up", "demo", "collector", "scorer", "api", "migrate", "doctor", "ingest", "turn", "turns",
        "calibrate", "dataset", "key", "spool", "conventions",
    } <= set(verbs or {})  # fmt: skip
    for verb in verbs or {}:
        assert verb in parser.format_help()


def test_the_demo_leaves_folders_that_are_not_its_own_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "keep").write_text("x")
    said = one_line(
        stagewatch("demo", "--once", "--data-dir", str(tmp_path / "mine"), cwd=tmp_path)
    )
    assert "left alone" in said
    assert (tmp_path / "mine" / "keep").read_text() == "x"


def test_a_demo_that_is_ended_takes_its_server_along(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "stagewatch", "demo", "--data-dir", str(tmp_path / "demo")],
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    address = tmp_path / "demo" / "server.json"
    until("the demo's server", lambda: address.exists() or None)
    server = int(json.loads(address.read_text())["pid"])
    process.terminate()
    assert process.wait(timeout=60) == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(server, 0)


def test_after_a_kill_the_verbs_open_the_folder_themselves(tmp_path: Path) -> None:
    server = Server(tmp_path / "data").start()
    server.kill()
    assert (tmp_path / "data" / "server.json").exists()
    listed = stagewatch("turns", "--json", "--data-dir", str(tmp_path / "data"), cwd=tmp_path)
    assert json.loads(listed.stdout)["items"] == [], listed.stderr


def test_the_first_key_is_an_administrators(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    said = one_line(
        stagewatch("key", "create", "me", "--role", "read", "--data-dir", data, cwd=tmp_path)
    )
    assert "--role admin --project '*'" in said
    made = stagewatch(
        "key", "create", "me", "--role", "admin", "--project", "*", "--data-dir", data, cwd=tmp_path
    )
    assert made.returncode == 0, made.stderr
    assert "From now on every sender" in made.stdout


def test_a_host_that_is_none_spends_no_key(tmp_path: Path) -> None:
    said = one_line(stagewatch("up", cwd=tmp_path, STAGEWATCH_HOST="nosuchhost.invalid"))
    assert "is no address here" in said
    assert not (tmp_path / ".stagewatch").exists()
