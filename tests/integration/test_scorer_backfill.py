"""Backfills: priced, carried out once, cancelled, resumed after a kill; what their scores mean."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from tests.support.refund import send_turn
from tests.support.scorer_bench import PaidBench
from tests.support.scorer_openai_server import ScriptedServer, running_server
from tests.support.server import Server, serving, until

from stagewatch.core.errors import ConflictError, InvalidInputError
from stagewatch.core.model import Turn
from stagewatch.core.settings import Settings, load_settings
from stagewatch.core.store import Store
from stagewatch.core.store.scores import readings
from stagewatch.scorer.backfill_ask import (
    Wish,
    backfill_view,
    cancel_backfill,
    price_wish,
    start_backfill,
)
from stagewatch.scorer.backfill_run import PAGE, BackfillRunner
from stagewatch.scorer.judges.embedded import EmbeddedJudge
from stagewatch.scorer.rules import Rule, RuleBook
from stagewatch.scorer.sampling import is_sampled
from stagewatch.scorer.work_hand import Duty
from stagewatch.scorer.work_one import Reader

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    with running_server() as started:
        yield started


class Backfills(PaidBench):
    """A bench with jobs."""

    def settings(self) -> Settings:
        return load_settings(
            {
                "STAGEWATCH_JUDGE": "openai",
                "STAGEWATCH_JUDGE_MODEL": self.model,
                "STAGEWATCH_JUDGE_INPUT_USD": "1000",
                "STAGEWATCH_JUDGE_OUTPUT_USD": "1000",
            }
        )

    def wish(self, **more: Any) -> Wish:
        now = self.clock.now()
        return Wish(
            **{"project": self.project, "since": now - timedelta(hours=1), "until": now, **more}
        )

    def start(self, **more: Any) -> str:
        job = start_backfill(
            self.store, self.settings(), self.wish(**more), by="me", agreed_usd=1e9,
            now=self.clock.now(),
        )  # fmt: skip
        return job.job_id

    def runner(self, reader: Reader | None = None, member: str = "me") -> BackfillRunner:
        book = RuleBook((), {self.project: (Rule(name="sample"),)})
        duty = Duty(timedelta(days=1), book=lambda: book, member=member)
        return BackfillRunner(self.store, self.clock, reader or self.reader(), duty, "openai")

    def view(self, job_id: str) -> dict[str, Any]:
        return backfill_view(self.store, self.project, job_id)

    def live(self, *, first_pass: bool = False) -> dict[str, tuple[float, str]]:
        now = self.clock.now()
        found = readings(
            self.store, self.project, "faithfulness", now - timedelta(days=1), now,
            first_pass=first_pass,
        )  # fmt: skip
        return {r.turn_id: (r.inclusion, r.fingerprint) for r in found}


@pytest.fixture
def bench(store: Store, project: str, server: ScriptedServer) -> Iterator[Backfills]:
    yield Backfills(store, project, server)
    server.fail_with(0)


def never() -> bool:
    return False


def scored_at(bench: Backfills, rate: float, n: int = 20) -> list[Turn]:
    """Turns that live scoring has been over."""
    started = bench.clock.now()
    turns = [
        bench.turn(f"n{i:02}", started_at=started - timedelta(minutes=30, seconds=-i))
        for i in range(n)
    ]
    bench.put(*turns)
    bench.worker(Rule(name="sample", rate=rate)).run_pass()
    bench.clock.advance(60)
    return turns


def test_a_whole_range_has_inclusion_one_and_what_was_read_is_not_read_again(
    bench: Backfills,
) -> None:
    turns = scored_at(bench, 0.3)
    drawn = {t.turn_id for t in turns if is_sampled(t.turn_id, 0.3)}
    assert {i for i, _ in bench.live().values()} == {0.3}
    before = bench.server.distinct(bench.model)
    forecast = price_wish(bench.store, bench.settings(), bench.wish())
    assert (forecast.turns, forecast.already, forecast.exact) == (20 - len(drawn), len(drawn), True)
    assert forecast.usd > 0
    job = bench.start()
    bench.runner().work(never)
    outcomes = bench.view(job)["progress"]["outcomes"]
    assert outcomes["scored"] == 20 - len(drawn)
    assert outcomes["already read"] == len(drawn)
    # What was asked, not how often: a stalled machine may lose a call, which is then repeated.
    asked = bench.server.distinct(bench.model)
    assert asked - before == 4 * (20 - len(drawn))
    assert asked <= forecast.calls + before
    calls = bench.server.calls(bench.model)
    live = bench.live()
    assert set(live) == {t.turn_id for t in turns}
    assert {i for i, _ in live.values()} == {1.0}
    assert {d.inclusion for d in bench.decisions(turns).values()} == {1.0}
    view = bench.view(job)
    assert view["progress"]["state"] == "done"
    assert view["progress"]["share"] == 1.0
    # The same range once more costs nothing.
    job = bench.start()
    bench.runner().work(never)
    assert bench.view(job)["progress"]["outcomes"]["already read"] == 20
    assert bench.server.calls(bench.model) == calls


def test_a_sampled_backfill_keeps_stored_inclusions_and_leaves_the_rest_alone(
    bench: Backfills,
) -> None:
    turns = scored_at(bench, 0.3)
    drawn = {t.turn_id for t in turns if is_sampled(t.turn_id, 0.3)}
    other = Backfills(bench.store, bench.project, bench.server, clock=bench.clock)
    job = other.start(scope="sampled")
    other.runner().work(never)
    outcomes = bench.view(job)["progress"]["outcomes"]
    assert outcomes["scored"] == len(drawn)
    assert outcomes["left out"] == 20 - len(drawn)
    now = bench.clock.now()
    found = readings(bench.store, bench.project, "faithfulness", now - timedelta(days=1), now)
    assert len(found) == 2 * len(drawn)
    assert {r.inclusion for r in found} == {0.3}
    rows = [r for t in turns for r in bench.rows(t) if r["basis"] == "rule"]
    assert {r["inclusion"] for r in rows} == {1.0}


def test_the_embedded_judge_reads_beside_the_configured_one(bench: Backfills) -> None:
    started = bench.clock.now()
    turns = bench.put(
        *(bench.turn(f"n{i}", started_at=started - timedelta(minutes=9)) for i in range(6))
    )
    bench.worker(Rule(name="half", rate=0.5), reader=bench.reader(first_pass=False)).run_pass()
    bench.clock.advance(60)
    before, shown = bench.live(), bench.outcomes(turns)
    assert bench.live(first_pass=True) == {}
    assert price_wish(bench.store, bench.settings(), bench.wish(judge="embedded")).usd == 0
    bench.start(judge="embedded")
    bench.runner().work(never)
    assert bench.live() == before
    assert bench.outcomes(turns) == shown
    cheap = bench.live(first_pass=True)
    assert set(cheap) == {t.turn_id for t in turns}
    assert set(cheap.values()) == {(1.0, EmbeddedJudge().fingerprint)}


def test_nothing_starts_without_a_yes_to_its_price(bench: Backfills) -> None:
    bench.put(bench.turn("a"))
    wish, settings = bench.wish(), bench.settings()
    price = price_wish(bench.store, settings, wish).usd
    for agreed in (None, price / 2):
        with pytest.raises(ConflictError, match="send agreed_usd"):
            start_backfill(
                bench.store, settings, wish, by="me", agreed_usd=agreed, now=bench.clock.now()
            )
    assert bench.start()


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        ({"judge": "oracle"}, "not configured"),
        ({"rule": "nobody"}, "no rule 'nobody'"),
        ({"judge": "embedded", "scope": "sampled"}, "every turn"),
        ({"until": datetime.fromisoformat("2000-01-01T00:00:00Z")}, "after since"),
    ],
)
def test_wishes_that_make_no_sense_are_refused(
    bench: Backfills, wish: dict[str, Any], says: str
) -> None:
    bench.put(bench.turn("a"))
    with pytest.raises(InvalidInputError, match=says):
        price_wish(bench.store, bench.settings(), bench.wish(**wish))


def test_an_empty_range_is_refused(bench: Backfills) -> None:
    with pytest.raises(InvalidInputError, match="no turn"):
        bench.start()


def test_a_cancelled_job_ends_with_what_it_has_read(bench: Backfills) -> None:
    turns = bench.put(*(bench.turn(f"n{i:03}") for i in range(PAGE + 10)))
    job = bench.start()

    def after_one() -> bool:
        return bool(bench.view(job)["progress"]["done"] >= PAGE)

    runner = bench.runner()
    runner.work(after_one)
    assert bench.view(job)["progress"]["done"] == PAGE
    cancel_backfill(bench.store, bench.project, job, by="me", now=bench.clock.now())
    assert bench.view(job)["cancelling"] is True
    runner.work(never)
    view = bench.view(job)
    assert view["progress"]["state"] == "cancelled"
    assert view["says"].startswith("cancelled: 50 of 60 turns")
    assert bench.outcomes(turns).count("scored") == PAGE
    with pytest.raises(ConflictError):
        cancel_backfill(bench.store, bench.project, job, by="me", now=bench.clock.now())


def test_a_job_waits_for_its_budget_and_goes_on_the_next_day(bench: Backfills) -> None:
    turns = bench.put(*(bench.turn(f"n{i}") for i in range(6)))
    job = bench.start()
    reader = bench.reader(bench.ledger(calls=9))
    runner = bench.runner(reader)
    runner.work(never)
    assert bench.server.calls(bench.model) <= 9
    view = bench.view(job)
    assert view["progress"]["state"] == "waiting"
    assert "budget of 9 judge calls" in view["progress"]["why"]
    for _ in range(3):
        bench.clock.advance(86_400)
        assert reader.budget is not None
        reader.budget.refresh()
        runner.work(never)
    assert bench.view(job)["progress"]["state"] == "done"
    assert bench.outcomes(turns) == ["scored"] * 6
    assert bench.server.calls(bench.model) == bench.server.distinct(bench.model)


def test_a_job_waits_out_an_outage(bench: Backfills) -> None:
    turns = bench.put(*(bench.turn(f"n{i}") for i in range(3)))
    job = bench.start()
    runner = bench.runner()
    bench.server.fail_with(401)
    runner.work(never)
    view = bench.view(job)
    assert view["progress"]["state"] == "waiting"
    assert "AuthenticationError" in view["progress"]["why"]
    bench.server.fail_with(0)
    bench.clock.advance(3600)
    runner.work(never)
    assert bench.view(job)["progress"]["state"] == "done"
    assert bench.outcomes(turns) == ["scored"] * 3


def send(server: Server, n: int) -> None:
    exporter = OTLPSpanExporter(endpoint=f"{server.otlp_http}/v1/traces")
    for number in range(n):
        send_turn(exporter, question=f"Within how many days can I return item {number}?")


def environ(server: ScriptedServer, model: str) -> dict[str, str]:
    return {
        "STAGEWATCH_JUDGE": "openai",
        "STAGEWATCH_JUDGE_MODEL": model,
        "STAGEWATCH_JUDGE_CONCURRENCY": "4",
        "STAGEWATCH_SAMPLE_RATE": "0",
        "OPENAI_API_KEY": "k",
        "OPENAI_BASE_URL": server.base_url,
    }


def test_a_killed_server_goes_on_where_it_was(tmp_path: Path, server: ScriptedServer) -> None:
    model = "slow-20"
    n = PAGE + 30
    started = Server(tmp_path / "data", environ(server, model)).start()
    try:
        send(started, n)
        started.turns(n)
        body = {"since": "2020-01-01T00:00:00Z"}
        priced = started.post("/backfills", {**body, "dry_run": True})["forecast"]
        assert priced["turns"] == n
        refused = started.call("POST", "/api/v1/backfills", body)
        assert refused.status == 409
        job = started.post("/backfills", {**body, "agreed_usd": priced["usd"]}, 201)["job_id"]
        until("some calls", lambda: server.calls(model) > 60)
        started.kill()
        before = server.calls(model)
        assert before < 4 * n
        started.start()

        def done() -> dict[str, Any] | None:
            found: dict[str, Any] = started.get(f"/backfills/{job}")
            return found if found["progress"]["state"] == "done" else None

        view = until("the backfill to end", done)
        assert view["progress"]["done"] == n
        for item in started.turns(n):
            found = started.get(f"/turns/{item['turn_id']}")
            assert found["decision"]["outcome"] == "scored"
            assert found["decision"]["rule"] == "sample"
            assert f"read by backfill {job}" in found["scoring"]
        # Replies are stored as they come: only those under way at the kill are paid twice.
        assert server.calls(model) - server.distinct(model) <= 8
    except BaseException:
        print(started.output())
        raise
    finally:
        assert started.stop() == 0


def test_the_command_prices_asks_and_scores_without_a_server(
    tmp_path: Path, server: ScriptedServer
) -> None:
    model = "good-cli"
    with serving(tmp_path / "data", **environ(server, model)) as started:
        send(started, 5)
        started.turns(5)
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("STAGEWATCH_", "OTEL_"))}
    env = {**clean, **environ(server, model), "STAGEWATCH_DATA_DIR": str(tmp_path / "data")}

    def stagewatch(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "stagewatch", *words],
            env=env, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path,
        )  # fmt: skip

    priced = stagewatch("score", "--since", "1d", "--dry-run")
    assert priced.returncode == 0, priced.stderr
    assert priced.stdout.startswith("5 turns to read, up to ")
    unasked = stagewatch("score", "--since", "1d")
    assert unasked.returncode == 2
    assert "--yes" in unasked.stderr
    assert server.calls(model) == 0
    done = stagewatch("score", "--since", "1d", "--yes", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["progress"]["outcomes"]["scored"] == 5
    assert server.calls(model) > 0
    again = stagewatch("score", "--since", "1d", "--yes")
    assert "nothing to do" in again.stdout
