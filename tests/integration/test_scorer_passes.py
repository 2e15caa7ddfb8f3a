"""Two passes, rules, budgets and outages over the real engine and a real HTTP judge."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from tests.support.scorer_bench import ANSWER, QUESTION, WRONG, PaidBench, by_metric
from tests.support.scorer_openai_server import ScriptedServer, running_server

from stagewatch.api.views import load_turn_view
from stagewatch.core.store import Store
from stagewatch.core.store.feedback import Flag, put_flags
from stagewatch.core.store.scores import diagnoses_of, past_decisions, readings, scores_of
from stagewatch.core.store.spending import spent_on
from stagewatch.core.store.turns import Share
from stagewatch.scorer.judges.embedded import EmbeddedJudge
from stagewatch.scorer.results import Unscored
from stagewatch.scorer.rules import Rule, parse_rule
from stagewatch.scorer.sampling import is_sampled, position

pytestmark = pytest.mark.integration

EMBEDDED = EmbeddedJudge().fingerprint


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    with running_server() as started:
        yield started


@pytest.fixture
def bench(store: Store, project: str, server: ScriptedServer) -> Iterator[PaidBench]:
    yield PaidBench(store, project, server)
    server.fail_with(0)


def test_the_embedded_judge_reads_every_turn_and_the_configured_one_the_sample(
    bench: PaidBench,
) -> None:
    turns = bench.put(*(bench.turn(f"n{i}") for i in range(30)))
    reader = bench.reader()
    bench.worker(Rule(name="some", rate=0.3), reader=reader).run_pass()
    decisions = bench.decisions(turns)
    sampled = [t for t in turns if is_sampled(t.turn_id, 0.3)]
    assert 0 < len(sampled) < 30
    for item in turns:
        decision, drawn = decisions[item.turn_id], item in sampled
        assert decision.outcome == ("scored" if drawn else "not_sampled")
        assert (decision.rule, decision.inclusion) == ("some", 0.3)
        rows = bench.rows(item)
        judged = {r["fingerprint"] for r in rows if r["basis"] == "judge"}
        assert judged == ({EMBEDDED, reader.judge.fingerprint} if drawn else {EMBEDDED})
        cheap = [r for r in rows if r["fingerprint"] == EMBEDDED]
        assert {(r["inclusion"], r["stratum"]) for r in cheap} == {(1.0, "first_pass")}
        by_rule = [r for r in rows if r["basis"] == "rule"]
        assert by_rule
        assert {(r["inclusion"], r["stratum"]) for r in by_rule} == {(1.0, "uniform")}
        paid = [r for r in rows if r["fingerprint"] == reader.judge.fingerprint]
        assert {r["inclusion"] for r in paid} == ({0.3} if drawn else set())
    assert (
        bench.server.distinct(bench.model) == 4 * len(sampled)
        or bench.server.distinct(bench.model) == 3 * len(sampled) + 1
    )


def test_lists_and_estimates_take_the_configured_judge_where_it_spoke(bench: PaidBench) -> None:
    turns = bench.put(*(bench.turn(f"n{i}", WRONG) for i in range(12)))
    reader = bench.reader()
    bench.worker(Rule(name="some", rate=0.5), reader=reader).run_pass()
    since, until = bench.clock.now() - timedelta(hours=1), bench.clock.now()
    live = readings(bench.store, bench.project, "faithfulness", since, until)
    cheap = readings(bench.store, bench.project, "faithfulness", since, until, first_pass=True)
    drawn = {t.turn_id for t in turns if is_sampled(t.turn_id, 0.5)}
    assert {r.turn_id for r in live} == drawn
    assert {r.fingerprint for r in live} == {reader.judge.fingerprint}
    assert {r.turn_id for r in cheap} == {t.turn_id for t in turns}
    shown = scores_of(bench.store, [t.turn_id for t in turns])
    diagnosed = diagnoses_of(bench.store, [t.turn_id for t in turns])
    for item in turns:
        judge = "openai" if item.turn_id in drawn else "embedded"
        assert by_metric(shown[item.turn_id])["faithfulness"].judge == judge
        wanted = reader.judge.fingerprint if item.turn_id in drawn else EMBEDDED
        assert diagnosed[item.turn_id].fingerprint == wanted
        view = load_turn_view(bench.store, item)
        assert {claim.text for claim in view.claims}
    counted = bench.store.rows(
        """SELECT turn_id FROM diagnoses FINAL WHERE project = {project:String}
           AND inclusion IS NOT NULL""",
        {"project": bench.project},
    )
    assert {row["turn_id"] for row in counted} == drawn


def test_what_the_embedded_judge_fails_is_sampled_at_the_raised_rate(bench: PaidBench) -> None:
    good = bench.put(*(bench.turn(f"g{i}", question=QUESTION) for i in range(25)))
    bad = bench.put(*(bench.turn(f"b{i}", WRONG) for i in range(25)))
    bench.worker(Rule(name="r", rate=0.1, low_rate=0.9)).run_pass()
    decisions = bench.decisions(good + bad)
    assert {decisions[t.turn_id].inclusion for t in good} == {0.1}
    assert {decisions[t.turn_id].inclusion for t in bad} == {0.9}
    for item in bad:
        decision = decisions[item.turn_id]
        assert decision.stratum == ("uniform" if position(item.turn_id) < 0.1 else "low_score")
        assert "embedded judge fails it" in decision.why


def test_a_rare_release_is_sampled_at_its_own_rate(bench: PaidBench) -> None:
    common = bench.put(*(bench.turn(f"c{i}", release="1.0") for i in range(20)))
    rare = bench.put(*(bench.turn(f"r{i}", release="2.0") for i in range(3)))
    rule = Rule(name="r", rate=0.0, rare_below=10, rare_rate=1.0)
    bench.worker(rule).run_pass()
    decisions = bench.decisions(common + rare)
    assert {decisions[t.turn_id].outcome for t in common} == {"not_sampled"}
    assert {decisions[t.turn_id].outcome for t in rare} == {"scored"}
    assert {decisions[t.turn_id].stratum for t in rare} == {"rare_release"}


def test_the_inclusion_is_stored_before_the_judge_is_asked(bench: PaidBench) -> None:
    item = bench.put(bench.turn("a"))
    seen: list[tuple[str, float | None, str]] = []
    reader = bench.reader()
    ask = reader.judge.faithfulness

    def looking(question: str, answer: str, window: list[str]) -> object:
        past = past_decisions(bench.store, [item[0].turn_id])[item[0].turn_id]
        seen.append((past.decision.outcome, past.decision.inclusion, past.member))
        return ask(question, answer, window)

    reader.judge.faithfulness = looking  # type: ignore[method-assign,assignment]
    bench.worker(Rule(name="r", rate=1.0), reader=reader, member="m1").run_pass()
    assert seen == [("pending", 1.0, "m1")]
    assert bench.outcomes(item) == ["scored"]


def test_a_changed_rate_does_not_rewrite_what_is_decided(bench: PaidBench) -> None:
    turns = bench.put(*(bench.turn(f"n{i}") for i in range(20)))
    bench.worker(Rule(name="r", rate=0.2)).run_pass()
    bench.clock.advance(60)
    bench.put(*turns, revision=2)
    bench.worker(Rule(name="r", rate=1.0)).run_pass()
    assert {d.inclusion for d in bench.decisions(turns).values()} == {0.2}


def test_a_rule_narrows_what_is_scored_to_its_metrics_and_asks_no_more(bench: PaidBench) -> None:
    turns = bench.put(bench.turn("a"), bench.turn("b", service="web"))
    rules = (
        parse_rule({"name": "web", "filters": {"service": ["web"]}, "metrics": ["faithfulness"]}),
    )
    bench.worker(*rules, reader=bench.reader(first_pass=False)).run_pass()
    assert bench.outcomes(turns) == ["filtered", "scored"]
    assert bench.rows(turns[0]) == []
    metrics = {r["metric"] for r in bench.rows(turns[1]) if r["basis"] == "judge"}
    assert metrics == {"faithfulness"}
    assert bench.server.calls(bench.model) == 1
    stored = diagnoses_of(bench.store, [turns[1].turn_id])[turns[1].turn_id]
    assert stored.passed is True


def test_a_rule_may_leave_a_turn_to_the_embedded_judge(bench: PaidBench) -> None:
    turns = bench.put(bench.turn("a"))
    bench.worker(Rule(name="cheap", judge="embedded")).run_pass()
    assert bench.outcomes(turns) == ["scored"]
    judged = [r for r in bench.rows(turns[0]) if r["basis"] == "judge"]
    assert {(r["fingerprint"], r["stratum"]) for r in judged} == {(EMBEDDED, "uniform")}
    assert bench.server.calls(bench.model) == 0


def test_the_budget_of_calls_is_never_passed_and_is_the_decisions_reason(
    bench: PaidBench,
) -> None:
    turns = bench.put(*(bench.turn(f"n{i}") for i in range(12)))
    reader = bench.reader(bench.ledger(calls=10))
    bench.worker(reader=reader, threads=8).run_pass()
    assert bench.server.calls(bench.model) <= 10
    outcomes = bench.outcomes(turns)
    assert set(outcomes) == {"scored", "over_budget"}
    over = next(d for d in bench.decisions(turns).values() if d.outcome == "over_budget")
    assert "the day's budget of 10 judge calls is spent" in over.why
    assert over.inclusion == 1.0
    assert reader.budget is not None
    assert list(reader.budget.short) == [("", "")]
    # What was over budget still has the embedded judge's word.
    left = [t for t, outcome in zip(turns, outcomes, strict=True) if outcome == "over_budget"]
    assert {r["fingerprint"] for r in bench.rows(left[0]) if r["basis"] == "judge"} == {EMBEDDED}


def test_the_next_day_has_a_budget_of_its_own(bench: PaidBench) -> None:
    reader = bench.reader(bench.ledger(calls=4))
    worker = bench.worker(reader=reader)
    first = bench.put(bench.turn("a"), bench.turn("b"))
    worker.run_pass()
    assert sorted(bench.outcomes(first)) == ["over_budget", "scored"]
    bench.clock.advance(86_400)
    second = bench.put(bench.turn("c"))
    worker.run_pass()
    assert bench.outcomes(second) == ["scored"]


def test_a_rules_own_budget_leaves_the_others_alone(bench: PaidBench) -> None:
    web = bench.put(*(bench.turn(f"w{i}", service="web") for i in range(6)))
    rest = bench.put(*(bench.turn(f"r{i}") for i in range(3)))
    rules = (
        parse_rule({"name": "web", "filters": {"service": ["web"]}, "usd_per_day": 6.5}),
        Rule(name="zest"),
    )
    bench.worker(*rules).run_pass()
    assert "over_budget" in bench.outcomes(web)
    assert set(bench.outcomes(rest)) == {"scored"}
    why = [d.why for d in bench.decisions(web).values() if d.outcome == "over_budget"]
    assert set(why) == {"rule web: the day's judge budget of 6.5 USD is spent"}
    spent = spent_on(bench.store, bench.clock.now().date())
    assert spent[(bench.project, "web")].usd > 0
    assert spent[(bench.project, "zest")].calls == 3 * 4


def test_scorers_that_share_a_store_share_what_is_left(bench: PaidBench) -> None:
    turns = bench.put(*(bench.turn(f"n{i}") for i in range(16)))
    readers = [bench.reader(bench.ledger(calls=17)) for _ in range(2)]
    workers = [
        bench.worker(reader=reader, member=f"m{i}", share=Share(i, 2, (f"m{1 - i}",)))
        for i, reader in enumerate(readers)
    ]
    for worker in workers:
        worker.run_pass()
    assert bench.server.calls(bench.model) <= 17
    assert set(bench.outcomes(turns)) == {"scored", "over_budget"}


def test_a_reply_that_is_stored_is_not_paid_again(bench: PaidBench) -> None:
    turns = bench.put(bench.turn("a"))
    bench.worker().run_pass()
    before = bench.server.calls(bench.model)
    bench.clock.advance(60)
    bench.put(*turns, revision=2)
    reader = bench.reader(bench.ledger())
    bench.worker(reader=reader).run_pass()
    assert bench.server.calls(bench.model) == before
    assert bench.outcomes(turns) == ["scored"]


@pytest.mark.parametrize("status", [401, 503])
def test_an_outage_pauses_the_judge_and_no_turn_is_given_up(bench: PaidBench, status: int) -> None:
    turns = bench.put(*(bench.turn(f"n{i}") for i in range(6)))
    reader = bench.reader()
    assert reader.fuse is not None
    worker = bench.worker(reader=reader)
    bench.server.fail_with(status)
    for _ in range(8):
        worker.run_pass()
        bench.clock.advance(1)
    kind = "AuthenticationError" if status == 401 else "InternalServerError"
    assert set(bench.outcomes(turns)) == {"pending"}
    assert {d.why for d in bench.decisions(turns).values()} == {
        f"the judge cannot be used ({kind}); waits until it can"
    }
    assert {d.inclusion for d in bench.decisions(turns).values()} == {1.0}
    # Nobody keeps asking: one try for each wait, after at most three to find out.
    assert bench.server.calls(bench.model) <= 6
    later = bench.put(bench.turn("later"))
    worker.run_pass()
    assert bench.outcomes(later) == ["pending"]
    bench.server.fail_with(0)
    bench.clock.advance(3600)
    worker.run_pass()
    assert set(bench.outcomes(turns + later)) == {"scored"}
    assert reader.fuse.state() is None


def test_while_the_judge_is_away_the_embedded_ones_word_is_shown(bench: PaidBench) -> None:
    turns = bench.put(bench.turn("a"))
    bench.server.fail_with(401)
    bench.worker().run_pass()
    view = load_turn_view(bench.store, turns[0])
    assert view.decision is not None
    assert view.decision.outcome == "pending"
    assert {s.judge for s in view.scores if s.basis == "judge"} == {"embedded"}


def test_a_restart_in_an_outage_finds_the_turns_that_wait(bench: PaidBench) -> None:
    turns = bench.put(bench.turn("a"))
    bench.server.fail_with(401)
    bench.worker().run_pass()
    bench.clock.advance(10 * 86_400)
    bench.server.fail_with(0)
    bench.worker(member="another").run_pass()
    assert bench.outcomes(turns) == ["scored"]


def test_a_text_that_always_fails_is_given_up_while_others_go_on(bench: PaidBench) -> None:
    bad = bench.put(bench.turn("a", "Poison"))
    reader = bench.reader()
    ask = reader.judge.faithfulness

    def failing(question: str, answer: str, window: list[str]) -> object:
        if "Poison" in answer:
            return Unscored("judge_error", "InternalServerError")
        return ask(question, answer, window)

    reader.judge.faithfulness = failing  # type: ignore[method-assign,assignment]
    worker = bench.worker(reader=reader)
    for number in range(5):
        good = bench.put(bench.turn(f"g{number}", ANSWER))
        worker.run_pass()
        bench.clock.advance(10)
        assert bench.outcomes(good) == ["scored"]
    assert bench.outcomes(bad) == ["judge_error"]


def test_a_flagged_turn_over_budget_says_so(bench: PaidBench) -> None:
    turns = bench.put(bench.turn("a"))
    bench.worker(Rule(name="none", rate=0.0)).run_pass()
    assert bench.outcomes(turns) == ["not_sampled"]
    bench.clock.advance(60)
    at = bench.clock.now()
    put_flags(bench.store, [Flag(bench.project, turns[0].turn_id, "disputed", "open", at)])
    bench.clock.advance(1)
    reader = bench.reader(bench.ledger(calls=1))
    bench.worker(Rule(name="none", rate=0.0), reader=reader).run_pass()
    decision = bench.decisions(turns)[turns[0].turn_id]
    assert (decision.outcome, decision.inclusion) == ("over_budget", None)
