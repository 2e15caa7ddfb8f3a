"""Rules: what they match, in which order, and what is said of wrong ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.scorer_turns import turn

from stagewatch.core.cli.scoring import moment, read_rule
from stagewatch.core.clock import SystemClock
from stagewatch.core.errors import InvalidInputError, SettingsError
from stagewatch.core.model import Turn
from stagewatch.core.settings import load_settings
from stagewatch.scorer.decide import Standing, decide
from stagewatch.scorer.rules import Rule, RuleBook, matches, parse_rule, rule_body, split_first
from stagewatch.scorer.rules_store import settings_rules
from stagewatch.scorer.sampling import Signals, draw, position

NOW = SystemClock().now()


def a_turn(**more: object) -> Turn:
    return replace(
        turn("How long is the warranty?", "24 months.", ["warranty"]),
        **more,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("filters", "fits"),
    [
        ({}, True),
        ({"service": ["bot"]}, True),
        ({"service": ["other", "b*"]}, True),
        ({"service": ["bot-?"]}, False),
        ({"release": ["2.*"]}, True),
        ({"release": ["1.*"]}, False),
        ({"environment": ["prod"], "release": ["2.0"]}, True),
        ({"environment": ["staging"], "release": ["2.0"]}, False),
        ({"model": ["small-*"]}, True),
        ({"tags": {"plan": "gold"}}, True),
        ({"tags": {"plan": "silver"}}, False),
        ({"tags": {"plan": "gold", "team": "x"}}, False),
        ({"question_min": 25}, True),
        ({"question_min": 26}, False),
        ({"question_max": 25}, True),
        ({"question_max": 24}, False),
    ],
)
def test_every_filter_must_let_a_turn_through(filters: dict[str, object], fits: bool) -> None:
    item = a_turn(release="2.0", environment="prod", model="small-1", tags={"plan": "gold"})
    assert len(item.question or "") == 25
    assert matches(parse_rule({"name": "r", "filters": filters}), item) is fits


def test_the_first_enabled_rule_by_priority_decides() -> None:
    rules = [
        Rule(name="late", priority=50),
        Rule(name="off", priority=1, enabled=False),
        parse_rule({"name": "other", "priority": 2, "filters": {"service": ["web"]}}),
        Rule(name="first", priority=3),
    ]
    book = RuleBook(tuple(rules))
    found = book.first(a_turn())
    assert found is not None
    assert found.name == "first"
    assert [rule.name for rule, _ in book.of_project("shop")] == ["off", "other", "first", "late"]
    split = split_first([rule for rule, _ in book.of_project("shop")], [a_turn(), a_turn()])
    assert {name: len(turns) for name, turns in split.items() if turns} == {"first": 2}


def test_a_projects_rule_stands_before_a_global_one_and_replaces_its_namesake() -> None:
    book = RuleBook(
        (Rule(name="a", rate=0.1), Rule(name="sample", rate=0.2)),
        {"shop": (Rule(name="z", rate=0.3), Rule(name="sample", enabled=False))},
    )
    assert [(r.name, scope) for r, scope in book.of_project("shop")] == [
        ("sample", "project"),
        ("z", "project"),
        ("a", "global"),
    ]
    assert book.of_project("elsewhere")[0][1] == "global"
    named = book.named("shop", "sample")
    assert named is not None
    assert named.enabled is False


def test_a_turn_that_no_rule_matches_is_filtered_and_says_so() -> None:
    decision = decide(a_turn(), Standing(), None, Signals(), at=NOW)
    assert (decision.outcome, decision.rule, decision.inclusion) == ("filtered", "", None)
    assert "no rule" in decision.why


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"name": "a b"}, "name"),
        ({}, "name"),
        ({"name": "feedback"}, "is taken"),
        ({"name": "r", "rate": 1.5}, "rate"),
        ({"name": "r", "rate": float("nan")}, "rate"),
        ({"name": "r", "color": "red"}, "color"),
        ({"name": "r", "metrics": ["faithfullness"]}, "unknown faithfullness"),
        ({"name": "r", "judge": "oracle"}, "judge"),
        ({"name": "r", "usd_per_day": -1}, "usd_per_day"),
        ({"name": "r", "usd_per_day": float("inf")}, "usd_per_day"),
        ({"name": "r", "rare_rate": 1.0}, "go together"),
        ({"name": "r", "rate": 0.5, "low_rate": 0.1}, "below rate"),
        ({"name": "r", "filters": {"question_min": 9, "question_max": 2}}, "no question"),
        ({"name": "r", "filters": {"country": ["de"]}}, "country"),
    ],
)
def test_a_wrong_rule_is_refused_with_the_field(body: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_rule(body)
    assert says in str(caught.value)


def test_a_rule_survives_being_stored() -> None:
    rule = parse_rule(
        {
            "name": "all", "priority": 7, "enabled": False, "rate": 0.25, "judge": "embedded",
            "filters": {"service": ["a*"], "tags": {"k": "v"}, "question_max": 9},
            "metrics": ["faithfulness"], "usd_per_day": 1.5, "calls_per_day": 10,
            "rare_below": 5, "rare_rate": 1.0, "low_rate": 0.5, "cascade_rate": 0.75,
        }
    )  # fmt: skip
    assert parse_rule(rule_body(rule)) == rule


def test_rules_in_the_settings_are_tables_of_the_file(tmp_path: Path) -> None:
    config = tmp_path / "stagewatch.toml"
    config.write_text(
        '[[rules]]\nname = "web"\nrate = 0.1\n[rules.filters]\nservice = ["web"]\n'
        '[[rules]]\nname = "rest"\nrate = 0.01\n'
    )
    assert [r.name for r in settings_rules(load_settings({}, config))] == ["web", "rest"]
    by_env = load_settings({"STAGEWATCH_RULES": '[{name = "x", rate = 0.5}]'})
    assert settings_rules(by_env)[0].rate == 0.5
    plain = settings_rules(load_settings({"STAGEWATCH_SAMPLE_RATE": "0.2"}))
    assert [(r.name, r.rate) for r in plain] == [("sample", 0.2)]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("[{name='a'}, {name='a'}]", "twice"),
        ("[{name='a', rate=2}]", "rate"),
    ],
)
def test_a_wrong_rule_in_the_settings_stops_the_start(value: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        settings_rules(load_settings({"STAGEWATCH_RULES": value}))


@pytest.mark.parametrize("value", ["{", "3", "'rules'", "[1]"])
def test_settings_that_are_no_list_of_tables_are_refused(value: str) -> None:
    with pytest.raises(SettingsError, match="list of tables"):
        load_settings({"STAGEWATCH_RULES": value})


def test_the_highest_rate_that_applies_is_the_probability() -> None:
    rule = Rule(name="r", rate=0.1, rare_below=50, rare_rate=0.3, low_rate=0.5, cascade_rate=0.8)
    item = a_turn()
    cases = [
        (Signals(), 0.1),
        (Signals(release_turns=49), 0.3),
        (Signals(release_turns=50), 0.1),
        (Signals(release_turns=1, failed=True), 0.5),
        (Signals(failed=True, unsure=True), 0.8),
        (Signals(failed=False, unsure=False), 0.1),
    ]
    assert [draw(rule, item, signals).inclusion for signals, _ in cases] == [r for _, r in cases]


def test_what_the_base_rate_takes_is_uniform_whatever_was_raised() -> None:
    rule = Rule(name="r", rate=0.3, cascade_rate=1.0)
    unsure = Signals(unsure=True)
    turns = [a_turn(turn_id=f"t{i}-s") for i in range(400)]
    strata = {t.turn_id: draw(rule, t, unsure).stratum for t in turns}
    for item in turns:
        below = position(item.turn_id) < 0.3
        assert strata[item.turn_id] == ("uniform" if below else "uncertain")
    assert {draw(rule, t, Signals()).stratum for t in turns} == {"uniform"}


def test_a_stored_inclusion_is_never_drawn_again() -> None:
    item = a_turn(turn_id="n3-s")
    standing = Standing(decided=True, inclusion=0.02, stratum="rare_release")
    rule = Rule(name="r", rate=1.0)
    decision = decide(item, standing, rule, Signals(), at=NOW)
    assert (decision.inclusion, decision.stratum) == (0.02, "rare_release")
    assert decision.outcome == ("scored" if position(item.turn_id) < 0.02 else "not_sampled")


def test_times_of_the_command_line() -> None:
    assert (NOW - moment("36h", NOW)).total_seconds() == 36 * 3600
    assert moment("2026-03-01", NOW).isoformat() == "2026-03-01T00:00:00+00:00"
    assert moment("2026-03-01T02:00:00+02:00", NOW) == moment("2026-03-01", NOW)
    for text in ("yesterday", "7", "9999999999999w"):
        with pytest.raises(InvalidInputError, match="not a time"):
            moment(text, NOW)


def test_a_rule_is_read_from_text_and_files(tmp_path: Path) -> None:
    toml = tmp_path / "rule.toml"
    toml.write_text('name = "x"\nrate = 0.5\n')
    assert read_rule(str(toml)) == {"name": "x", "rate": 0.5}
    assert read_rule('{"name": "y"}') == {"name": "y"}
    for text, says in ((str(tmp_path / "none.json"), "cannot read"), ("{", "not JSON")):
        with pytest.raises(InvalidInputError, match=says):
            read_rule(text)
