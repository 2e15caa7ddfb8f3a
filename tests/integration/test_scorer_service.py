"""The scorer over the real engine: decisions, idempotence, sampling, flags, restarts."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from prometheus_client import CollectorRegistry
from tests.support.scorer_turns import AT, turn

from stagewatch.core.clock import ManualClock, SystemClock
from stagewatch.core.model import Message, Turn
from stagewatch.core.service import Context
from stagewatch.core.settings import Settings
from stagewatch.core.store import Store
from stagewatch.core.store.feedback import Flag, put_flags
from stagewatch.core.store.scores import claims_of, decisions_of, diagnoses_of, scores_of
from stagewatch.core.store.turns import put_turns
from stagewatch.scorer.judges.embedded import EmbeddedJudge
from stagewatch.scorer.judges.protocol import FaithfulnessReading
from stagewatch.scorer.results import Unscored
from stagewatch.scorer.rules import Rule, RuleBook
from stagewatch.scorer.sampling import is_sampled
from stagewatch.scorer.service import WAKE, build
from stagewatch.scorer.work import Worker
from stagewatch.scorer.work_hand import Duty
from stagewatch.scorer.work_one import Reader

pytestmark = pytest.mark.integration

QUESTION = "Within how many days can I return an item for a refund?"
ANSWER = "You can return any item within 30 days from delivery for a full refund."
NAMES = ["refund", "shipping", "warranty"]
WEEK = timedelta(days=7)


class CountingJudge(EmbeddedJudge):
    """The embedded judge, counting the turns it reads; fails on demand."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[str] = []
        self.broken = False

    def faithfulness(
        self, question: str, answer: str, window: Sequence[str]
    ) -> FaithfulnessReading | Unscored:
        self.read.append(answer)
        if self.broken:
            return Unscored("judge_error")
        return super().faithfulness(question, answer, window)


class Bench:
    """A store with a clock and a worker for one test's project."""

    def __init__(self, store: Store, project: str) -> None:
        self.store = store
        self.project = project
        self.clock = ManualClock(AT + timedelta(minutes=1))
        self.judge = CountingJudge()
        self.worker = self.new_worker()

    def new_worker(self, rate: float = 1.0) -> Worker:
        book = RuleBook((Rule(name="sample", rate=rate),))
        duty = Duty(lookback=WEEK, book=lambda: book)
        return Worker(self.store, Reader(self.judge), self.clock, duty)

    def put(
        self, name: str, revision: int = 1, answer: str | None = ANSWER, **more: object
    ) -> Turn:
        item = turn(
            QUESTION, answer, NAMES, project=self.project, turn_id=f"{self.project}{name}-s"
        )
        item = replace(item, **more)  # type: ignore[arg-type]
        put_turns(self.store, [item], assembled_at=self.clock.now(), revision=revision)
        return item

    def outcome(self, item: Turn) -> str | None:
        found = decisions_of(self.store, [item.turn_id]).get(item.turn_id)
        return found.outcome if found else None

    def reads_of(self, answer: str) -> int:
        return self.judge.read.count(answer)


@pytest.fixture
def bench(store: Store, project: str) -> Bench:
    return Bench(store, project)


def test_a_turn_is_scored_once_and_everything_is_stored(bench: Bench) -> None:
    unique = f"{ANSWER} Ask for {bench.project}."
    item = bench.put("a", answer=unique)
    bench.worker.run_pass()
    assert bench.outcome(item) == "scored"
    scores = {s.metric: s for s in scores_of(bench.store, [item.turn_id])[item.turn_id]}
    assert scores["first_relevant_rank"].value == 1
    assert scores["faithfulness"].fingerprint == bench.judge.fingerprint
    assert claims_of(bench.store, item.turn_id)[0].label == "SUPPORTED"
    stored = diagnoses_of(bench.store, [item.turn_id])[item.turn_id]
    assert stored.relevance[0] == 1
    assert set(stored.relevance) <= {-1, 0, 1}
    bench.clock.advance(60)
    bench.worker.run_pass()
    bench.new_worker().run_pass()
    assert bench.reads_of(unique) == 1


def test_a_reassembled_turn_is_scored_once_more(bench: Bench) -> None:
    first = f"first {bench.project} {ANSWER}"
    bench.put("a", answer=first)
    bench.worker.run_pass()
    bench.clock.advance(30)
    later = f"second {bench.project} {ANSWER}"
    item = bench.put("a", revision=2, answer=later)
    bench.worker.run_pass()
    bench.worker.run_pass()
    assert (bench.reads_of(first), bench.reads_of(later)) == (1, 1)
    values = [
        s
        for s in scores_of(bench.store, [item.turn_id])[item.turn_id]
        if s.metric == "faithfulness"
    ]
    assert len(values) == 1


def test_late_turns_are_caught_after_the_watermark_moved(bench: Bench) -> None:
    bench.put("a")
    bench.worker.run_pass()
    bench.clock.advance(3600)
    item = bench.put("late", started_at=AT - timedelta(hours=5))
    bench.worker.run_pass()
    assert bench.outcome(item) == "scored"


def test_sampling_is_by_hash_and_its_probability_is_never_rewritten(bench: Bench) -> None:
    items = [bench.put(f"n{i}") for i in range(40)]
    bench.new_worker(rate=0.25).run_pass()
    decisions = decisions_of(bench.store, [item.turn_id for item in items])
    for item in items:
        decision = decisions[item.turn_id]
        assert decision.inclusion == 0.25
        expected = "scored" if is_sampled(item.turn_id, 0.25) else "not_sampled"
        assert decision.outcome == expected
    bench.clock.advance(60)
    again = [bench.put(f"n{i}", revision=2) for i in range(40)]
    bench.new_worker(rate=1.0).run_pass()
    after = decisions_of(bench.store, [item.turn_id for item in again])
    assert {d.inclusion for d in after.values()} == {0.25}
    assert sum(d.outcome == "scored" for d in after.values()) == sum(
        is_sampled(item.turn_id, 0.25) for item in items
    )


def flag(bench: Bench, item: Turn, reason: str = "disputed") -> None:
    at = bench.clock.now()
    put_flags(bench.store, [Flag(bench.project, item.turn_id, reason, "open", at)])


def test_a_flag_has_an_unsampled_turn_scored_outside_the_estimates(bench: Bench) -> None:
    item = bench.put("a")
    bench.new_worker(rate=0.0).run_pass()
    assert bench.outcome(item) == "not_sampled"
    bench.clock.advance(60)
    flag(bench, item)
    bench.clock.advance(1)
    bench.new_worker(rate=0.0).run_pass()
    decision = decisions_of(bench.store, [item.turn_id])[item.turn_id]
    assert (decision.outcome, decision.rule, decision.stratum) == ("scored", "feedback", "feedback")
    assert decision.inclusion is None
    stored = diagnoses_of(bench.store, [item.turn_id])[item.turn_id]
    assert stored.diagnosis.stage == "label_or_corpus"


def test_a_flag_on_a_sampled_turn_keeps_its_inclusion(bench: Bench) -> None:
    unique = f"{ANSWER} Ask for {bench.project}."
    item = bench.put("a", answer=unique)
    bench.worker.run_pass()
    bench.clock.advance(60)
    flag(bench, item, "escalated")
    bench.clock.advance(1)
    bench.worker.run_pass()
    bench.worker.run_pass()
    decision = decisions_of(bench.store, [item.turn_id])[item.turn_id]
    assert decision.inclusion == 1.0
    assert bench.reads_of(unique) == 2


def test_probes_and_turns_without_content_get_their_reason(bench: Bench) -> None:
    probe = bench.put("probe", probe=True)
    empty = bench.put("empty", question=None, answer=None)
    broken = bench.put("broken", answer="", error="TimeoutError")
    rootless = bench.put("rootless", answer=None, complete=False)
    bench.worker.run_pass()
    found = [bench.outcome(item) for item in (probe, empty, broken, rootless)]
    assert found == ["filtered", "unscorable", "unscorable", "incomplete"]


def test_a_failing_judge_is_tried_again_then_said(bench: Bench) -> None:
    item = bench.put("a")
    bench.judge.broken = True
    report = bench.worker.run_pass()
    assert bench.outcome(item) == "pending"
    assert report.errors["judge"] >= 1
    for _ in range(2):
        bench.clock.advance(5)
        bench.worker.run_pass()
    assert bench.outcome(item) == "judge_error"
    scores = {s.metric: s for s in scores_of(bench.store, [item.turn_id])[item.turn_id]}
    assert scores["faithfulness"].status == "unscored"
    assert scores["faithfulness"].value is None


def test_a_judge_that_recovers_scores_the_waiting_turn(bench: Bench) -> None:
    item = bench.put("a")
    bench.judge.broken = True
    bench.worker.run_pass()
    bench.judge.broken = False
    bench.clock.advance(5)
    bench.worker.run_pass()
    assert bench.outcome(item) == "scored"


def test_a_turn_that_waits_for_its_judge_stays_within_reach(bench: Bench) -> None:
    item = bench.put("a")
    bench.worker.run_pass()
    old = bench.put("b")
    bench.judge.broken = True
    bench.worker.run_pass()
    # An hour later the last pass's watermark would be past the turn.
    bench.clock.advance(3600)
    bench.worker.run_pass()
    bench.judge.broken = False
    bench.clock.advance(3600)
    bench.worker.run_pass()
    assert (bench.outcome(item), bench.outcome(old)) == ("scored", "scored")


def test_a_flagged_turn_is_tried_again_after_a_judge_error(bench: Bench) -> None:
    item = bench.put("a")
    bench.new_worker(rate=0.0).run_pass()
    bench.clock.advance(86400)
    flag(bench, item)
    bench.clock.advance(1)
    worker = bench.new_worker(rate=0.0)
    bench.judge.broken = True
    worker.run_pass()
    assert bench.outcome(item) == "pending"
    bench.judge.broken = False
    bench.clock.advance(3600)
    worker.run_pass()
    decision = decisions_of(bench.store, [item.turn_id])[item.turn_id]
    assert (decision.outcome, decision.inclusion) == ("scored", None)


def test_stopping_leaves_the_rest_for_the_next_start(bench: Bench) -> None:
    items = [bench.put(f"n{i}") for i in range(5)]
    bench.worker.run_pass(lambda: len(bench.judge.read) >= 2)
    assert sum(bench.outcome(item) is not None for item in items) < 5
    bench.new_worker().run_pass()
    assert {bench.outcome(item) for item in items} == {"scored"}


def wait_for(condition: object, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "condition not met in time"
        time.sleep(0.02)


def test_the_service_scores_when_woken_and_stops(
    store: Store, settings: Settings, project: str
) -> None:
    registry = CollectorRegistry()
    slow = replace(settings, score_every_seconds=3600.0)
    context = Context(slow, store, SystemClock(), registry)

    def beat() -> float:
        return registry.get_sample_value("stagewatch_scorer_heartbeat_timestamp_seconds") or 0.0

    async def run() -> None:
        service = build(context)
        said = await service.start()
        assert "embedded" in said["scorer"]
        await asyncio.to_thread(wait_for, lambda: beat() > 0)
        now = SystemClock().now()
        item = turn(
            QUESTION, ANSWER, NAMES, project=project, turn_id=f"{project}w-s", started_at=now
        )
        put_turns(store, [item], assembled_at=now, revision=1)
        wake = context.shared[WAKE]
        assert isinstance(wake, threading.Event)
        wake.set()
        await asyncio.to_thread(
            wait_for, lambda: decisions_of(store, [item.turn_id]).get(item.turn_id) is not None
        )
        await asyncio.to_thread(
            wait_for,
            lambda: registry.get_sample_value(
                "stagewatch_scorer_turns_total", {"outcome": "scored"}
            ),
        )
        assert context.health["scorer"]()["ok"] is True
        assert await service.stop(10.0) is None

    asyncio.run(run())


def test_content_of_turns_stays_out_of_the_log(
    bench: Bench, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "the customer lives in Elm Street"
    item = bench.put("a", answer=secret, history=(Message("user", secret),))

    def explode(*_: object, **__: object) -> None:
        raise RuntimeError(secret)

    monkeypatch.setattr(bench.judge, "faithfulness", explode)
    bench.worker.run_pass()
    assert bench.outcome(item) == "pending"
    assert "could not be scored" in caplog.text
    assert secret not in caplog.text
    assert all(secret not in str(vars(record)) for record in caplog.records)
