"""Rules of live scoring: which turns, how many of them, which metrics, which judge, what it may
cost. Pure; `rules_store` keeps them.

The first enabled rule that matches a turn decides. A project's own rules and the global ones
stand in one order (priority, then the project's own first, then the name); a project's rule of
the same name takes the place of a global one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError, model_validator

from stagewatch.core.errors import InvalidInputError
from stagewatch.core.model import Turn
from stagewatch.scorer.plans.plan import KNOWN_METRICS
from stagewatch.scorer.strict import STRICT, Many, fault

DEFAULT_NAME = "sample"
"""The rule that the settings give where no rule is written: every turn at the sample rate."""
RESERVED = frozenset({"feedback", "probe", "backfill"})
"""Words that stand in a decision's `rule` where no rule decided."""

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
Patterns = Many[Annotated[str, Field(min_length=1, max_length=200)]]
Share = Annotated[float, Field(ge=0, le=1)]
_MOST = 1_000_000_000


class Filters(BaseModel):
    """What a turn must have: any pattern of each list (`*` and `?` as in file names), every tag.

    Empty lists let everything through. Lengths are characters of the question, both ends in.
    """

    model_config = STRICT

    service: Patterns = ()
    release: Patterns = ()
    environment: Patterns = ()
    model: Patterns = ()
    tags: dict[str, Annotated[str, Field(max_length=200)]] = {}
    question_min: Annotated[int, Field(ge=0, le=_MOST)] | None = None
    question_max: Annotated[int, Field(ge=0, le=_MOST)] | None = None

    @model_validator(mode="after")
    def _some_length(self) -> Filters:
        low, high = self.question_min, self.question_max
        if low is not None and high is not None and low > high:
            raise ValueError("question_min is above question_max: no question is that long")
        return self


class Rule(BaseModel):
    """One rule. Rates are shares of the matching turns, 0 to 1; the highest that applies counts.

    `rare_rate` is for releases with fewer than `rare_below` turns in the last 24 hours;
    `low_rate` for turns that the embedded judge fails, `cascade_rate` for those of which it is
    unsure (both need the first pass). Budgets are per UTC day, project and rule; None is no
    limit beside the settings' own. `metrics` empty means all.
    """

    model_config = STRICT

    name: Name
    priority: Annotated[int, Field(ge=0, le=1_000_000)] = 100
    enabled: bool = True
    filters: Filters = Filters()
    rate: Share = 1.0
    metrics: Many[str] = ()
    judge: Literal["configured", "embedded"] = "configured"
    usd_per_day: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    calls_per_day: Annotated[int, Field(ge=0, le=_MOST)] | None = None
    rare_below: Annotated[int, Field(ge=1, le=_MOST)] | None = None
    rare_rate: Share | None = None
    low_rate: Share | None = None
    cascade_rate: Share | None = None

    @model_validator(mode="after")
    def _sensible(self) -> Rule:
        if self.name in RESERVED:
            raise ValueError(f"name: {self.name!r} is taken; choose another")
        unknown = [name for name in self.metrics if name not in KNOWN_METRICS]
        if unknown:
            raise ValueError(
                f"metrics: unknown {', '.join(unknown)}; known: {', '.join(KNOWN_METRICS)}"
            )
        if (self.rare_below is None) != (self.rare_rate is None):
            raise ValueError("rare_below and rare_rate go together")
        for name in ("rare_rate", "low_rate", "cascade_rate"):
            raised = getattr(self, name)
            if raised is not None and raised < self.rate:
                raise ValueError(f"{name}: {raised:g} is below rate {self.rate:g}")
        return self

    @property
    def needs_first_pass(self) -> bool:
        """True when the embedded judge's reading moves this rule's rate."""
        return self.low_rate is not None or self.cascade_rate is not None


def parse_rule(body: Mapping[str, Any]) -> Rule:
    """A rule from JSON or TOML data.

    Raises:
        InvalidInputError: naming the field and what is wrong with it.
    """
    try:
        return Rule.model_validate(dict(body))
    except ValidationError as error:
        raise InvalidInputError(f"rule: {fault(error)}") from None


def rule_body(rule: Rule) -> dict[str, Any]:
    """The rule as plain JSON data; `parse_rule` reads it back."""
    return rule.model_dump(mode="json")


def matches(rule: Rule, turn: Turn) -> bool:
    """True when the turn passes every filter of the rule."""
    wanted = rule.filters
    for patterns, value in (
        (wanted.service, turn.service),
        (wanted.release, turn.release),
        (wanted.environment, turn.environment),
        (wanted.model, turn.model),
    ):
        if patterns and not any(fnmatchcase(value or "", pattern) for pattern in patterns):
            return False
    if any(turn.tags.get(key) != value for key, value in wanted.tags.items()):
        return False
    length = len(turn.question or "")
    if wanted.question_min is not None and length < wanted.question_min:
        return False
    return wanted.question_max is None or length <= wanted.question_max


@dataclass(frozen=True, slots=True)
class RuleBook:
    """The rules in force: global ones, and each project's own."""

    common: tuple[Rule, ...] = (Rule(name=DEFAULT_NAME, priority=1000),)
    own: Mapping[str, tuple[Rule, ...]] = field(default_factory=dict)

    def of_project(self, project: str) -> list[tuple[Rule, str]]:
        """(rule, scope: `project` or `global`) in the order in which they are asked."""
        own = self.own.get(project, ())
        named = {rule.name for rule in own}
        both = [(rule, "project") for rule in own]
        both += [(rule, "global") for rule in self.common if rule.name not in named]
        return sorted(both, key=lambda pair: (pair[0].priority, pair[1] == "global", pair[0].name))

    def first(self, turn: Turn) -> Rule | None:
        """The enabled rule that decides on this turn, None when none matches."""
        for rule, _ in self.of_project(turn.project):
            if rule.enabled and matches(rule, turn):
                return rule
        return None

    def named(self, project: str, name: str) -> Rule | None:
        """The rule of this name as the project sees it."""
        return next((r for r, _ in self.of_project(project) if r.name == name), None)


def split_first(rules: Sequence[Rule], turns: Iterable[Turn]) -> dict[str, list[Turn]]:
    """Rule name → the turns it decides on, "" those that no rule matches; `rules` in order."""
    found: dict[str, list[Turn]] = {rule.name: [] for rule in rules}
    found[""] = []
    for turn in turns:
        name = next((r.name for r in rules if r.enabled and matches(r, turn)), "")
        found[name].append(turn)
    return found


def common_rules(tables: Sequence[Mapping[str, Any]], sample_rate: float) -> tuple[Rule, ...]:
    """The global rules: those of the settings file, else one that samples everything.

    Raises:
        InvalidInputError: a rule is wrong, or a name stands twice.
    """
    if not tables:
        return (Rule(name=DEFAULT_NAME, priority=1000, rate=sample_rate),)
    rules = tuple(parse_rule(table) for table in tables)
    names = [rule.name for rule in rules]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidInputError(f"rule: the name {twice!r} stands twice in the settings")
    return rules
