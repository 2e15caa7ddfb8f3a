"""The client-server path: several processes on one ClickHouse address, none holding the engine.

No server binary can be had everywhere these tests run, so a front over the embedded engine speaks
its HTTP interface; with STAGEWATCH_TEST_CLICKHOUSE_URL set, a real server is used instead.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from tests.support.clickhouse_front import clickhouse_front
from tests.support.refund import send_turn
from tests.support.scorer_turns import turn
from tests.support.server import Server, until

from stagewatch.core.errors import InvalidInputError, StoreError, StoreUnavailableError
from stagewatch.core.settings import load_settings
from stagewatch.core.store import Store, migrate, open_store
from stagewatch.core.store.members import list_members, put_beat
from stagewatch.core.store.turns import TurnFilter, full_turns, put_turns

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    real = os.environ.get("STAGEWATCH_TEST_CLICKHOUSE_URL")
    if real:
        yield real
        return
    with clickhouse_front(tmp_path_factory.mktemp("front") / "engine") as address:
        yield address


@pytest.fixture(scope="module")
def remote(url: str) -> Iterator[Store]:
    store = open_store(load_settings({"STAGEWATCH_CLICKHOUSE_URL": url}))
    migrate(store)
    yield store
    store.close()


def test_the_same_migrations_bring_a_server_up_to_date(remote: Store) -> None:
    assert migrate(remote) == []
    assert remote.ping()
    assert not remote.embedded


def test_rows_written_over_http_are_read_back_as_they_were(remote: Store) -> None:
    project = f"p-{uuid.uuid4().hex[:8]}"
    hostile = "quote ' backslash \\ newline \n tab \t {brace:String} ünï"
    item = turn(hostile, hostile, ["refund"], project=project, turn_id=f"{project}a-s")
    now = datetime.now(UTC)
    put_turns(remote, [item], assembled_at=now, revision=1)
    assert full_turns(remote, TurnFilter(project=project)) == [item]
    found = full_turns(remote, TurnFilter(project=project, service=hostile))
    assert found == []


def test_a_repeated_insert_with_its_token_is_dropped(remote: Store) -> None:
    now = datetime.now(UTC)
    row = {"project": "tok", "turn_id": "t", "metric": "m", "started_at": now, "at": now}
    for _ in range(2):
        remote.put("scores", [row], token="the same content")
    assert remote.value("SELECT count() FROM scores WHERE project = 'tok'") == 1


def test_errors_say_whether_trying_again_helps(remote: Store, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="60") as caught:
        remote.rows("SELECT * FROM no_such_table")
    assert not isinstance(caught.value, StoreUnavailableError)
    with pytest.raises(InvalidInputError):
        remote.rows("SELECT {n:UInt8}", {"n": "many"})
    with pytest.raises(StoreError) as refused:
        remote.put("turns", [{"project": "secret text", "started_at": "secret text"}])
    assert "secret text" not in str(refused.value)
    away = load_settings(
        {
            "STAGEWATCH_CLICKHOUSE_URL": "http://default:@127.0.0.1:9/default",
            "STAGEWATCH_DATA_DIR": str(tmp_path),
        }
    )
    with pytest.raises(StoreUnavailableError):
        open_store(away)


def test_members_are_seen_by_the_stores_own_clock(remote: Store) -> None:
    name = f"m-{uuid.uuid4().hex}"
    put_beat(remote, name, {"state": "scoring"})
    found = {m.member: m for m in list_members(remote, within_s=5)}
    assert found[name].body == {"state": "scoring"}
    assert 0 <= found[name].age_s < 5
    assert abs(found[name].beat - datetime.now(UTC)) < timedelta(minutes=1)


def test_a_turn_goes_through_separate_processes(url: str, tmp_path: Path) -> None:
    environ = {"STAGEWATCH_CLICKHOUSE_URL": url}
    parts = [Server(tmp_path / part, environ, (part,)) for part in ("collector", "scorer", "api")]
    collector, _, api = parts
    try:
        for part in parts:
            part.start()
        exporter = OTLPSpanExporter(endpoint=f"{collector.otlp_http}/v1/traces")
        trace_id = send_turn(exporter)

        def there() -> str | None:
            answer = api.call("GET", f"/api/v1/traces/{trace_id}")
            turns = answer.json()["turns"] if answer.status == 200 else []
            return turns[0]["turn_id"] if turns else None

        turn_id = until("the turn", there)
        scored = api.scored(turn_id)
        assert scored["diagnosis"]["stage"] == "generation"
        assert scored["decision"]["outcome"] == "scored"
        flagged = api.post("/feedback", {"trace_id": trace_id, "kind": "disputed"}, 201)
        assert flagged["joined"] is True
        row = api.post(f"/turns/{turn_id}/promote", {"dataset": "remote"}, 201)
        assert row["failure"] == "generation"
        assert b"Scorers" in api.call("GET", "/health").body
    except BaseException:
        for part in parts:
            print(part.parts, part.output())
        raise
    finally:
        codes = [
            part.stop()
            for part in parts
            if part.process is not None and part.process.poll() is None
        ]
    assert codes == [0, 0, 0]
