"""Senders that are killed: between sending and writing it down, and one of several."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.channels_alerts import AT, alert, channel
from tests.support.channels_receiver import receiving
from tests.support.clickhouse_front import clickhouse_front
from tests.support.server import Server, until

from stagewatch.core.settings import load_settings
from stagewatch.core.store import migrate, open_store
from stagewatch.core.store.alerts import put_alert
from stagewatch.scorer.channels.channel import put_channel
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
