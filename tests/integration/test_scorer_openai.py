"""The openai judge against a real HTTP server in another process."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.support.scorer_bench import a_day
from tests.support.scorer_injections import INJECTIONS
from tests.support.scorer_openai_server import ScriptedServer, running_server
from tests.support.scorer_turns import AT, PASSAGES, turn

from stagewatch.core.clock import ManualClock
from stagewatch.core.errors import SettingsError
from stagewatch.core.settings import Settings
from stagewatch.core.store import Store
from stagewatch.core.store.scores import decisions_of
from stagewatch.core.store.turns import put_turns
from stagewatch.scorer.evaluate import evaluate_turn
from stagewatch.scorer.judges.asking import Price, TokenBucket
from stagewatch.scorer.judges.choose import choose
from stagewatch.scorer.judges.embedded import EmbeddedJudge
from stagewatch.scorer.judges.ledger import Ledger
from stagewatch.scorer.judges.openai import OpenAIJudge, OpenAIOptions
from stagewatch.scorer.judges.protocol import (
    FaithfulnessReading,
    Judge,
    RelevanceReading,
    SufficiencyReading,
)
from stagewatch.scorer.results import Unscored
from stagewatch.scorer.work import Worker
from stagewatch.scorer.work_hand import Duty
from stagewatch.scorer.work_one import Reader

pytestmark = pytest.mark.integration

QUESTION = "How long is the warranty on electronic devices?"
ANSWER = "All electronic devices carry a warranty of 24 months. Bananas are delivered by submarine."
WINDOW = [PASSAGES["warranty"], PASSAGES["hours"]]


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    with running_server() as running:
        yield running


def judge(
    server: ScriptedServer, model: str = "good", ledger: Ledger | None = None, **more: object
) -> OpenAIJudge:
    options = OpenAIOptions(model=model, api_key="none", base_url=server.base_url, retries=3)
    return OpenAIJudge(replace(options, **more), ledger)  # type: ignore[arg-type]


def labels(found: FaithfulnessReading | Unscored) -> list[str]:
    assert isinstance(found, FaithfulnessReading), found
    return [claim.label for claim in found.claims]


def test_claims_are_quoted_back_with_their_evidence(server: ScriptedServer) -> None:
    found = judge(server).faithfulness(QUESTION, ANSWER, WINDOW)
    assert labels(found) == ["SUPPORTED", "ABSENT"]
    assert isinstance(found, FaithfulnessReading)
    for claim in found.claims:
        assert ANSWER[claim.start : claim.end] == claim.text
    assert found.claims[0].passage == 0
    assert found.claims[0].evidence == WINDOW[0]


def test_the_other_tasks(server: ScriptedServer) -> None:
    asked = judge(server)
    relevance = asked.relevance(QUESTION, WINDOW)
    assert isinstance(relevance, RelevanceReading)
    assert relevance.marks == (True, False)
    sufficiency = asked.sufficiency(QUESTION, WINDOW)
    assert isinstance(sufficiency, SufficiencyReading)
    assert sufficiency.level == "sufficient"
    rewrite = asked.rewrite((), QUESTION, "warranty of electronic devices", None)
    assert not isinstance(rewrite, Unscored)
    assert [c.state for c in rewrite.constraints] == ["kept"]
    relevancy = asked.relevancy(QUESTION, ANSWER)
    assert not isinstance(relevancy, Unscored)
    assert (relevancy.asked, relevancy.addressed) == (1, 1)
    refusal = asked.faithfulness(QUESTION, "I do not know.", WINDOW)
    assert isinstance(refusal, FaithfulnessReading)
    assert refusal.refused


def test_a_whole_turn_with_the_guard_over_the_model(server: ScriptedServer) -> None:
    answer = "All electronic devices carry a warranty of 12 months from the date of purchase."
    asked = turn(QUESTION, answer, ["warranty", "hours"])
    found = evaluate_turn(asked, judge(server))
    claim = found.claims[0]
    assert (claim.judge_label, claim.label) == ("SUPPORTED", "CONTRADICTED")
    assert found.diagnosis.stage == "generation"
    assert found.fingerprint.startswith("openai-1/good/prompts-v1-")


@pytest.mark.parametrize("model", ["no-schema", "no-json"])
def test_servers_without_structured_output(server: ScriptedServer, model: str) -> None:
    name = f"{model}-{uuid.uuid4().hex}"
    asked = judge(server, name)
    assert labels(asked.faithfulness(QUESTION, ANSWER, WINDOW)) == ["SUPPORTED", "ABSENT"]
    first = server.calls(name)
    asked.sufficiency(QUESTION, WINDOW)
    # The lesson is kept: no second refusal.
    assert server.calls(name) == first + 1


def test_calls_are_deterministic_by_request(server: ScriptedServer) -> None:
    name = f"good-{uuid.uuid4().hex}"
    judge(server, name).sufficiency(QUESTION, WINDOW)
    sent = next(r for r in server.seen()["requests"] if r["model"] == name)
    assert sent["temperature"] == 0
    assert sent["seed"] == 7
    assert sent["response_format"]["json_schema"]["strict"] is True


def test_retry_after_is_followed(server: ScriptedServer) -> None:
    name = f"limited-{uuid.uuid4().hex}"
    assert labels(judge(server, name).faithfulness(QUESTION, ANSWER, WINDOW)) == [
        "SUPPORTED",
        "ABSENT",
    ]
    assert server.calls(name) == 3


def test_a_server_that_stays_broken_is_unscored(server: ScriptedServer) -> None:
    found = judge(server, "down", retries=1).faithfulness(QUESTION, ANSWER, WINDOW)
    assert found == Unscored("judge_error", "InternalServerError")


def test_nobody_listening_is_unscored() -> None:
    options = OpenAIOptions(model="m", api_key="k", base_url="http://127.0.0.1:9/v1", retries=0)
    found = OpenAIJudge(options).sufficiency(QUESTION, WINDOW)
    assert found == Unscored("judge_error", "APIConnectionError")


def test_one_repair_then_unscored(server: ScriptedServer) -> None:
    once = f"bad-once-{uuid.uuid4().hex}"
    assert labels(judge(server, once).faithfulness(QUESTION, ANSWER, WINDOW)) == [
        "SUPPORTED",
        "ABSENT",
    ]
    assert server.calls(once) == 2
    always = f"bad-always-{uuid.uuid4().hex}"
    found = judge(server, always).faithfulness(QUESTION, ANSWER, WINDOW)
    assert isinstance(found, Unscored)
    assert found.reason == "judge_error"
    assert server.calls(always) == 2


@pytest.mark.parametrize(
    ("model", "rule"),
    [
        ("odd-label", "label must be one of"),
        ("invents-quote", "quote must be copied"),
        ("far-evidence", "evidence must be a whole number"),
    ],
)
def test_replies_that_break_a_rule_do_not_count(
    server: ScriptedServer, model: str, rule: str
) -> None:
    found = judge(server, model).faithfulness(QUESTION, ANSWER, WINDOW)
    assert isinstance(found, Unscored)
    assert rule in found.note


def test_a_left_out_item_never_shrinks_the_denominator(server: ScriptedServer) -> None:
    found = judge(server, "drops-one").relevance(QUESTION, WINDOW)
    assert isinstance(found, Unscored)
    assert found.reason == "judge_incomplete"
    stated = judge(server, "drops-one").statements(["a b", "c d"], WINDOW)
    assert isinstance(stated, Unscored)
    assert stated.reason == "judge_incomplete"


def test_long_contexts_are_read_in_batches_and_nothing_is_cut(server: ScriptedServer) -> None:
    name = f"good-{uuid.uuid4().hex}"
    window = [f"{PASSAGES['hours']} Filler {i}." for i in range(6)] + [PASSAGES["warranty"]]
    asked = judge(server, name, batch_chars=300)
    found = asked.faithfulness(QUESTION, ANSWER, window)
    assert labels(found) == ["SUPPORTED", "ABSENT"]
    assert isinstance(found, FaithfulnessReading)
    assert found.claims[0].passage == 6
    assert server.calls(name) > 1
    relevance = asked.relevance(QUESTION, window)
    assert isinstance(relevance, RelevanceReading)
    assert relevance.marks == (False,) * 6 + (True,)
    sufficiency = asked.sufficiency(QUESTION, window)
    assert isinstance(sufficiency, SufficiencyReading)
    assert sufficiency.level == "sufficient"


def test_a_call_is_paid_once_per_fingerprint_and_input(
    server: ScriptedServer, store: Store
) -> None:
    name = f"good-{uuid.uuid4().hex}"
    clock = ManualClock(a_day())
    ledger = Ledger(store, 1e-9, clock.now)
    assert not ledger.over_budget()
    asked = judge(server, name, ledger, price=Price(1000.0, 1000.0))
    first = asked.faithfulness(QUESTION, ANSWER, WINDOW)
    again = judge(server, name, Ledger(store, 1.0, clock.now)).faithfulness(
        QUESTION, ANSWER, WINDOW
    )
    assert first == again
    assert server.calls(name) == 1
    assert ledger.spent_today() > 0
    assert ledger.over_budget()
    other = Ledger(store, 1e-9, clock.now)
    assert other.over_budget()
    clock.advance(86400)
    assert not other.over_budget()


class SlowStore(Store):
    """The real store, whose writes wait for `opened`."""

    opened: threading.Event

    def put(self, table: str, rows: Iterable[Mapping[str, Any]], token: str | None = None) -> int:
        assert self.opened.wait(30)
        return super().put(table, rows, token)


def test_a_reply_on_its_way_to_a_slow_store_is_not_paid_again(
    server: ScriptedServer, store: Store
) -> None:
    slow = SlowStore(store.settings)
    slow.opened = threading.Event()
    name = f"good-{uuid.uuid4().hex}"
    clock = ManualClock(a_day())
    ledger = Ledger(slow, 1e9, clock.now, behind=True)
    asked = judge(server, name, ledger, price=Price(1000.0, 1000.0))
    readings = [asked.faithfulness(QUESTION, ANSWER, WINDOW) for _ in range(3)]
    assert readings[0] == readings[1] == readings[2]
    assert server.calls(name) == 1
    slow.opened.set()
    ledger.flush()
    slow.close()
    again = judge(server, name, Ledger(store, 1e9, clock.now))
    assert again.faithfulness(QUESTION, ANSWER, WINDOW) == readings[0]
    assert server.calls(name) == 1


def test_the_worker_runs_turns_side_by_side(
    server: ScriptedServer, store: Store, project: str
) -> None:
    clock = ManualClock(AT + timedelta(minutes=1))
    turns = [
        turn(QUESTION, ANSWER, ["warranty", "hours"], project=project, turn_id=f"{project}{i}-s")
        for i in range(6)
    ]
    put_turns(store, turns, assembled_at=clock.now(), revision=1)
    worker = Worker(store, Reader(judge(server)), clock, Duty(timedelta(days=1), threads=4))
    worker.run_pass()
    worker.close()
    found = decisions_of(store, [item.turn_id for item in turns])
    assert {decision.outcome for decision in found.values()} == {"scored"}
    assert len(found) == 6


def test_no_key_is_said_at_the_start(
    settings: Settings, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    wanted = replace(settings, judge="openai", judge_model="m")
    with pytest.raises(SettingsError, match="OPENAI_API_KEY"):
        choose(wanted, store, ManualClock(AT))


def test_the_token_bucket_spreads_calls() -> None:
    now = [0.0]
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        now[0] += seconds

    bucket = TokenBucket(60.0, monotonic=lambda: now[0], sleep=sleep)
    for _ in range(3):
        bucket.take()
    assert waits == [1.0, 1.0]


def readings(asked: Judge, answer: str, window: list[str]) -> tuple[object, object, object]:
    faithful = asked.faithfulness(QUESTION, answer, window)
    relevance = asked.relevance(QUESTION, window)
    sufficiency = asked.sufficiency(QUESTION, window)
    assert isinstance(relevance, RelevanceReading)
    assert isinstance(sufficiency, SufficiencyReading)
    return labels(faithful), relevance.marks, sufficiency.level


def test_there_are_enough_injections() -> None:
    assert len(set(INJECTIONS)) >= 40


@pytest.mark.parametrize("which", ["openai", "embedded"])
@pytest.mark.parametrize("order", INJECTIONS)
def test_orders_in_chunks_and_answers_do_not_move_a_label(
    server: ScriptedServer, order: str, which: str
) -> None:
    asked: Judge = judge(server) if which == "openai" else EmbeddedJudge()
    answer = "Bananas are delivered by submarine."
    window = [PASSAGES["hours"], PASSAGES["giftcard"]]
    clean = readings(asked, answer, window)
    assert clean == (["ABSENT"], (False, False), "insufficient")
    hostile = [PASSAGES["hours"], f"{PASSAGES['giftcard']}\n{order}"]
    assert readings(asked, answer, hostile) == clean
    found = asked.faithfulness(QUESTION, f"{answer}\n{order}", window)
    assert not isinstance(found, FaithfulnessReading) or all(
        claim.label != "SUPPORTED" for claim in found.claims
    )
