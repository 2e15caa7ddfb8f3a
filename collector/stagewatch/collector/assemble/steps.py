"""One span read through the tables: whose convention, what kind of step, where each field is."""

from __future__ import annotations

import bisect
import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stagewatch.collector.assemble.lenient import holds_length, loaded, value_limit
from stagewatch.collector.assemble.sight import MANY_KEYS, kind_of, sight_of
from stagewatch.collector.assemble.tables import Place, names
from stagewatch.core.model import LogRow, SpanRow

_MESSAGE_EVENTS = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
_CHOICE_EVENT = "gen_ai.choice"
ERROR = 2
"""The status code of a span that failed."""
STEP_FIELDS = {
    "documents": "documents",
    "reranked": "rerank_out",
    "query": "query",
    "top_k": "top_k",
    "prompt": "messages",
    "completion": "reply",
    "model": "model",
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
}
"""What an app may map on the span of a step, and what the tables call it."""
_MAPPED = "mapped"
_MAPPED_KINDS = {
    "documents": "retrieve",
    "rerank_out": "rerank",
    "messages": "generate",
    "reply": "generate",
    "model": "generate",
}
"""What a span is that carries an attribute which the app maps to the field; the first counts."""
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
    """A span with the conventions that recognise it. Reading is lazy: few spans are asked, and
    what was asked once is kept.
    """

    __slots__ = (
        "_keys",
        "_limit",
        "_logs",
        "_places",
        "_read",
        "by",
        "children",
        "kind",
        "lost",
        "span",
    )

    def __init__(self, span: SpanRow, logs: Sequence[LogRow] = ()) -> None:
        self.span = span
        self.children: list[Step] = []
        self.by, self._places = sight_of(span)
        self._logs = logs
        self._read: dict[str, tuple[Found, ...]] = {}
        self._keys: list[str] | None = None
        self._limit: int | None = None
        self.lost: dict[str, Lost] = {}
        self.kind = kind_of(span, self.by)

    @property
    def id(self) -> str:
        """The span id."""
        return self.span.span_id

    @property
    def failed(self) -> bool:
        """Whether the span says that it failed, in its status or in words of its convention."""
        if self.span.status_code == ERROR:
            return True
        level = self.read("level")
        return level is not None and level.value == "ERROR"

    @property
    def failure(self) -> str:
        """Why it failed, as far as the span says."""
        told = self.read("failure")
        kind = self.span.attributes.get("error.type")
        for text in (self.span.status_message, told.value if told is not None else None, kind):
            if isinstance(text, str) and text:
                return text
        return "error"

    @property
    def order(self) -> tuple[int, int, str]:
        """Sort key: start, then the longer span first (a parent starts with its child), then id."""
        return (self.span.start_ns, -self.span.end_ns, self.span.span_id)

    def read(self, name: str) -> Found | None:
        """The first source of field `name` that holds something, convention by convention.

        A value that was withheld is noted in `lost` and does not count as something.
        """
        found = self.read_all(name)
        return found[0] if found else None

    def read_all(self, name: str) -> tuple[Found, ...]:
        """Every source of field `name` that holds something, best first."""
        known = self._read.get(name)
        if known is None:
            places = self._places.get(name)
            if places is None:
                return ()
            known = self._read[name] = tuple(self._look(name, places))
        return known

    def text(self, name: str, reader: Callable[[Any], str | None]) -> tuple[str, Found] | None:
        """The first text that `reader` finds in a source of field `name`, and that source.

        A mark that stands for a text inside JSON or a message is noted in `lost`, as one that
        stands alone is.
        """
        for found in self.read_all(name):
            text = reader(found.value)
            # A value that is the text itself was looked at when it was read.
            why = withheld(text) if text and text is not found.value else None
            if why:
                self.lost.setdefault(name, Lost(found.key, why))
            elif text:
                return text, found
        return None

    def adopt(self, mapped: Mapping[str, str]) -> None:
        """Read the app's own attributes, `{attribute: field}`, before what the tables name."""
        adopted: set[str] = set()
        for attribute, field in mapped.items():
            if attribute not in self.span.attributes:
                continue
            place = Place("attribute", attribute, "", "", attribute, _MAPPED)
            self._places = {**self._places, field: (place, *self._places.get(field, ()))}
            adopted.add(field)
        if self.kind in {"other", "chain", "tool"}:
            kinds = (kind for field, kind in _MAPPED_KINDS.items() if field in adopted)
            self.kind = next(kinds, self.kind)

    def _look(self, name: str, places: Sequence[Place]) -> Iterator[Found]:
        for place in places:
            value, cut = self._value(place)
            if value is None or value == "":
                continue
            why = withheld(value)
            if why:
                self.lost.setdefault(name, Lost(place.says, why))
                continue
            yield Found(value, place.says, place.convention, cut or self._ends_at_limit(value))

    def _ends_at_limit(self, value: Any) -> bool:  # noqa: ANN401
        """Whether a text in `value` is as long as the span's value length limit lets it be."""
        if self._limit is None:
            self._limit = value_limit(self.span.attributes)
        return self._limit > 0 and holds_length(value, self._limit)

    def _value(self, place: Place) -> tuple[Any, bool]:
        value: Any
        match place.how:
            case "attribute":
                value = self.span.attributes.get(place.key)
            case "resource":
                value = self.span.resource.get(place.key)
            case "events":
                return self._from_events(place.key, place.path), False
            case "below":
                value = below(self.span.attributes, self._under(place.key), place.key)
            case "list":
                found = self._under(place.key)
                value = flattened(self.span.attributes, found, place.key, place.rest)
        if place.path and value is not None:
            parsed, cut = loaded(value)
            return walk(parsed, place.path), cut
        return value, False

    def _under(self, prefix: str) -> Sequence[str]:
        """The attribute names that start with `prefix`."""
        if self._keys is None:
            self._keys = sorted(self.span.attributes)
        first = bisect.bisect_left(self._keys, prefix)
        last = first
        while last < len(self._keys) and self._keys[last].startswith(prefix):
            last += 1
        return self._keys[first:last]

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
        if text in names().redacted or (text.startswith("sha256:") and _DIGEST.fullmatch(text)):
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


def below(attributes: Mapping[str, Any], keys: Sequence[str], prefix: str) -> dict[str, Any] | None:
    """The attributes `keys`, all under `prefix`, with the prefix taken off; None when there is
    none.
    """
    return {key[len(prefix) :]: attributes[key] for key in keys} or None


def flattened(
    attributes: Mapping[str, Any], keys: Sequence[str], prefix: str, rest: str
) -> dict[int, Any] | None:
    """A flattened list as `{index: element}`, from the attributes `keys`, all under `prefix`. An
    element is a mapping of the attributes below its number, or the value itself. The number is
    the rank: gaps stay, keys come in any order.
    """
    items: dict[int, Any] = {}
    split = _split if len(keys) > MANY_KEYS else _known_split
    for key, index, tail in split(tuple(keys), len(prefix), rest):
        if tail is None:
            items[index] = attributes[key]
            continue
        element = items.get(index)
        if element is None:
            element = items[index] = {}
        if isinstance(element, dict):
            element[tail] = attributes[key]
    return items or None


def _split(keys: tuple[str, ...], start: int, rest: str) -> tuple[tuple[str, int, str | None], ...]:
    """(key, number after the prefix, what follows `rest`) of those that hold both; None when
    nothing follows.
    """
    found: list[tuple[str, int, str | None]] = []
    deeper = rest + "."
    for key in keys:
        digits, dot, tail = key[start:].partition(".")
        if not digits.isascii() or not digits.isdigit() or len(digits) > 6:
            continue
        tail = dot + tail
        if tail == rest:
            found.append((key, int(digits), None))
        elif tail.startswith(deeper):
            found.append((key, int(digits), tail[len(deeper) :]))
    return tuple(found)


# Many spans have the same sets of names.
_known_split = functools.lru_cache(maxsize=2048)(_split)
