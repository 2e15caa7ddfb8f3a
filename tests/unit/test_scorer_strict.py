"""What people write is read strictly: no text for a number, no number for a truth value."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stagewatch.core.errors import InvalidInputError, SettingsError
from stagewatch.core.settings import load_settings
from stagewatch.scorer.channels.channel import parse_channel
from stagewatch.scorer.plans.plan import parse_plan
from stagewatch.scorer.probes.probe import parse_probe
from stagewatch.scorer.rules import parse_rule
from stagewatch.scorer.rules_store import settings_rules

CONNECTOR = {"url": "http://127.0.0.1:9/ask"}


def rule(**fields: Any) -> object:
    return parse_rule({"name": "r", **fields})


def probe(**fields: Any) -> object:
    return parse_probe({"name": "p", "dataset": "d", "connector": CONNECTOR, **fields})


def channel(**fields: Any) -> object:
    return parse_channel({"name": "c", "url": "env:HOOK", "secret": "env:SECRET", **fields})


def plan(**fields: Any) -> object:
    return parse_plan({"name": "p", "connector": CONNECTOR, **fields})


@pytest.mark.parametrize(
    ("parse", "fields", "says"),
    [
        (rule, {"rate": "0.5"}, "rule: rate: a number is wanted, not text"),
        (rule, {"rate": True}, "rule: rate: a number is wanted, not true or false"),
        (rule, {"priority": "7"}, "rule: priority: a whole number is wanted, not text"),
        (rule, {"priority": 7.0}, "rule: priority: a whole number is wanted, not a number with"),
        (rule, {"enabled": 1}, "rule: enabled: true or false is wanted, not a number"),
        (rule, {"enabled": "yes"}, "rule: enabled: true or false is wanted, not text"),
        (rule, {"usd_per_day": "1"}, "rule: usd_per_day: a number is wanted, not text"),
        (rule, {"metrics": "faithfulness"}, "rule: metrics: a list is wanted, not text"),
        (rule, {"filters": {"question_min": "3"}},
         "rule: filters.question_min: a whole number is wanted, not text"),
        (rule, {"filters": {"service": [7]}}, "rule: filters.service.0: text is wanted, not a nu"),
        (rule, {"filters": ["web"]}, "rule: filters: a table of fields is wanted, not a list"),
        (probe, {"every_minutes": "5"}, "probe: every_minutes: a number is wanted, not text"),
        (probe, {"enabled": "false"}, "probe: enabled: true or false is wanted, not text"),
        (probe, {"connector": {**CONNECTOR, "timeout_s": "9"}},
         "probe: connector.timeout_s: a number is wanted, not text"),
        (channel, {"renotify_hours": "4"}, "channel: renotify_hours: a number is wanted, not te"),
        (channel, {"words": "no"}, "channel: words: true or false is wanted, not text"),
        (channel, {"secret": 7}, "channel: secret: text is wanted, not a number"),
        (channel, {"stages": None}, "channel: stages: a list is wanted, not null"),
        (plan, {"top_k": "4"}, "plan: top_k: a whole number is wanted, not text"),
        (plan, {"thresholds": {"faithfulness": "0.9"}},
         "plan: thresholds.faithfulness: a number is wanted, not text"),
        (plan, {"gate": {"defaults": 0}}, "plan: gate.defaults: true or false is wanted, not a"),
    ],
)  # fmt: skip
def test_another_type_is_refused_with_its_field(
    parse: Callable[..., object], fields: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse(**fields)
    assert str(caught.value).startswith(says)


@pytest.mark.parametrize(
    ("parse", "fields"),
    [
        (rule, {"rate": 1, "usd_per_day": 2, "metrics": ["faithfulness"]}),
        (probe, {"every_minutes": 5, "tags": ["smoke"]}),
        (channel, {"renotify_hours": 4, "stages": ["retrieval"]}),
        (plan, {"thresholds": {"faithfulness": 1}, "gate": {"conditions": []}}),
    ],
)
def test_whole_numbers_and_lists_fit(parse: Callable[..., object], fields: dict[str, Any]) -> None:
    parse(**fields)


def test_a_rule_of_the_settings_is_read_strictly_too(tmp_path: Path) -> None:
    config = tmp_path / "stagewatch.toml"
    config.write_text('[[rules]]\nname = "beta"\nrate = "0.2"\n')
    settings = load_settings({"STAGEWATCH_CONFIG": str(config)})
    with pytest.raises(SettingsError, match="rule: rate: a number is wanted, not text"):
        settings_rules(settings)
