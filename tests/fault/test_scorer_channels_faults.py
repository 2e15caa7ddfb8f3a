"""Senders that are killed: between sending and writing it down, and one of several."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.support.channels_alerts import AT, alert, channel
from tests.support.channels_receiver import receiving
from tests.support.clickhouse_front import clickhouse_front
from tests.support.server import Server, until

from stagewatch.core.settings import load_settings
from stagewatch.core.store import Store, firsts, migrate, open_store
from stagewatch.core.store.alerts import put_alert
from stagewatch.core.store.firsts import is_first
from stagewatch.scorer.channels.channel import drop_channel, need_channel, put_channel
from stagewatch.scorer.channels.due import LOST_AFTER
from stagewatch.scorer.leases import living

pytestmark = pytest.mark.fault
ROOT = Path(__file__).resolve().parents[2]


def sender(folder: Path, seconds: float, *url: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.support.channels_sender", str(folder), str(seconds)]
    return subprocess.Popen([*command, *url], cwd=ROOT, stdout=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return [json.loads(line) for line in out.splitlines()]


def test_a_message_cut_short_by_a_kill_comes_again_with_the_same_id(tmp_path: Path) -> None:
    folder, gate = tmp_path / "data", tmp_path / "gate"
    with receiving() as receiver:
        first = sender(folder, 0, f"{receiver.url}/hold?until={gate}")
        # The receiver has it, the sender waits for its answer and knows nothing yet.
        receiver.wait(1)
        first.kill()
        first.communicate(timeout=60)
        gate.touch()

        (line,) = ended(sender(folder, 10))
        assert (line["state"], line["attempt"]) == ("sending", 1)
        assert len(receiver.got) == 1

        (line,) = ended(sender(folder, LOST_AFTER.total_seconds() + 1))
        assert (line["state"], line["attempt"], line["said"]) == ("sent", 2, "at last")
        (line,) = ended(sender(folder, LOST_AFTER.total_seconds() * 3))
        assert line["attempt"] == 2

        assert len(receiver.got) == 2
        one, two = receiver.got
        assert one["headers"]["webhook-id"] == two["headers"]["webhook-id"] == line["delivery_id"]
        assert one["body"] == two["body"]


def saver(url: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.support.channels_saver", url]
    return subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )


def test_two_processes_that_make_a_channel_at_once_give_away_one_secret(tmp_path: Path) -> None:
    with clickhouse_front(tmp_path / "engine") as url:
        store = open_store(load_settings({"STAGEWATCH_CLICKHOUSE_URL": url}))
        migrate(store)
        savers = [saver(url) for _ in range(2)]
        pipes = [(item.stdin, item.stdout) for item in savers]
        try:
            for _, said in pipes:
                assert said is not None
                assert said.readline() == "ready\n"
            for round_ in range(12):
                # Every other round makes anew what the round before made and somebody deleted.
                name = f"c{round_ // 2}"
                for asked, _ in pipes:
                    assert asked is not None
                    asked.write(f"{name}\n")
                told = sorted(json.loads(said.readline()) for _, said in pipes if said)
                assert told[0] == "conflict"
                assert need_channel(store, "p", name).secret == told[1]
                drop_channel(store, "p", name, at=datetime.now(UTC))
        finally:
            for item in savers:
                item.kill()
                item.communicate()
            store.close()


def test_what_a_dead_process_had_claimed_is_anybodys(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_first(store, "channel", "ops")
    assert not is_first(store, "channel", "ops")
    assert is_first(store, "channel", "other")
    monkeypatch.setattr(firsts, "VOID_AFTER_S", 0.0)
    assert is_first(store, "channel", "ops")


def test_of_three_scorers_one_tells_and_another_goes_on_when_it_is_killed(tmp_path: Path) -> None:
    with receiving() as receiver, clickhouse_front(tmp_path / "engine") as url:
        store = open_store(load_settings({"STAGEWATCH_CLICKHOUSE_URL": url}))
        migrate(store)
        put_channel(store, "p", channel(url=f"{receiver.url}/ok"), at=AT)
        environ = {
            "STAGEWATCH_CLICKHOUSE_URL": url,
            "STAGEWATCH_ALERT_NETWORKS": "127.0.0.0/8",
        }
        scorers = [Server(tmp_path / f"s{i}", environ, ("scorer",)) for i in range(3)]
        try:
            for scorer in scorers:
                scorer.start()
            until("three scorers", lambda: len(living(store)) == 3)
            for n in range(1, 4):
                put_alert(store, "p", alert(f"a{n}"), at=AT)
                receiver.wait(n)
            # Whichever of the three told so far: two of them are gone now.
            for scorer in scorers[:2]:
                scorer.kill()
            for n in range(4, 6):
                put_alert(store, "p", alert(f"a{n}"), at=AT)
                receiver.wait(n)
        finally:
            for scorer in scorers:
                if scorer.process is not None and scorer.process.poll() is None:
                    scorer.stop()
            store.close()
        ids = [item["headers"]["webhook-id"] for item in receiver.got]
        assert len(ids) == len(set(ids)) == 5
