"""The conventions as loaded data: which span is whose, what kind of step it is, where fields are.

Adding a convention is adding a file to `conventions/`; nothing in the code knows a vendor.
A source in a table's `[read]` part is written in one of these ways:

    key              an attribute of the span
    ^key             an attribute of the resource
    key#a.0.b        JSON inside an attribute, then names and list positions
    prefix.*         every attribute below the prefix, as a mapping
    prefix.{i}       a list flattened into numbered attributes; the number is the rank
    prefix.{i}.rest  the same, one attribute of each element
    @Event           attributes of each span event of that name, in order (`@Event#path` in each)
    %event           the same for log records; `@messages`, `@choice` and their `%` forms are the
                     GenAI message events
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Literal

Kind = Literal[
    "turn",
    "rewrite",
    "retrieve",
    "rerank",
    "generate",
    "embed",
    "tool",
    "chain",
    "other",
]


@dataclass(frozen=True, slots=True)
class KindRule:
    """One way to tell the kind of a step; rules are tried in order, the first hit wins."""

    attributes: tuple[str, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)
    patterns: tuple[tuple[re.Pattern[str], str], ...] = ()
    prefixes: Mapping[str, str] = field(default_factory=dict)
    events: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Convention:
    """One table file."""

    name: str
    version: str
    order: int
    keys: frozenset[str]
    prefixes: tuple[str, ...]
    scopes: tuple[str, ...]
    events: frozenset[str]
    always: bool
    kinds: tuple[KindRule, ...]
    read: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Place:
    """One source, taken apart: how to look, for what, the path inside it, and what to call it."""

    how: Literal["attribute", "resource", "events", "below", "list"]
    key: str
    rest: str
    path: str
    says: str
    convention: str


def _place(source: str, convention: str) -> Place:
    key, _, path = source.partition("#")
    if key.startswith("^"):
        says = source if path else f"resource:{key[1:]}"
        return Place("resource", key[1:], "", path, says, convention)
    if key.startswith(("@", "%")):
        return Place("events", key, "", path, source, convention)
    if key.endswith(".*"):
        return Place("below", key[:-1], "", path, source, convention)
    if ".{i}" in key:
        prefix, _, rest = key.partition(".{i}")
        return Place("list", prefix + ".", rest, path, source, convention)
    return Place("attribute", key, "", path, source, convention)


_PLACES: dict[tuple[str, ...], dict[str, tuple[Place, ...]]] = {}


def places_of(tables: tuple[Convention, ...]) -> Mapping[str, tuple[Place, ...]]:
    """For each field, where to look for it on a span that shows `tables`, best first."""
    key = tuple([table.name + table.version for table in tables])
    found = _PLACES.get(key)
    if found is None:
        merged: dict[str, list[Place]] = {}
        for table in tables:
            for name, sources in table.read.items():
                merged.setdefault(name, []).extend(_place(s, table.name) for s in sources)
        found = _PLACES[key] = {name: tuple(places) for name, places in merged.items()}
    return found


@dataclass(frozen=True, slots=True)
class Names:
    """Names of things inside values (`fields.toml`)."""

    document: Mapping[str, tuple[str, ...]]
    question: Mapping[str, tuple[str, ...]]
    answer: Mapping[str, tuple[str, ...]]
    metadata: Mapping[str, tuple[str, ...]]
    skip: tuple[re.Pattern[str], ...]
    step_names: Mapping[str, re.Pattern[str]]
    redacted: frozenset[str]


def _kind_rule(raw: Mapping[str, Any]) -> KindRule:
    return KindRule(
        attributes=tuple(raw.get("attributes", ())),
        # Letter case varies between emitters and versions.
        values={str(k).lower(): str(v) for k, v in raw.get("values", {}).items()},
        patterns=tuple((re.compile(k), str(v)) for k, v in raw.get("patterns", {}).items()),
        prefixes=dict(raw.get("prefixes", {})),
        events=dict(raw.get("events", {})),
    )


def _convention(raw: Mapping[str, Any]) -> Convention:
    recognise = raw["recognise"]
    return Convention(
        name=raw["name"],
        version=raw["version"],
        order=raw["order"],
        keys=frozenset(recognise.get("keys", ())),
        prefixes=tuple(recognise.get("prefixes", ())),
        scopes=tuple(recognise.get("scopes", ())),
        events=frozenset(recognise.get("events", ())),
        always=bool(recognise.get("always", False)),
        kinds=tuple(_kind_rule(rule) for rule in raw.get("kind", ())),
        read={name: tuple(sources) for name, sources in raw.get("read", {}).items()},
    )


@functools.cache
def conventions() -> tuple[Convention, ...]:
    """Every table, most specific first."""
    folder = resources.files("stagewatch.collector.assemble") / "conventions"
    tables = [
        _convention(tomllib.loads(file.read_text(encoding="utf-8")))
        for file in folder.iterdir()
        if file.name.endswith(".toml") and file.name != "fields.toml"
    ]
    return tuple(sorted(tables, key=lambda table: (table.order, table.name)))


@functools.cache
def names() -> Names:
    """The shared names of `fields.toml`."""
    file = resources.files("stagewatch.collector.assemble") / "conventions" / "fields.toml"
    raw = tomllib.loads(file.read_text(encoding="utf-8"))

    def lists(part: str) -> dict[str, tuple[str, ...]]:
        return {name: tuple(found) for name, found in raw[part].items()}

    metadata = lists("metadata")
    return Names(
        document=lists("document"),
        question=lists("question"),
        answer=lists("answer"),
        metadata={name: found for name, found in metadata.items() if name != "skip"},
        skip=tuple(re.compile(pattern) for pattern in metadata["skip"]),
        step_names={name: re.compile(pattern) for name, pattern in raw["names"].items()},
        redacted=frozenset(raw["redacted"]["markers"]),
    )
