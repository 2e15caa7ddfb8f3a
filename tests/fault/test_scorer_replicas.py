"""Three scorers on one store: they share the turns, and kills lose none and waste little."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.clickhouse_front import clickhouse_front
from tests.support.scorer_openai_server import ScriptedServer, running_server
from tests.support.scorer_turns import turn
from tests.support.server import Server, until

from stagewatch.core.model import Turn
from stagewatch.core.settings import load_settings
from stagewatch.core.store import Store, migrate, open_store
from stagewatch.core.store.turns import put_turns
from stagewatch.scorer.leases import living
from stagewatch.scorer.work_hand import BATCH

pytestmark = [pytest.mark.integration, pytest.mark.fault]

MODEL = "slow-60"
CONCURRENCY = 8
ANSWER = "You can return any item within 30 days from delivery for a full refund."


@contextlib.contextmanager
def cluster(tmp_path: Path, judge: ScriptedServer, n: int) -> Iterator[tuple[Store, list[Server]]]:
    with clickhouse_front(tmp_path / "engine") as url:
        store = open_store(load_settings({"STAGEWATCH_CLICKHOUSE_URL": url}))
        migrate(store)
        environ = {
            "STAGEWATCH_CLICKHOUSE_URL": url,
            "STAGEWATCH_JUDGE": "openai",
            "STAGEWATCH_JUDGE_MODEL": MODEL,
            "STAGEWATCH_JUDGE_CONCURRENCY": str(CONCURRENCY),
            "OPENAI_API_KEY": "k",
            "OPENAI_BASE_URL": judge.base_url,
        }
        scorers = [Server(tmp_path / f"s{i}", environ, ("scorer",)) for i in range(n)]
        try:
            for scorer in scorers:
                scorer.start()
            yield store, scorers
        except BaseException:
            for scorer in scorers:
                print(scorer.output())
            raise
        finally:
            for scorer in scorers:
                if scorer.process is not None and scorer.process.poll() is None:
                    scorer.stop()
            store.close()


def all_agree(store: Store) -> bool:
    """Three scorers live, and each of them says so."""
    return [member.body.get("replicas") for member in living(store)] == [3, 3, 3]


def fill(store: Store, n: int) -> list[Turn]:
    now = datetime.now(UTC)
    turns = [
        replace(
            turn(f"Can I return item {i} for a refund?", ANSWER, ["refund", "shipping"],
                 project="shop", turn_id=f"{i:032x}-s"),
            started_at=now - timedelta(seconds=60),
        )
        for i in range(n)
    ]  # fmt: skip
    for start in range(0, n, 100):
        put_turns(store, turns[start : start + 100], assembled_at=now, revision=1)
    return turns


def decided(store: Store, outcome: str) -> int:
    return int(
        store.value(
            "SELECT count() FROM decisions FINAL WHERE outcome = {o:String}", {"o": outcome}
        )
    )


@pytest.fixture
def judge() -> Iterator[ScriptedServer]:
    with running_server() as started:
        yield started


def test_three_scorers_share_the_turns_and_read_each_once(
    tmp_path: Path, judge: ScriptedServer
) -> None:
    n = 240
    with cluster(tmp_path, judge, 3) as (store, _):
        until("three scorers", lambda: all_agree(store))
        fill(store, n)
        until("all scored", lambda: decided(store, "scored") == n)
        members = store.rows(
            """SELECT member, uniqExact(turn_id) AS n FROM decisions
               WHERE outcome = 'scored' GROUP BY member"""
        )
        assert sum(int(row["n"]) for row in members) == n
        assert len(members) == 3
        assert judge.calls(MODEL) == judge.distinct(MODEL)
        twice = store.value(
            """SELECT count() FROM (SELECT count() AS n FROM scores
               GROUP BY turn_id, metric, fingerprint HAVING n > 1)"""
        )
        assert twice == 0


def test_kills_lose_no_turn_and_waste_less_than_a_batch_each(
    tmp_path: Path, judge: ScriptedServer
) -> None:
    n, kills = 420, 0
    with cluster(tmp_path, judge, 3) as (store, scorers):
        until("three scorers", lambda: all_agree(store))
        fill(store, n)
        for number, scorer in enumerate(scorers[:2]):
            aim = 40 + 80 * number
            until("some scored", lambda aim=aim: decided(store, "scored") > aim)  # type: ignore[misc]
            scorer.kill()
            kills += 1
            if number == 0:
                scorer.start()
        until("all scored", lambda: decided(store, "scored") == n, 120)
        assert decided(store, "pending") == 0
        wasted = judge.calls(MODEL) - judge.distinct(MODEL)
        print(f"{n} turns, {kills} kills: {judge.calls(MODEL)} calls, {wasted} wasted")
        # Replies are stored as they come, so what a kill wastes is what was under way.
        assert wasted <= kills * 2 * CONCURRENCY < kills * BATCH
        read = store.rows(
            """SELECT count() AS n, uniqExact(turn_id, metric, fingerprint) AS keys
               FROM scores FINAL"""
        )[0]
        assert read["n"] == read["keys"]
        per_turn = store.value(
            """SELECT uniqExact(turn_id) FROM scores
               WHERE metric = 'faithfulness' AND judge = 'openai' AND status = 'scored'"""
        )
        assert per_turn == n
