"""One span read through the tables: whose convention, what kind of step, where each field is."""

from __future__ import annotations

import re
from collections.abc import Iterator, KeysView, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from stagewatch.collector.assemble.lenient import loaded
from stagewatch.collector.assemble.tables import Convention, KindRule, conventions, names
from stagewatch.core.model import LogRow, SpanRow

_MESSAGE_EVENTS = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
_CHOICE_EVENT = "gen_ai.choice"
_DIGEST = re.compile(r"sha256:[0-9a-f]{32,64}")


@dataclass(frozen=True, slots=True)
class Found:
    """A field's raw value, the key it came from, and whose convention named it."""

    value: Any
    key: str
    convention: str
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Lost:
    """A field that is there but says nothing: redacted, or cut so short that nothing is left."""

    key: str
    why: str


class Step:
    """A span with the conventions that recognise it. Reading is lazy: few spans are asked."""

    __slots__ = ("_logs", "by", "children", "kind", "lost", "span")

    def __init__(self, span: SpanRow, logs: Sequence[LogRow] = ()) -> None:
        self.span = span
        self.children: list[Step] = []
        self.by = recognise(span)
        self._logs = logs
        self.lost: dict[str, Lost] = {}
        self.kind = _kind(span, self.by)

    @property
    def id(self) -> str:
        """The span id."""
        return self.span.span_id

    @property
    def order(self) -> tuple[int, int, str]:
        """Sort key: start, then the longer span first (a parent starts with its child), then id."""
        return (self.span.start_ns, -self.span.end_ns, self.span.span_id)

    def read(self, name: str) -> Found | None:
        """The first source of field `name` that holds something, convention by convention.

        A value that was withheld is noted in `lost` and does not count as something.
        """
        return next(self.read_all(name), None)

    def read_all(self, name: str) -> Iterator[Found]:
        """Every source of field `name` that holds something, best first."""
        for convention in self.by:
            for source in convention.read.get(name, ()):
                found = self._source(source, convention.name)
                if found is None or found.value is None or found.value == "":
                    continue
                why = withheld(found.value)
                if why:
                    self.lost.setdefault(name, Lost(found.key, why))
                    continue
                yield found

    def _source(self, source: str, convention: str) -> Found | None:
        key, _, path = source.partition("#")
        value: Any
        if key.startswith("^"):
            value = self.span.resource.get(key[1:])
            key = f"resource:{key[1:]}"
        elif key.startswith(("@", "%")):
            value = self._from_events(key, path)
            return None if value is None else Found(value, source, convention)
        elif key.endswith(".*"):
            value = below(self.span.attributes, key[:-1])
        elif ".{i}" in key:
            prefix, _, rest = key.partition(".{i}")
            value = flattened(self.span.attributes, prefix + ".", rest)
        else:
            value = self.span.attributes.get(key)
        if path:
            parsed, cut = loaded(value)
            return Found(walk(parsed, path), source, convention, cut)
        return Found(value, key, convention)

    def _from_events(self, key: str, path: str) -> Any:  # noqa: ANN401
        name = key[1:]
        records: list[tuple[str, int, Any]]
        if key.startswith("@"):
            records = [(e.name, e.time_ns, e.attributes) for e in self.span.events]
        else:
            records = [(log.event_name, log.time_ns, _log_content(log)) for log in self._logs]
        records.sort(key=lambda record: record[1])
        if name == "messages":
            found = [
                {"role": _MESSAGE_EVENTS[event], **_mapping(content)}
                for event, _, content in records
                if event in _MESSAGE_EVENTS
            ]
            return found or None
        if name == "choice":
            return [content for event, _, content in records if event == _CHOICE_EVENT] or None
        matching = [content for event, _, content in records if event == name]
        if not matching:
            return None
        if not path:
            return matching
        for content in matching:
            value = _mapping(content).get(path)
            if value is None:
                value = walk(loaded(content)[0], path)
            if value is not None:
                return value
        return None


def _log_content(log: LogRow) -> Any:  # noqa: ANN401
    # Old message events have a structured body; newer events carry attributes.
    return log.body if isinstance(log.body, Mapping) and log.body else log.attributes


def _mapping(value: Any) -> Mapping[str, Any]:  # noqa: ANN401
    return value if isinstance(value, Mapping) else {}


def withheld(value: Any) -> str | None:  # noqa: ANN401
    """The word redacted when `value` is only a redaction mark or a digest, else None."""
    if isinstance(value, str) and len(value) < 128:
        text = value.strip().strip('"')
        if text in names().redacted or _DIGEST.fullmatch(text):
            return "redacted"
    return None


def walk(value: Any, path: str) -> Any:  # noqa: ANN401
    """What is at `a.0.b` inside `value`; JSON text on the way is parsed. None when nothing is.

    Names may hold dots themselves: the longest name that exists is taken.
    """
    parts = path.split(".")
    at = 0
    while at < len(parts):
        value = loaded(value)[0]
        if isinstance(value, (list, tuple)):
            if not parts[at].isdigit() or int(parts[at]) >= len(value):
                return None
            value = value[int(parts[at])]
            at += 1
            continue
        if not isinstance(value, Mapping):
            return None
        for end in range(len(parts), at, -1):
            name = ".".join(parts[at:end])
            if name in value:
                value = value[name]
                at = end
                break
        else:
            return None
    return value


def below(attributes: Mapping[str, Any], prefix: str) -> dict[str, Any] | None:
    """Every attribute under `prefix`, with the prefix taken off; None when there is none."""
    found = {
        key[len(prefix) :]: value for key, value in attributes.items() if key.startswith(prefix)
    }
    return found or None


def flattened(attributes: Mapping[str, Any], prefix: str, rest: str) -> dict[int, Any] | None:
    """A flattened list as `{index: element}`. An element is a mapping of the attributes below its
    number, or the value itself. The number is the rank: gaps stay, keys come in any order.
    """
    items: dict[int, Any] = {}
    for key, value in attributes.items():
        if not key.startswith(prefix):
            continue
        digits, _, tail = key[len(prefix) :].partition(".")
        if not digits.isascii() or not digits.isdigit() or len(digits) > 6:
            continue
        tail = f".{tail}" if tail else ""
        if tail == rest:
            items[int(digits)] = value
        elif tail.startswith(rest + "."):
            element = items.setdefault(int(digits), {})
            if isinstance(element, dict):
                element[tail[len(rest) + 1 :]] = value
    return items or None


def recognise(span: SpanRow) -> tuple[Convention, ...]:
    """The conventions that `span` shows a sign of, most specific first."""
    keys = span.attributes.keys()
    event_names = {event.name for event in span.events}
    return tuple(table for table in conventions() if _shows(table, span, keys, event_names))


def _shows(
    table: Convention, span: SpanRow, keys: KeysView[str], event_names: AbstractSet[str]
) -> bool:
    return bool(
        table.always
        or not table.keys.isdisjoint(keys)
        or (table.scopes and span.scope_name.startswith(table.scopes))
        or (event_names and not table.events.isdisjoint(event_names))
        or (table.prefixes and any(key.startswith(table.prefixes) for key in keys))
    )


def _kind(span: SpanRow, by: Sequence[Convention]) -> str:
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
