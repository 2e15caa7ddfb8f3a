"""The judge's own drift, told from the app's: a model that changes behind its name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.support.alerts_scores import often, put_scores
from tests.support.scorer_openai_server import ScriptedServer, running_server

from stagewatch.core.clock import ManualClock
from stagewatch.core.errors import InvalidInputError
from stagewatch.core.model import Chunk, Turn
from stagewatch.core.settings import Settings
from stagewatch.core.store import Store
from stagewatch.core.store.alerts import list_alerts
from stagewatch.core.store.canary import canary_times
from stagewatch.core.store.turns import put_turns
from stagewatch.scorer.canary.items import current_set, freeze_labelled, shipped_set
from stagewatch.scorer.canary.reading import fresh_judge, read_set
from stagewatch.scorer.canary.watch import run_canary, runs_of
from stagewatch.scorer.watch import refresh_alerts

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
DAY = 86_400


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with running_server() as started:
        yield started


class Bench:
    def __init__(self, store: Store, settings: Settings, project: str, model: str) -> None:
        self.store, self.project = store, project
        self.settings = replace(settings, judge="openai", judge_model=model)
        self.clock = ManualClock(AT)
        self.fingerprint = fresh_judge(self.settings, store, self.clock).judge.fingerprint

    def score(self, first: int, n: int, good: float, **fields: Any) -> None:
        """`n` faithfulness scores, one a minute from minute `first` on, `good` of them passing."""
        put_scores(
            self.store, self.project, AT, first, n, often(good),
            **{"judge": "openai", "fingerprint": self.fingerprint, **fields},
        )  # fmt: skip

    def canary(self) -> Any:
        return run_canary(self.store, self.settings, self.clock)

    def alerts(self) -> dict[str, dict[str, Any]]:
        refresh_alerts(self.store, self.project, self.clock.now(), is_calibrated=lambda *_: True)
        found = list_alerts(self.store, self.project, self.clock.now())
        return {("canary" if item.get("canary") else "app") + " " + item["metric"]: item
                for item in found}  # fmt: skip


@pytest.fixture
def bench(
    store: Store,
    settings: Settings,
    project: str,
    server: ScriptedServer,
    monkeypatch: pytest.MonkeyPatch,
) -> Bench:
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    return Bench(store, settings, project, f"model-{project}")


def test_a_judge_that_stays_as_it_is_is_left_alone(bench: Bench, server: ScriptedServer) -> None:
    bench.score(0, 10, 1.0)
    first = bench.canary()
    assert (first.complete, first.baseline, first.moves) == (True, "", ())
    assert len(first.reading.faithfulness) == len(first.reading.chunk_relevance) == first.size
    calls = server.calls(bench.settings.judge_model)
    assert calls == 2 * len(shipped_set().items)
    bench.clock.advance(DAY)
    second = bench.canary()
    # Nothing of the first reading was used again.
    assert server.calls(bench.settings.judge_model) == 2 * calls
    assert [(move.up, move.down, move.moved) for move in second.moves] == [(0, 0, False)] * 2
    assert bench.alerts() == {}
    assert len(runs_of(bench.store, bench.fingerprint, shipped_set().name)) == 2
    last, scored = canary_times(bench.store, bench.fingerprint)
    assert (last, scored) == (AT + timedelta(days=1), AT)


def test_a_model_that_changes_behind_its_name_is_a_judge_alert(
    bench: Bench, server: ScriptedServer
) -> None:
    bench.score(0, 10, 1.0)
    bench.canary()
    server.turn_strict()
    bench.clock.advance(DAY)
    run = bench.canary()
    assert {move.kind for move in run.moved} == {"faithfulness", "chunk_relevance"}
    alert = bench.alerts()["canary faithfulness"]
    assert (alert["stage"], alert["state"]) == ("judge", "open")
    assert alert["to"] == 0.0 < 0.7 < alert["from"]
    assert alert["sentence"].startswith("judge: the share of claims it calls supported")
    assert "since 2026-11-20 12:00 UTC" in alert["sentence"]
    assert "not the app" in alert["sentence"]
    # It is said once, and closed when the model is as it was.
    bench.clock.advance(DAY)
    bench.canary()
    assert len(bench.alerts()) == 2
    server.turn_strict(False)
    bench.clock.advance(DAY)
    bench.canary()
    assert {alert["state"] for alert in bench.alerts().values()} == {"closed"}


def test_a_fall_that_the_judge_made_is_not_blamed_on_the_app(
    bench: Bench, server: ScriptedServer
) -> None:
    bench.score(0, 1500, 0.99)
    bench.clock.advance(1500 * 60)
    bench.canary()
    bench.score(1500, 200, 0.4)
    bench.clock.advance(200 * 60)
    told = bench.alerts()["app faithfulness"]
    assert told["stage"] == "generation"
    # Channels wait until the judge has read the frozen set.
    assert told["awaits_canary"] is True
    server.turn_strict()
    bench.canary()
    told = bench.alerts()["app faithfulness"]
    assert (told["stage"], told["judge_moved"], told["awaits_canary"]) == ("judge", True, False)
    assert told["sentence"].startswith("judge: faithful answers fell from 99%")
    assert told["sentence"].endswith("this is not blamed on the app.")


def test_a_fall_of_the_app_stays_the_apps(bench: Bench) -> None:
    bench.score(0, 1500, 0.99)
    bench.clock.advance(1500 * 60)
    bench.canary()
    bench.score(1500, 200, 0.4)
    bench.clock.advance(200 * 60)
    assert bench.alerts()["app faithfulness"]["awaits_canary"] is True
    bench.canary()
    told = bench.alerts()["app faithfulness"]
    assert (told["stage"], told["judge_moved"], told["awaits_canary"]) == (
        "generation", False, False,
    )  # fmt: skip


def test_what_labels_decide_is_never_the_judges_fault(bench: Bench, server: ScriptedServer) -> None:
    bench.score(0, 1500, 0.99, metric="stale_context", basis="rule", fingerprint="")
    bench.score(0, 10, 1.0)
    bench.clock.advance(1500 * 60)
    bench.canary()
    server.turn_strict()
    bench.clock.advance(100 * 60)
    bench.canary()
    bench.score(1600, 200, 0.2, metric="stale_context", basis="rule", fingerprint="")
    bench.clock.advance(200 * 60)
    found = bench.alerts()
    assert found["canary faithfulness"]["state"] == "open"
    app = [item for name, item in found.items() if name.startswith("app")]
    assert all(item["stage"] != "judge" and not item["judge_moved"] for item in app)


def test_an_outage_decides_nothing(bench: Bench, server: ScriptedServer) -> None:
    bench.score(0, 10, 1.0)
    bench.canary()
    server.fail_with(401)
    bench.clock.advance(DAY)
    run = bench.canary()
    assert run.moves == ()
    assert len(runs_of(bench.store, bench.fingerprint, shipped_set().name)) == 1
    assert run.reading.unread == {"judge_error": 2 * len(shipped_set().items)}
    assert bench.alerts() == {}


def test_the_embedded_judge_reads_the_shipped_set_and_always_the_same(
    store: Store, settings: Settings
) -> None:
    items = shipped_set().items
    fresh = fresh_judge(settings, store, ManualClock(AT))
    first, second = (read_set(fresh, items, lambda: False) for _ in range(2))
    assert first == second
    assert not first.unread
    # What people call supported it calls supported too; changed numbers are the guard's business.
    assert [i.item_id for i in items if i.label == "SUPPORTED"
            and first.faithfulness[i.item_id] != 1.0] == []  # fmt: skip


def test_labelled_turns_can_be_frozen_instead(store: Store, project: str) -> None:
    now = datetime(2026, 11, 29, tzinfo=UTC)

    def turn(n: int, answer: str) -> Turn:
        return Turn(
            turn_id=f"{project}-{n}", trace_id="t", span_id="s", project=project, service="bot",
            started_at=now, duration_ms=1.0, question=f"q {n}?", answer=answer,
            window=(Chunk(1, content="30 days"),),
        )  # fmt: skip

    turns = [turn(n, "30 days" if n else "") for n in range(22)]
    put_turns(store, turns, assembled_at=now, revision=1)
    label = {"metric": "faithfulness", "item": "30 days", "label": "SUPPORTED", "by": "Ada"}
    rows = [{"project": project, "label_id": item.turn_id, "turn_id": item.turn_id,
             "at": now, **label} for item in turns]  # fmt: skip
    store.put("labels", rows[:10])
    with pytest.raises(InvalidInputError, match="labelled turns have question"):
        freeze_labelled(store, project, by="Ada", now=now)
    store.put("labels", rows)
    made = freeze_labelled(store, project, by="Ada", now=now)
    try:
        # The turn without an answer is no text to read.
        assert len(made.items) == 21
        assert current_set(store) == made
    finally:
        store.command("DELETE FROM documents WHERE collection = 'canary_sets'")
    assert current_set(store) == shipped_set()
