"""Channels over the API of a real server, and a real alert on its way to a real receiver."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.alerts_past import send_past
from tests.support.channels_receiver import Receiver, receiving
from tests.support.server import Server, serving, stagewatch, until

from stagewatch.core.clock import rfc3339

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with receiving() as started:
        yield started


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("channels") / "data"
    with serving(
        folder,
        STAGEWATCH_ALERT_NETWORKS="127.0.0.0/8",
        STAGEWATCH_ALERT_ENV="HOOK",
        HOOK=f"{receiver.url}/ok?named",
        STAGEWATCH_PUBLIC_URL="https://watch.example",
    ) as started:
        yield started


def test_a_channel_is_made_changed_and_deleted_and_never_shows_its_secret(
    server: Server, receiver: Receiver
) -> None:
    made = server.post("/channels?project=a", {"name": "ops", "url": f"{receiver.url}/hush/T0KEN"})
    secret = made["new_secret"]
    assert secret.startswith("whsec_")
    listed = server.call("GET", "/api/v1/channels?project=a").body.decode()
    assert "T0KEN" not in listed
    assert secret not in listed
    # A change without address and secret keeps both.
    changed = server.post("/channels?project=a", {"name": "ops", "stages": ["ranking"]})
    assert changed["new_secret"] is None
    assert changed["stages"] == ["ranking"]
    told = server.post("/alerts/test?project=a", {"channel": "ops"})
    assert (told["ok"], told["status"], told["said"]) == (True, 200, "thank you")
    assert receiver.got[-1]["path"] == "/hush/T0KEN"
    log = server.get("/channels/deliveries?project=a")["items"]
    assert [(line["event"], line["state"]) for line in log] == [("test", "sent")]
    assert server.call("DELETE", "/api/v1/channels/ops?project=a").status == 204
    assert server.call("DELETE", "/api/v1/channels/ops?project=a").status == 404
    assert server.call("POST", "/api/v1/alerts/test?project=a", {"channel": "ops"}).status == 404
    assert secret not in server.output()


@pytest.mark.parametrize(
    "body",
    [
        {"name": "x"}, {"name": "x", "url": "gopher://x"}, {"name": "", "url": "https://x"},
        {"name": "x", "kind": "service", "url": "exec://id"}, {"name": ["x"], "url": "https://x"},
        {"name": "x", "url": "https://x", "secret": "short-T0KEN"},
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said_in_one_line(server: Server, body: dict[str, Any]) -> None:
    answer = server.call("POST", "/api/v1/channels", body)
    assert answer.status == 400
    assert answer.json()["detail"]
    assert "T0KEN" not in answer.body.decode()


def test_an_address_in_a_variable_is_read_when_it_is_used(
    server: Server, receiver: Receiver
) -> None:
    server.post("/channels?project=b", {"name": "named", "url": "env:HOOK"})
    assert server.post("/alerts/test?project=b", {"channel": "named"})["ok"]
    assert receiver.got[-1]["path"] == "/ok?named"
    server.post("/channels?project=b", {"name": "other", "url": "env:PATH"})
    said = server.post("/alerts/test?project=b", {"channel": "other"})
    assert (said["ok"], said["said"]) == (
        False, "PATH may not be read: name it in STAGEWATCH_ALERT_ENV",
    )  # fmt: skip


def test_a_silence_is_told_and_its_end_too(
    server: Server, receiver: Receiver, tmp_path: Path
) -> None:
    server.post("/channels", {"name": "ops", "url": f"{receiver.url}/silence"})
    send_past(server.otlp_http)
    server.turns(500)
    # The silence job runs at the start and then once a minute.
    server.stop()
    server.start()

    def alert() -> dict[str, Any] | None:
        found = server.get("/alerts")["items"]
        return found[0] if found else None

    opened = until("the alert", alert)
    assert (opened["stage"], opened["severity"], opened["state"]) == (
        "no_data", "critical", "open",
    )  # fmt: skip
    address = f"/alerts/{opened['alert_id']}"

    def got() -> list[dict[str, Any]]:
        return [json.loads(item["body"]) for item in receiver.got if item["path"] == "/silence"]

    until("the message", lambda: len(got()) == 1)
    assert got()[0]["type"] == "alert.opened"
    assert got()[0]["data"]["sentence"] == opened["sentence"]

    snoozed = server.post(f"{address}/snooze", {"hours": 2})
    assert snoozed["state"] == "snoozed"
    assert server.get("/alerts?state=open")["items"] == []
    assert server.call("POST", f"/api/v1{address}/snooze", {"hours": -1}).status == 400
    assert server.post(f"{address}/reopen", None)["state"] == "open"
    acked = stagewatch(server, tmp_path, "alerts", "ack", opened["alert_id"][:6])
    assert acked.stdout == f"{opened['alert_id'][:8]} is acked\n"
    until("the acknowledgement", lambda: [item["type"] for item in got()][1:] == ["alert.acked"])

    dry = server.post("/alerts/dry-run", {"settings": {"stages": ["no_data"]}})
    assert [item["event"] for item in dry["items"]] == ["opened", "acked"]
    none = server.post("/alerts/dry-run", {"settings": {"stages": ["ranking"]}})
    assert none["items"] == []

    send_past(server.otlp_http, days=0.001, until_days_ago=0.0, n=10)
    hour_ago = datetime.now(UTC) - timedelta(hours=1)
    server.turns(10, query=f"since={rfc3339(hour_ago)}")
    server.stop()
    server.start()
    until("the closing message", lambda: [item["type"] for item in got()][2:] == ["alert.closed"])
    assert server.get("/alerts")["items"][0]["state"] == "closed"
    told = server.get(f"{address}/deliveries")["items"]
    assert [line["event"] for line in told] == ["closed", "acked", "opened"]
    assert server.call("POST", "/api/v1/alerts/none/ack").status == 404


def test_the_command_line_makes_and_tries_a_channel(
    server: Server, receiver: Receiver, tmp_path: Path
) -> None:
    here = ("--project", "cli")
    file = tmp_path / "desk.json"
    file.write_text(json.dumps({"name": "desk", "url": f"{receiver.url}/refuse"}))
    made = stagewatch(server, tmp_path, "alerts", "channel", "desk.json", *here)
    assert made.returncode == 0, made.stderr
    assert "shown this once: whsec_" in made.stdout
    tried = stagewatch(server, tmp_path, "alerts", "test", "desk", *here)
    assert (tried.returncode, tried.stdout) == (1, "not sent: 400 I do not want this\n")
    listed = stagewatch(server, tmp_path, "alerts", "channels", *here)
    assert "http://127.0.0.1/•••" in listed.stdout
    dry = stagewatch(server, tmp_path, "alerts", "dry-run", "--channel", "desk", *here)
    assert dry.stdout == "0 messages, 0 held back\n"
    assert stagewatch(server, tmp_path, "alerts", "list", *here).stdout == "no alert\n"
    lost = stagewatch(server, tmp_path, "alerts", "ack", "3f2a", *here)
    assert (lost.returncode, "no alert has an id" in lost.stderr) == (2, True)
