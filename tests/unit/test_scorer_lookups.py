"""Names that no name server answers for: nobody waits beyond a deadline, nothing piles up."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry
from tests.support.server import until

from stagewatch.scorer.channels.post import Wire, post
from stagewatch.scorer.lookups import LOOKUPS, LookupLateError, Lookups, dial
from stagewatch.scorer.meters import Meters
from stagewatch.scorer.plans.exchange import RowError, ask_http


class HangingServer:
    """A name server that answers nobody until it is told to."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.threads: list[threading.Thread] = []

    def __call__(self, _host: str, _port: int) -> list[str]:
        self.threads.append(threading.current_thread())
        self.answers.wait()
        return ["192.0.2.1"]


@pytest.fixture
def hanging() -> Iterator[HangingServer]:
    made = HangingServer()
    yield made
    made.answers.set()
    for thread in made.threads:
        thread.join()


def test_a_webhook_whose_name_hangs_is_given_up_and_tried_again(hanging: HangingServer) -> None:
    wire = Wire(resolver=hanging, timeout_s=0.05, lookups=Lookups())
    outcome = post("https://hooks.test/x", {}, b"{}", wire)
    assert (outcome.ok, outcome.again, outcome.status) == (False, True, 0)
    assert outcome.said.startswith("the name hooks.test was not resolved in ")
    assert wire.lookups.late == 1


def test_a_row_whose_name_hangs_says_so(hanging: HangingServer) -> None:
    late = LOOKUPS.late
    with pytest.raises(RowError, match=r"the name of the app's host was not resolved in 0.05 s"):
        ask_http(
            "http://app.test/ask", method="GET", headers={}, body=None, timeout_s=0.05,
            resolver=hanging,
        )  # fmt: skip
    assert LOOKUPS.late == late + 1


def test_a_name_that_hangs_holds_one_thread_however_often_it_is_asked(
    hanging: HangingServer,
) -> None:
    lookups = Lookups(most=2)
    for _ in range(20):
        with pytest.raises(LookupLateError):
            lookups.find("a.test", 443, hanging, 0.001)
    assert (lookups.under_way, len(hanging.threads), lookups.late) == (1, 1, 20)
    assert lookups.find("b.test", 443, lambda _h, _p: ["192.0.2.2"], 30) == ["192.0.2.2"]


def test_hanging_names_take_no_more_places_than_there_are(hanging: HangingServer) -> None:
    lookups = Lookups(most=2)
    for number in range(10):
        with pytest.raises(LookupLateError):
            lookups.find(f"{number}.test", 443, hanging, 0.001)
    assert len(hanging.threads) == 2
    hanging.answers.set()
    # The places are free again, and a late answer is nobody's.
    assert lookups.find("9.test", 443, hanging, 30) == ["192.0.2.1"]
    until("the end of the lookups", lambda: not lookups.under_way)


def test_no_address_is_tried_after_the_deadline() -> None:
    left = iter([1.0, 0.0])
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    # Nobody listens there now: the first address fails at once, the time is up for the second.
    with pytest.raises(TimeoutError):
        dial(["127.0.0.1", "127.0.0.1"], port, lambda: next(left))


def test_what_a_resolver_raises_reaches_everybody_who_waited() -> None:
    lookups, told = Lookups(), threading.Event()
    seen: list[str] = []

    def resolver(_host: str, _port: int) -> list[str]:
        told.wait()
        raise OSError("no such name")

    def ask() -> None:
        try:
            lookups.find("a.test", 1, resolver, 30)
        except OSError as error:
            seen.append(str(error))

    askers = [threading.Thread(target=ask) for _ in range(3)]
    for asker in askers:
        asker.start()
    told.set()
    for asker in askers:
        asker.join()
    assert seen == ["no such name"] * 3


def test_late_names_are_counted_for_the_metrics_page(hanging: HangingServer) -> None:
    registry = CollectorRegistry()
    Meters(registry)
    name = "stagewatch_scorer_name_lookups_late_total"
    before = registry.get_sample_value(name)
    with pytest.raises(LookupLateError):
        LOOKUPS.find("meters.test", 443, hanging, 0.001)
    assert registry.get_sample_value(name) == (before or 0) + 1
    assert registry.get_sample_value("stagewatch_scorer_name_lookups") == 1
