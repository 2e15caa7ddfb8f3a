"""A probe whose recall falls opens an alert of its own, tells channels, and closes it again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.support.channels_alerts import SECRET, channel
from tests.support.channels_receiver import Receiver, receiving
from tests.support.probes_oddapp import OddApp, odd_app
from tests.support.probes_rows import live_rows
from tests.support.server import until

from stagewatch.core.clock import ManualClock, rfc3339
from stagewatch.core.model import Score
from stagewatch.core.settings import Settings
from stagewatch.core.store import Store
from stagewatch.core.store.alerts import list_alerts
from stagewatch.core.store.probes import ProbedRow, put_probed_rows
from stagewatch.scorer.channels.addresses import parse_networks
from stagewatch.scorer.channels.channel import put_channel
from stagewatch.scorer.channels.deliver import Office, notify_pass
from stagewatch.scorer.probes.desk import ProbeDesk
from stagewatch.scorer.probes.passes import Surroundings
from stagewatch.scorer.probes.probe import parse_probe
from stagewatch.scorer.probes.watch import close_alerts, watch_probe
from stagewatch.scorer.watch import find_alerts

pytestmark = pytest.mark.integration

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
ROWS = 60


@pytest.fixture(scope="module")
def app() -> Iterator[OddApp]:
    with odd_app() as started:
        yield started


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with receiving() as started:
        yield started


class Past:
    """Passes of a probe, stored as they would have come, an hour apart."""

    def __init__(self, store: Store, project: str) -> None:
        self.store, self.project, self.at = store, project, AT

    def passes(self, n: int, *, failing: int = 0, index: str = "kb-1") -> None:
        for _ in range(n):
            self.at += timedelta(hours=1)
            rows = [
                ProbedRow(
                    row_id=f"r{row}", asked_at=self.at + timedelta(seconds=row), calls=1,
                    verdict="fail" if row < failing else "pass", body="{}",
                    scores=(_score(ok=row >= failing),),
                    dimensions={"release": "", "index_version": index, "prompt_version": ""},
                )
                for row in range(ROWS)
            ]  # fmt: skip
            put_probed_rows(
                self.store, self.project, "nightly", f"p{self.at:%d%H}", rows, at=self.at
            )

    @property
    def now(self) -> datetime:
        return self.at + timedelta(minutes=30)

    def watch(self) -> int:
        return watch_probe(self.store, self.project, "nightly", self.now)

    def alerts(self) -> list[dict[str, object]]:
        return list_alerts(self.store, self.project, self.now)


def _score(*, ok: bool) -> Score:
    return Score(
        "retrieved_recall", "scored", float(ok), "pass" if ok else "fail", basis="gold",
        threshold=1.0,
    )  # fmt: skip


@pytest.fixture
def past(store: Store, project: str) -> Past:
    return Past(store, project)


def test_a_fall_opens_one_alert_that_names_the_probe_and_closes_when_it_is_mended(
    past: Past,
) -> None:
    past.passes(22)
    assert past.watch() == 0
    past.passes(1, failing=12, index="kb-2")
    assert past.watch() == 1
    (alert,) = past.alerts()
    assert (alert["probe"], alert["metric"], alert["stage"], alert["state"]) == (
        "nightly", "retrieved_recall", "retrieval", "open",
    )  # fmt: skip
    assert str(alert["sentence"]).startswith(
        "retrieval: probe nightly: questions with a relevant passage fell from 100% to 80%"
    )
    assert alert["near"] == ["index version kb-1 → kb-2"]
    assert alert["turn_ids"] == []
    assert sorted(alert["rows"]) == sorted(f"r{n}" for n in range(12))  # type: ignore[call-overload]
    # Live numbers know nothing of it.
    live = find_alerts(past.store, past.project, past.now, is_calibrated=lambda _m, _f: True)
    assert live == []

    past.passes(2, failing=12, index="kb-2")
    assert past.watch() == 0
    (again,) = past.alerts()
    assert (again["alert_id"], again["noticed_at"]) == (alert["alert_id"], alert["noticed_at"])
    past.passes(2, index="kb-3")
    assert past.watch() == 0
    (closed,) = past.alerts()
    assert closed["state"] == "closed"
    past.passes(1, index="kb-3")
    assert past.watch() == 0
    assert [(a["alert_id"], a["state"]) for a in past.alerts()] == [(alert["alert_id"], "closed")]


def test_alerts_of_a_probe_that_is_deleted_are_closed(past: Past) -> None:
    past.passes(22)
    past.passes(1, failing=12)
    assert past.watch() == 1
    close_alerts(past.store, past.project, "another", past.now)
    assert past.alerts()[0]["state"] == "open"
    close_alerts(past.store, past.project, "nightly", past.now)
    assert past.alerts()[0]["state"] == "closed"


def test_the_pass_that_finds_it_tells_the_channels(
    past: Past, store: Store, settings: Settings, app: OddApp, receiver: Receiver
) -> None:
    """The history is good; the app now gives another passage than the one that is needed."""
    past.passes(22)
    live_rows(store, past.project, ROWS, at=AT, chunk_id="elsewhere#1")
    made = parse_probe(
        {"name": "nightly", "dataset": "live",
         "connector": {"url": f"{app.url}/ok", "concurrency": 8}}
    )  # fmt: skip
    clock = ManualClock(past.at + timedelta(hours=1))
    ids = iter(range(1, 10_000))
    around = Surroundings(store, settings, clock, {}, lambda: f"{next(ids):032x}")
    put_channel(
        store,
        past.project,
        channel(url=f"{receiver.url}/ok", secret=SECRET, since=rfc3339(AT)),
        at=AT,
    )
    ProbeDesk(around).start(past.project, made)
    (alert,) = until("the alert", past.alerts)
    assert (alert["probe"], alert["to"]) == ("nightly", 0.0)
    office = Office(store, clock, {}, set(), parse_networks("127.0.0.0/8"), "https://watch.example")
    notify_pass(replace(office, clock=ManualClock(clock.now() + timedelta(minutes=1))))
    receiver.wait(1)
    body = str(receiver.got[0]["body"])
    assert f"Alert: retrieval in probe nightly of {past.project} (critical)" in body
    assert "https://watch.example/probes/nightly" in body
