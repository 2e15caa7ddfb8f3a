"""What is known about one turn beside its stages, and the books: sources, losses, completeness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stagewatch.collector.assemble.lenient import loaded
from stagewatch.collector.assemble.shapes import scalar_text
from stagewatch.collector.assemble.steps import Found, Step, withheld
from stagewatch.collector.assemble.tables import names
from stagewatch.collector.assemble.tree import Group
from stagewatch.core.model import Chunk, Missing, Source

_SYNONYMS = {
    "user_question": "question",
    "turn": "turn_index",
    "retrieval_query": "query",
    "session_id": "conversation_id",
}
_MAX_TAG = 512


class Facts:
    """Reads turn-level fields from the root, then around it, then from any step, then the
    resource; writes down where each came from and what was lost.
    """

    def __init__(self, group: Group, attribute_map: Mapping[str, str]) -> None:
        self.group = group
        self._map: dict[str, list[str]] = {}
        for attribute, field in attribute_map.items():
            self._map.setdefault(_SYNONYMS.get(field, field), []).append(attribute)
        self._sources: dict[str, Source] = {}
        self._missing: dict[str, str] = {}
        self._conventions: dict[str, int] = {}
        self._complete = group.root is not None
        self._metadata: list[tuple[Step, Found, Mapping[str, Any]]] | None = None
        self._readers = [
            *([group.root] if group.root is not None else ()),
            *group.ancestors,
            *(step for step in group.steps if step is not group.root),
        ]

    # -- books -------------------------------------------------------------------------------

    def note(self, field: str, step: Step, key: str, convention: str, *, cut: bool = False) -> None:
        """Write down that `field` came from `key` of `step`."""
        self._sources.setdefault(field, Source(field, step.id, key))
        for table in step.by:
            if table.name == convention and not table.always:
                self._conventions[table.name] = table.order
        if cut or self._says_cut(step, f"{key}:"):
            self._missing.setdefault(field, "truncated")
            self._complete = False

    def _says_cut(self, step: Step, prefix: str) -> bool:
        told = step.read("cut")
        if told is None or not isinstance(told.value, (list, tuple)):
            return False
        return any(isinstance(item, str) and item.startswith(prefix) for item in told.value)

    def lack(self, field: str, steps: Sequence[Step | None], reads: Sequence[str]) -> None:
        """Say why `field` is missing: redacted or dropped if `steps` show it, else not captured."""
        if field in self._missing:
            return
        why = "not_captured"
        for step in steps:
            if step is None:
                continue
            if any(name in step.lost for name in reads):
                why = "redacted"
                break
            told = step.read("redacted")
            if told is not None and isinstance(told.value, (list, tuple)) and told.value:
                why = "redacted"
                break
            if step.span.dropped_attributes > 0:
                why = "dropped"
        self._missing[field] = why
        if why == "dropped":
            self._complete = False

    def fail(self, field: str) -> None:
        """Say that `field` is missing because its step failed, and the turn went on."""
        self._missing.setdefault(field, "failed")

    def check_documents(
        self, field: str, step: Step, chunks: Sequence[Chunk], found: Found | None
    ) -> None:
        """Note what a document list lost: cut JSON, dropped attributes, texts withheld or cut."""
        if found is not None and (
            found.cut or loaded(found.value)[1] or self._says_cut(step, f"{found.key}:")
        ):
            self._missing[field] = "truncated"
            self._complete = False
        gaps = bool(chunks) and [c.rank for c in chunks] != list(range(1, len(chunks) + 1))
        if step.span.dropped_attributes > 0 and (gaps or not chunks):
            self._missing[field] = "dropped"
            self._complete = False
        if found is not None and self._says_cut(step, f"{found.key}["):
            self._missing.setdefault(f"{field}.content", "truncated")
        if any(withheld(chunk.content) for chunk in chunks):
            self._missing.setdefault(f"{field}.content", "redacted")

    def missing(self) -> tuple[Missing, ...]:
        """What the telemetry does not hold, by field name."""
        return tuple(Missing(field, why) for field, why in sorted(self._missing.items()))

    def sources(self) -> tuple[Source, ...]:
        """Where each field came from, by field name."""
        return tuple(source for _, source in sorted(self._sources.items()))

    def conventions(self) -> tuple[str, ...]:
        """The conventions that fields were read by, most specific first."""
        return tuple(sorted(self._conventions, key=lambda name: (self._conventions[name], name)))

    def complete(self) -> bool:
        """False when something that was sent did not arrive whole."""
        return self._complete

    # -- the user's own attribute names ------------------------------------------------------

    def mapped(self, field: str) -> str | None:
        """The value of the first mapped attribute of `field` on any span or event of the turn."""
        if field not in self._map:
            return None
        for step in self._readers:
            value = self.mapped_at(field, step)
            if value is not None:
                return value
        return None

    def mapped_at(self, field: str, step: Step) -> str | None:
        """The same on one span only; its source is written down."""
        for attribute in self._map.get(field, ()):
            value = step.span.attributes.get(attribute)
            if value is None:
                value = next(
                    (
                        e.attributes[attribute]
                        for e in step.span.events
                        if attribute in e.attributes
                    ),
                    None,
                )
            text = _text(value)
            if text is not None:
                self._sources.setdefault(field, Source(field, step.id, attribute))
                return text
        return None

    # -- turn-level fields -------------------------------------------------------------------

    def text(self, field: str) -> str | None:
        """A turn-level field as text."""
        mapped = self.mapped(field)
        if mapped is not None:
            return mapped
        found = [(step, found) for step in self._readers for found in step.read_all(field)]
        # The catch-all table and the resource say less than what the app put on the turn itself.
        strong = [pair for pair in found if pair[1].convention != "any"]
        text = self._first_text(field, strong)
        if text is None:
            text = self._from_metadata(field)
        if text is None and len(strong) < len(found):
            text = self._first_text(field, [p for p in found if p[1].convention == "any"])
        return text

    def _first_text(self, field: str, pairs: Sequence[tuple[Step, Found]]) -> str | None:
        for step, found in pairs:
            text = _text(found.value)
            if text is not None:
                self.note(field, step, found.key, found.convention)
                return text
        return None

    def integer(self, field: str) -> int | None:
        """A turn-level field as a positive whole number."""
        text = self.text(field)
        if text is None or not text.isascii() or not text.isdigit() or len(text) > 9:
            return None
        return int(text)

    def boolean(self, field: str) -> bool | None:
        """A turn-level field as a yes or no."""
        text = self.text(field)
        return None if text is None else {"true": True, "false": False}.get(text.lower())

    def _bags(self) -> list[tuple[Step, Found, Mapping[str, Any]]]:
        if self._metadata is None:
            self._metadata = []
            for step in self._readers:
                for found in step.read_all("metadata"):
                    bag = loaded(found.value)[0]
                    if isinstance(bag, Mapping):
                        self._metadata.append((step, found, bag))
        return self._metadata

    def _from_metadata(self, field: str) -> str | None:
        keys = names().metadata.get(field, ())
        if not keys:
            return None
        for step, found, bag in self._bags():
            for key in keys:
                text = _text(bag.get(key))
                if text is not None:
                    self.note(field, step, f"{found.key}:{key}", found.convention)
                    return text
        return None

    def tags(self) -> dict[str, str]:
        """Free tags: the app's own, mapped ones, labels, metadata without its own field."""
        tags: dict[str, str] = {}
        known = {key for keys in names().metadata.values() for key in keys}
        for step in self._readers:
            for name in ("tags", "labels"):
                found = step.read(name)
                if found is not None:
                    _collect(tags, found.value, name)
        for _, _, bag in self._bags():
            for key, value in bag.items():
                if key in known or any(pattern.search(str(key)) for pattern in names().skip):
                    continue
                text = _text(value)
                if text is not None and len(text) <= _MAX_TAG:
                    tags.setdefault(str(key), text)
        for field in self._map:
            if field.startswith("tags."):
                text = self.mapped(field)
                if text is not None:
                    tags[field.removeprefix("tags.")] = text
        return dict(sorted(tags.items()))


def _collect(tags: dict[str, str], value: Any, name: str) -> None:  # noqa: ANN401
    value = loaded(value)[0]
    if isinstance(value, Mapping):
        for key, inner in value.items():
            text = _text(inner)
            if text is not None:
                tags.setdefault(str(key), text)
    elif isinstance(value, (list, tuple)):
        words = [item for item in value if isinstance(item, str)]
        if words:
            tags.setdefault("tags", ",".join(words))
    elif isinstance(value, str) and name == "labels":
        tags.setdefault("tags", value)


def _text(value: Any) -> str | None:  # noqa: ANN401
    return None if withheld(value) else scalar_text(value)
