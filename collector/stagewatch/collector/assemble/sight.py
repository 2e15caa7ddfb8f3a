"""Whose convention a span follows, where that says its fields are, and what kind of step it is."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from stagewatch.collector.assemble.tables import (
    Convention,
    KindRule,
    Place,
    conventions,
    places_of,
)
from stagewatch.core.model import SpanRow

MANY_KEYS = 128
"""What is known of a set of more names is not kept: such sets are seldom seen twice."""

_Sight = tuple[tuple[Convention, ...], Mapping[str, tuple[Place, ...]]]


def recognise(span: SpanRow) -> tuple[Convention, ...]:
    """The conventions that `span` shows a sign of, most specific first."""
    return sight_of(span)[0]


def sight_of(span: SpanRow) -> _Sight:
    """The conventions of `span`, and for each field the places that can hold it."""
    events = tuple({event.name for event in span.events}) if span.events else ()
    if len(span.attributes) + len(events) > MANY_KEYS:
        return _sight(span.scope_name, tuple(span.attributes), events)
    return _known_sight(span.scope_name, tuple(span.attributes), events)


def _sight(scope: str, keys: tuple[str, ...], events: tuple[str, ...]) -> _Sight:
    by = tuple(table for table in conventions() if _shows(table, scope, keys, events))
    held = frozenset(keys)
    places = {
        field: found
        for field, every in places_of(by).items()
        if (found := tuple(place for place in every if _can_hold(place, keys, held)))
    }
    return by, places


def _can_hold(place: Place, keys: tuple[str, ...], held: frozenset[str]) -> bool:
    if place.how == "attribute":
        return place.key in held
    if place.how in {"below", "list"}:
        return any(key.startswith(place.key) for key in keys)
    return True


# An app's spans have few sets of names, and the answers depend on nothing else.
_known_sight = functools.lru_cache(maxsize=2048)(_sight)


def _shows(table: Convention, scope: str, keys: tuple[str, ...], events: tuple[str, ...]) -> bool:
    return bool(
        table.always
        or not table.keys.isdisjoint(keys)
        or (table.scopes and scope.startswith(table.scopes))
        or (events and not table.events.isdisjoint(events))
        or (table.prefixes and any(key.startswith(table.prefixes) for key in keys))
    )


def kind_of(span: SpanRow, by: Sequence[Convention]) -> str:
    """The kind of step that the conventions in `by` say `span` is, else other."""
    for table in by:
        for rule in table.kinds:
            kind = _apply(rule, span)
            if kind is not None:
                return kind
    return "other"


def _apply(rule: KindRule, span: SpanRow) -> str | None:
    for attribute in rule.attributes:
        value = span.attributes.get(attribute)
        if not isinstance(value, str):
            continue
        kind = rule.values.get(value.lower())
        if kind is not None:
            return kind
        for pattern, named in rule.patterns:
            if pattern.search(value):
                return named
    if rule.prefixes:
        for prefix, kind in rule.prefixes.items():
            if any(key.startswith(prefix) for key in span.attributes):
                return kind
    if rule.events and span.events:
        event_names = {event.name for event in span.events}
        for event, kind in rule.events.items():
            if event in event_names:
                return kind
    return None
