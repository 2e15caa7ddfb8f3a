"""Passes against apps that misbehave: each row errs on its own, and every pass has an end."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.support.probes_oddapp import OddApp, odd_app
from tests.support.probes_rows import live_rows
from tests.support.server import until

from stagewatch.core.clock import ManualClock, SystemClock
from stagewatch.core.codec import from_json
from stagewatch.core.errors import InvalidInputError, OverloadedError
from stagewatch.core.model import DatasetRow
from stagewatch.core.settings import Settings
from stagewatch.core.store import Store
from stagewatch.core.store.probes import pass_row_bodies
from stagewatch.scorer.plans.exchange import check_address
from stagewatch.scorer.probes.ask import ProbeResult
from stagewatch.scorer.probes.desk import MAX_OF_PROJECT, ProbeDesk
from stagewatch.scorer.probes.passes import Surroundings, run_pass
from stagewatch.scorer.probes.probe import (
    Probe,
    all_probes,
    check_storable,
    parse_probe,
    put_probe,
    shown_body,
)
from stagewatch.scorer.probes.record import Pass, passes_of

AT = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def app() -> Iterator[OddApp]:
    with odd_app() as started:
        yield started


@pytest.fixture
def around(store: Store, settings: Settings) -> Surroundings:
    numbers = itertools.count(1)
    return Surroundings(
        store, settings, SystemClock(), {}, lambda: f"{next(numbers):016x}{next(numbers):016x}",
        allowed_env={"BOT_TOKEN"},
    )  # fmt: skip


def rows(store: Store, project: str, n: int = 3) -> list[DatasetRow]:
    return live_rows(store, project, n, at=AT)


def probe(url: str, name: str = "p", **connector: Any) -> Probe:
    made = {"url": url, "timeout_s": 1, "concurrency": 2, **connector}
    return parse_probe({"name": name, "dataset": "live", "connector": made})


def errors(around: Surroundings, project: str, ended: Pass) -> set[str]:
    bodies = pass_row_bodies(around.store, project, "p", ended.pass_id)
    return {from_json(ProbeResult, body).row.error for body in bodies}


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/garbage", "the app's answer is not HTTP: BadStatusLine"),
        ("/short", "the app broke the connection: its answer is cut short"),
        ("/deep", "the app's answer is nested too deeply"),
        ("/half", "the app's answer holds half a character (a lone surrogate)"),
        ("/digits", "the app's answer is not JSON"),
        ("/empty", "the app broke the connection: RemoteDisconnected"),
        ("/elsewhere", "the app answered 302"),
        ("/drip", "the app did not answer in 1 s"),
        ("/drip-head", "the app did not answer in 1 s"),
        ("/hang", "the app did not answer in 1 s"),
    ],
)
def test_what_an_app_does_wrong_is_the_rows_error(
    around: Surroundings, project: str, app: OddApp, path: str, why: str
) -> None:
    rows(around.store, project)
    ended = run_pass(around, project, probe(app.url + path))
    assert (ended.counts, ended.done) == ({"pass": 0, "fail": 0, "errored": 3}, 3)
    assert ended.ended_at is not None
    assert errors(around, project, ended) == {why}


def test_a_row_that_cannot_be_written_is_its_own_error(
    around: Surroundings, project: str, app: OddApp
) -> None:
    given = rows(around.store, project)
    given[1] = replace(given[1], question="half \ud800 a pair")
    ended = run_pass(around, project, probe(f"{app.url}/ok"), given=given)
    assert (ended.state, ended.counts["errored"], ended.counts["pass"]) == ("finished", 1, 2)


@pytest.mark.parametrize(
    "url",
    ["http://a..b/x", "http://127.0.0.1:99999/", "http://[::1/", "http:///x", "http://h/ x",
     f"http://{'a' * 64}.example/x", "http://h/\r\ny: z", "http://h:0/", "http://bücher.example/"],
)  # fmt: skip
def test_an_address_that_cannot_be_is_refused(url: str) -> None:
    with pytest.raises(InvalidInputError, match="connector url"):
        check_address(url)


def test_numbers_beyond_the_store_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="version"):
        parse_probe(
            {"name": "p", "dataset": "d", "version": 2**40, "connector": {"url": "http://h"}}
        )
    with pytest.raises(InvalidInputError, match="64 bits"):
        check_storable(probe("http://h", body={"n": 10**30}))


def test_addresses_are_whole_for_those_who_set_them_only() -> None:
    body = shown_body(probe("http://u:pw@h:9000/T0KEN?key=s3cret"), whole=False)
    assert body["connector"]["url"] == "http://h:9000/•••"
    assert shown_body(probe("http://h/a?b"), whole=True)["connector"]["url"] == "http://h/a?b"


def ends(desk: ProbeDesk, project: str, name: str) -> Pass:
    def newest() -> Pass | None:
        found = passes_of(desk.around.store, project, name, 1)
        return found[0] if found and found[0].state != "running" else None

    return until(f"the pass of {name}", newest)


def test_a_project_of_slow_apps_leaves_room_for_others(
    around: Surroundings, project: str, app: OddApp
) -> None:
    other = f"{project}-b"
    rows(around.store, project)
    rows(around.store, other)
    desk = ProbeDesk(around)
    slow = [probe(f"{app.url}/hang", f"s{n}", timeout_s=60) for n in range(MAX_OF_PROJECT + 1)]
    for item in slow[:-1]:
        desk.start(project, item)
    with pytest.raises(OverloadedError, match="of a project"):
        desk.start(project, slow[-1])
    desk.start(other, probe(f"{app.url}/ok"))
    assert ends(desk, other, "p").counts["pass"] == 3
    # A deleted probe's slot is free for the next, though its app still has not answered.
    desk.cancel(project, "s0")
    assert ends(desk, project, "s0").note == "stopped before every row was asked"
    until("the slot", lambda: not desk.running(project, "s0"))
    desk.start(project, slow[-1])
    desk.close(30)
    for item in slow[1:]:
        assert ends(desk, project, item.name).state == "stopped"


def test_a_pass_that_cannot_begin_is_an_ended_pass_told_once(
    around: Surroundings, project: str, app: OddApp, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock(AT)
    desk = ProbeDesk(replace(around, clock=clock))
    rows(around.store, project)
    made = probe(f"{app.url}/ok", project, headers={"authorization": "Bearer ${BOT_TOKEN}"})
    made = made.model_copy(update={"every_minutes": 1.0})
    put_probe(around.store, project, made, at=AT)
    with pytest.raises(InvalidInputError, match="BOT_TOKEN"):
        desk.start(project, made)
    assert passes_of(around.store, project, project) == []
    for _ in range(3):
        desk.start_due()
        desk.start_due()
        clock.advance(61)
    (blocked,) = passes_of(around.store, project, project)
    assert (blocked.state, blocked.rows) == ("blocked", 0)
    assert blocked.note == "${BOT_TOKEN} is not set in the environment"
    # Probes of other tests are on the store too; this one has its project's name.
    told = [r.message for r in caplog.records if getattr(r, "probe", "") == project]
    assert told == ["a probe cannot run"]
    ready = ProbeDesk(replace(around, clock=clock, environ={"BOT_TOKEN": "t"}))
    ready.start_due()
    until("a pass", lambda: len(passes_of(around.store, project, project)) == 2)
    assert ends(ready, project, project).counts["pass"] == 3


def test_a_probe_that_cannot_be_read_leaves_the_others(store: Store, project: str) -> None:
    put_probe(store, project, probe("http://h/x", "well"), at=AT)
    odd = probe("http://h/x", "odd").model_copy(update={"every_minutes": -1.0})
    put_probe(store, project, odd, at=AT)
    assert [item.name for of, item in all_probes(store) if of == project] == ["well"]
