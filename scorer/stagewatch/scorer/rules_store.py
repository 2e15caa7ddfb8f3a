"""Rules in the store: each project's own as documents, newest wins; global ones in the settings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from datetime import datetime

from stagewatch.core.errors import InvalidInputError, NotFoundError, SettingsError
from stagewatch.core.settings import Settings
from stagewatch.core.store.client import Store
from stagewatch.core.store.documents import (
    delete_document,
    get_document,
    list_documents,
    put_document,
)
from stagewatch.scorer.rules import Rule, RuleBook, common_rules, parse_rule, rule_body

COLLECTION = "rules"


def settings_rules(settings: Settings) -> tuple[Rule, ...]:
    """The global rules.

    Raises:
        SettingsError: a rule in the settings is wrong.
    """
    try:
        return common_rules(settings.rules, settings.sample_rate)
    except InvalidInputError as error:
        raise SettingsError(f"STAGEWATCH_RULES: {error}") from None


def rule_book(store: Store, common: tuple[Rule, ...]) -> RuleBook:
    """The rules in force now, of all projects."""
    own: dict[str, list[Rule]] = defaultdict(list)
    for body in list_documents(store, COLLECTION):
        project = str(body.pop("project"))
        own[project].append(parse_rule(body))
    return RuleBook(common, {project: tuple(rules) for project, rules in own.items()})


def book_source(store: Store, settings: Settings) -> Callable[[], RuleBook]:
    """A function that reads the rules in force; raises as `settings_rules` at once."""
    common = settings_rules(settings)
    return lambda: rule_book(store, common)


def save_rule(store: Store, project: str, rule: Rule, *, at: datetime) -> bool:
    """Store a rule of a project; True when there was none of that name."""
    known = get_document(store, COLLECTION, rule.name, project=project)
    body = {**rule_body(rule), "project": project}
    put_document(store, COLLECTION, rule.name, body, at=at, project=project)
    return known is None


def drop_rule(store: Store, project: str, name: str, *, at: datetime) -> None:
    """Delete a project's own rule; a global one of that name is in force again.

    Raises:
        NotFoundError: the project has no rule of that name.
    """
    if get_document(store, COLLECTION, name, project=project) is None:
        raise NotFoundError(
            f"project {project!r} has no rule {name!r} of its own (global rules are changed in "
            "the settings, or replaced by a rule of the same name)"
        )
    delete_document(store, COLLECTION, name, at=at, project=project)
