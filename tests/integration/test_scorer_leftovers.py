"""Turns over budget are read on a later day, whole, with the inclusion they were drawn at."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.scorer_bench import PaidBench
from tests.support.scorer_openai_server import ScriptedServer, running_server

from stagewatch.core.model import Turn
from stagewatch.core.store import Store
from stagewatch.core.store.spending import Spent
from stagewatch.scorer.budget import Budget, Limits
from stagewatch.scorer.rules import Rule, parse_rule

pytestmark = pytest.mark.integration

CALLS_A_TURN = 4
DAY = 86_400


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    with running_server() as started:
        yield started


@pytest.fixture
def bench(store: Store, project: str, server: ScriptedServer) -> PaidBench:
    return PaidBench(store, project, server)


def a_short_day(bench: PaidBench, n: int, *rules: Rule, calls: int) -> list[Turn]:
    """`n` turns of which the day's calls allow the first few."""
    turns = bench.put(*(bench.turn(f"n{i}") for i in range(n)))
    bench.worker(*rules, reader=bench.reader(bench.ledger(calls=calls))).run_pass()
    assert set(bench.outcomes(turns)) == {"scored", "over_budget"}
    return turns


def test_a_day_that_can_pay_reads_all_that_was_left_with_the_inclusion_it_had(
    bench: PaidBench,
) -> None:
    before = a_short_day(bench, 6, parse_rule({"name": "s", "rate": 1.0}), calls=8)
    drawn = {i: d.inclusion for i, d in bench.decisions(before).items()}
    bench.clock.advance(DAY)
    # The rule's rate is another one by now.
    rule = parse_rule({"name": "s", "rate": 0.5})
    worker = bench.worker(rule, reader=bench.reader(bench.ledger(calls=40)), leftover_days=1)
    worker.run_pass()
    after = bench.decisions(before)
    assert {d.outcome for d in after.values()} == {"scored"}
    assert {i: d.inclusion for i, d in after.items()} == drawn
    for item in before:
        paid = [row for row in bench.rows(item) if row["stratum"] == "uniform"]
        assert paid
        assert {row["inclusion"] for row in paid} == {1.0}
    assert bench.server.calls(bench.model) == 6 * CALLS_A_TURN


def test_a_part_of_a_day_is_not_begun(bench: PaidBench) -> None:
    """Four turns are left; there is money for three."""
    before = a_short_day(bench, 6, calls=8)
    left = bench.outcomes(before)
    bench.clock.advance(DAY)
    bench.worker(reader=bench.reader(bench.ledger(calls=15)), leftover_days=1).run_pass()
    assert bench.outcomes(before) == left
    bench.worker(reader=bench.reader(bench.ledger(calls=16)), leftover_days=1).run_pass()
    assert set(bench.outcomes(before)) == {"scored"}


def test_a_rules_own_budget_has_to_allow_it_too(bench: PaidBench) -> None:
    rule = parse_rule({"name": "web", "calls_per_day": 8})
    before = a_short_day(bench, 6, rule, calls=1000)
    left = bench.outcomes(before)
    bench.clock.advance(DAY)
    bench.worker(rule, leftover_days=1).run_pass()
    assert bench.outcomes(before) == left
    bench.worker(rule.model_copy(update={"calls_per_day": 16}), leftover_days=1).run_pass()
    assert set(bench.outcomes(before)) == {"scored"}


def test_todays_turns_come_first(bench: PaidBench) -> None:
    """At noon half of today's turns are still to come: what they will cost is set aside."""
    before = a_short_day(bench, 6, calls=8)
    left = bench.outcomes(before)
    bench.clock.advance(DAY)
    today = bench.put(*(bench.turn(f"t{i}") for i in range(3)))
    worker = bench.worker(reader=bench.reader(bench.ledger(calls=39)), leftover_days=1)
    worker.run_pass()
    assert (set(bench.outcomes(today)), bench.outcomes(before)) == ({"scored"}, left)
    # Late in the day there is no more to come, and what was set aside is free.
    bench.clock.advance(11 * 3600)
    worker.run_pass()
    assert set(bench.outcomes(before)) == {"scored"}


def test_early_in_the_day_and_beyond_the_days_nothing_is_read_late(bench: PaidBench) -> None:
    before = a_short_day(bench, 4, calls=8)
    left = bench.outcomes(before)
    bench.clock.advance(DAY - 7 * 3600)
    bench.worker(leftover_days=1).run_pass()
    assert bench.outcomes(before) == left
    bench.clock.advance(7 * 3600)
    bench.worker(leftover_days=0).run_pass()
    assert bench.outcomes(before) == left
    bench.clock.advance(DAY)
    bench.worker(leftover_days=1).run_pass()
    assert bench.outcomes(before) == left
    bench.worker(leftover_days=2).run_pass()
    assert set(bench.outcomes(before)) == {"scored"}


def test_the_room_of_a_day_is_shared_by_scorers_and_leaves_out_what_was_read_late(
    bench: PaidBench,
) -> None:
    budget = Budget(bench.store, bench.clock.now, Limits(calls=100))
    budget.refresh(members=2)
    account = (bench.project, "r")
    reserved = budget.reserve(account, Limits(), Spent(20, 0.0))
    assert not isinstance(reserved, str)
    assert budget.room(account, Limits(), carry=2.0, besides={}).calls == 30
    besides = {account: Spent(20, 0.0)}
    assert budget.room(account, Limits(), carry=2.0, besides=besides).calls == 40
    assert budget.room(account, Limits(calls=30), carry=2.0, besides=besides).calls == 5
    assert budget.room(account, Limits(), carry=2.0, besides={}).usd is None
