"""The demo's story: start a server, replay captures, run the bot, say what was found."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from stagewatch.core.cli.data import post_otlp, signal_of
from stagewatch.core.cli.link import Link, running_server
from stagewatch.core.errors import InvalidInputError, StagewatchError
from stagewatch.demo.bot import Bot, Conversation
from stagewatch.demo.labels import bind, hand_labels
from stagewatch.demo.phases import Phase, phases, questions
from stagewatch.demo.regressions import MENDED, guard
from stagewatch.demo.serve import App, serving
from stagewatch.demo.shift import shifted
from stagewatch.demo.telling import next_steps, progress, report, say
from stagewatch.sdk import configure, feedback, flush, shutdown

MARK = ".stagewatch-demo"
START_S = 90
SETTLE_S = 240
_PER_SECOND = 45


def run(arguments: argparse.Namespace) -> int:
    """Run the whole demo; exit code 0 when every phase was named rightly, else 1."""
    began = time.monotonic()
    data_dir: Path = arguments.data_dir
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    fresh_folder(data_dir)
    app = App(*MENDED)
    # The bot goes on being served beside the server, so that its plan can be run again.
    with _server(data_dir, arguments.port) as addresses, serving(app) as bot:
        url = addresses["api"]
        say(f"server up: {url} (data in {data_dir})")
        link = _link(url)
        replay_captures(addresses["otlp http"])
        with _reporting(addresses):
            findings = [
                play(phase, link, number) for number, phase in enumerate(phases(arguments.turns))
            ]
            dispute_some(link)
            calibrate(link)
            alerts = wait_for_alerts(link)
            outcome = guard(lambda name: _link(url, name), app, bot)
            ok = report(findings, alerts, outcome, url, time.monotonic() - began, arguments)
            if not arguments.once:
                say(next_steps(url, outcome.path, data_dir))
                with contextlib.suppress(KeyboardInterrupt):
                    signal.pause()
    return 0 if ok else 1


@contextlib.contextmanager
def _reporting(addresses: Mapping[str, str]) -> Iterator[None]:
    """The SDK, sending to the server until the end."""
    configure(
        addresses["otlp http"], service="refund-bot", url=addresses["api"], environment="demo"
    )
    try:
        yield
    finally:
        shutdown()


def _leave(number: int, _: object) -> None:
    """Leave by way of the cleanup, so that no server stays behind."""
    raise SystemExit(128 + number)


def fresh_folder(data_dir: Path) -> None:
    """Empty the folder of an earlier demo, or make a new one; nobody else's is touched.

    Raises:
        InvalidInputError: the folder holds something else, or a demo that still runs.
    """
    mark = data_dir / MARK
    if data_dir.exists() and any(data_dir.iterdir()) and not mark.exists():
        raise InvalidInputError(
            f"{data_dir} is not a folder of an earlier demo, so it is left alone: "
            "name an empty or a new one with --data-dir"
        )
    if running_server(data_dir):
        raise InvalidInputError(f"a demo is still running on {data_dir}: stop it first")
    shutil.rmtree(data_dir, ignore_errors=True)
    data_dir.mkdir(parents=True)
    mark.write_text("made by stagewatch demo, which empties this folder\n", encoding="utf-8")


def _free_port(wanted: int) -> int:
    with socket.socket() as probe:
        # A port that a server has just left is free, though connections to it still linger.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted))
            return wanted
        except OSError:
            pass
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    say(f"port {wanted} is in use; taking {port}")
    return port


@contextlib.contextmanager
def _server(data_dir: Path, port: int | None) -> Iterator[dict[str, str]]:
    """`stagewatch up` in a process of its own, stopped with SIGTERM at the end."""
    data_dir.mkdir(parents=True, exist_ok=True)
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith("STAGEWATCH_")
    }
    environ |= {
        "STAGEWATCH_DATA_DIR": str(data_dir),
        "STAGEWATCH_PORT": str(_free_port(port or 8600)),
        "STAGEWATCH_OTLP_GRPC_PORT": str(_free_port(4317)),
        "STAGEWATCH_OTLP_HTTP_PORT": str(_free_port(4318)),
        "STAGEWATCH_QUIET_SECONDS": "1",
        "STAGEWATCH_SCORE_EVERY_SECONDS": "1",
    }
    log_file = data_dir / "server.log"
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "stagewatch", "up"],
            env=environ,
            stdout=log,
            stderr=subprocess.STDOUT,
            # Ctrl-C reaches this process; the server gets its SIGTERM from us, once.
            start_new_session=True,
        )
        try:
            yield _wait_ready(process, data_dir, log_file)
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(timeout=60)
            say(f"server stopped (exit {code})")


def _wait_ready(process: subprocess.Popen[bytes], data_dir: Path, log_file: Path) -> dict[str, str]:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError, ValueError):
            return dict(json.loads((data_dir / "server.json").read_text(encoding="utf-8")))
        time.sleep(0.1)
    raise StagewatchError(f"the server did not start; it said: {log_file.read_text()[-2000:]}")


def _link(url: str, person: str | None = None) -> Link:
    link = Link(argparse.Namespace(url=url, project=None))
    link.person = person or link.person
    return link


def replay_captures(otlp: str) -> None:
    """Send the captured requests of other instrumentations, their times moved to now."""
    folder = resources.files("stagewatch.demo").joinpath("captures")
    sent = 0
    names = sorted(folder.iterdir(), key=lambda item: item.name)
    for item in names:
        if item.name.endswith(".pb"):
            kind = signal_of(Path(item.name))
            body = shifted(item.read_bytes(), kind, now_ns=time.time_ns())
            post_otlp(
                otlp, kind, body, "application/x-protobuf", {"x-stagewatch-project": "captures"}
            )
            sent += 1
    say(f"replayed {sent} captured OTLP requests (OpenInference, GenAI, Traceloop, Langfuse, …)")


def play(phase: Phase, link: Link, number: int) -> dict[str, Any]:
    """Run one phase, wait until its turns are scored, and return what was found."""
    say(f"\nphase {number + 1}: {phase.name} — {phase.says}")
    bot = Bot(phase.deployment)
    conversation = Conversation("")
    interval = 1.0 / _PER_SECOND
    for n, asked in enumerate(questions(phase.facts, phase.turns, seed=number), start=1):
        if asked.opens:
            conversation = Conversation(f"demo-{number}-{n}")
        bot.ask(asked.question, conversation, standalone=asked.standalone)
        progress("asking", n, phase.turns)
        time.sleep(interval)
    flush(10)
    stages = wait_scored(link, phase)
    alerts = len(link.call("GET", "/drift")["items"])
    return {"phase": phase, "stages": stages, "drift": alerts}


def wait_scored(link: Link, phase: Phase) -> dict[str, int]:
    """Diagnosed stage → turns of the phase, once every turn has a decision."""
    deadline = time.monotonic() + SETTLE_S
    while True:
        found = phase_turns(link, phase)
        scored = [turn for turn in found if turn["diagnosis"]]
        progress("scored", len(scored), phase.turns)
        if len(scored) >= phase.turns:
            break
        if time.monotonic() > deadline:
            raise StagewatchError(
                f"only {len(scored)} of {phase.turns} turns were scored in {SETTLE_S} s"
            )
        time.sleep(0.5)
    stages: dict[str, int] = {}
    for turn in scored:
        stage = turn["diagnosis"]["stage"]
        stages[stage] = stages.get(stage, 0) + 1
    return stages


def phase_turns(link: Link, phase: Phase) -> list[dict[str, Any]]:
    """Every turn of a phase, as summaries."""
    query: dict[str, Any] = {
        "release": phase.deployment.release,
        "index_version": phase.deployment.index_version,
        "limit": 500,
    }
    found: list[dict[str, Any]] = []
    while True:
        page = link.call("GET", "/turns", query=query)
        found += page["items"]
        if not page["next_cursor"]:
            return found
        query["cursor"] = page["next_cursor"]


def dispute_some(link: Link) -> None:
    """Three customers dispute what the last, stale deployment told them."""
    found = link.call("GET", "/turns", query={"diagnosis": "stale_source", "limit": 3})
    for n, turn in enumerate(found["items"]):
        feedback(
            turn["trace_id"],
            "disputed",
            comment="The policy page says something else.",
            source="helpdesk",
            external_id=f"ticket-{100 + n}",
        )
    flush(10)


def calibrate(link: Link) -> None:
    """Post the shipped hand labels, bound to this run's turns."""
    turns = [turn for phase in phases(1) for turn in phase_turns(link, phase)]
    stored = 0
    for turn_id, labels in bind(hand_labels(), turns).items():
        stored += link.call("POST", "/labels", body={"turn_id": turn_id, "labels": labels})[
            "stored"
        ]
    say(f"\ncalibrating the embedded judge with {stored} hand labels")
    for item in link.call("GET", "/calibration")["items"]:
        kappa = item["kappa"]
        if kappa:
            say(
                f"  {item['metric']}: {item['state']}, kappa {kappa['value']:.2f} "
                f"({kappa['low']:.2f} to {kappa['high']:.2f}), n {item['n']}"
            )


def wait_for_alerts(link: Link) -> list[dict[str, Any]]:
    """The alerts that the scorer opens once the judge is calibrated."""
    wanted = len(link.call("GET", "/drift")["items"])
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = list(link.call("GET", "/alerts")["items"])
        if len(found) >= wanted and found:
            return found
        time.sleep(0.5)
    return list(link.call("GET", "/alerts")["items"])
