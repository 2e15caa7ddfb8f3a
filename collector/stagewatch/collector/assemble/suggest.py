"""Which of an app's own attributes to map to what: "why does my traffic give no turns?".

A proposal is made of what attributes are called and of what they hold, then followed on the same
files, so that it says itself whether it leads anywhere.
"""

from __future__ import annotations

import functools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stagewatch.collector.assemble import assemble_turns
from stagewatch.collector.assemble.documents import bare_words, chunks_of
from stagewatch.collector.assemble.report import check, load, printable
from stagewatch.collector.assemble.tables import conventions
from stagewatch.core.model import LogRow, SpanRow, Turn


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Map `attribute` to the turn field `field`; seen on `spans` spans, for example on `where`."""

    attribute: str
    field: str
    spans: int
    where: str


_HINTS: tuple[tuple[str, str], ...] = (
    ("rewritten_query", r"(rewrit|standalone|condens)\w*([._](output|query|result))?$"),
    ("conversation_id", r"(conversation|session|thread|chat)([._]?id)?$"),
    ("turn_index", r"turn([._]?(index|number|no|id))?$"),
    ("index_version", r"index[._]?version$|(kb|corpus)[._]?version$"),
    ("prompt_version", r"prompt[._]?version$"),
    ("release", r"release$|app[._]?version$|(build|commit)([._]?(sha|id|number))?$|git[._]?sha$"),
    ("user_id", r"(user|customer)([._]?id)?$"),
    ("input_tokens", r"(input|prompt)[._]?tokens$|tokens[._]in$"),
    ("output_tokens", r"(output|completion)[._]?tokens$|tokens[._]out$"),
    ("question", r"question$|user[._]?(input|message|query|prompt|text)$"),
    ("answer", r"answer$|(final|bot|assistant)[._]?(response|output|reply|message|text)$"),
    ("query", r"(search|retrieval)[._]?(text|terms?|query|string|input)$|query$"),
    ("model", r"(^|[._])(llm|model)([._]?(name|id))?$"),
    ("top_k", r"(^|[._])(top[._]?)?k$"),
    ("completion", r"(completion|(llm|model)[._]?(response|output|reply))$"),
    ("prompt", r"prompt([._]?text)?$|(^|[._])messages$"),
)
_COMPILED = tuple((field, re.compile(pattern, re.IGNORECASE)) for field, pattern in _HINTS)
_COUNTS = frozenset({"turn_index", "top_k", "input_tokens", "output_tokens"})
_RERANKED = re.compile(r"(?i)re-?rank")
_FALLBACK = (
    ("question", re.compile(r"(?i)(^|[._])(query|ask(ed)?|request|input|prompt|message|text)$")),
    ("answer", re.compile(r"(?i)(^|[._])(response|reply|output|result|completion)$")),
)
"""What a whole turn's attributes are called when nothing on its first span has a better name."""
_SECRET = re.compile(r"(?i)(secret|passw|credential|api[._]?(key|token)|auth|cookie|private)")


@functools.cache
def _known(attribute: str) -> bool:
    """True for attributes that some table reads or that OpenTelemetry itself defines."""
    for table in conventions():
        for sources in table.read.values():
            for source in sources:
                key = source.partition("#")[0].lstrip("^@%")
                stem = key.partition(".{i}")[0] if ".{i}" in key else key
                if attribute == stem or (stem != key and attribute.startswith(stem + ".")):
                    return True
                if key.endswith(".*") and attribute.startswith(key[:-1]):
                    return True
    return attribute.startswith(_STANDARD)


_STANDARD = (
    "gen_ai.",
    "llm.",
    "http.",
    "url.",
    "server.",
    "client.",
    "db.",
    "rpc.",
    "network.",
    "telemetry.",
    "exception.",
    "code.",
    "thread.",
    "messaging.",
    "user_agent.",
    "traceloop.",
    "langfuse.",
    "langsmith.",
    "openinference.",
    "embedding.",
    "reranker.",
    "stagewatch.",
    "haystack.",
    "ai.",
)


def suggest(folder: Path) -> tuple[Suggestion, ...]:
    """Attributes of the app's own that look like turn fields, at most one a field, the one on
    most spans first.

    Raises:
        InvalidInputError: nothing there could be read as OTLP.
    """
    _, spans, logs, _ = load(folder)
    read = _read_already(spans, logs)
    seen: Counter[tuple[str, str]] = Counter()
    where: dict[tuple[str, str], str] = {}
    for span in spans:
        for attribute, value, place in _own(span):
            field = _field_for(attribute, value)
            if field is not None and field not in read[span.trace_id] - _ANYWAY:
                seen[field, attribute] += 1
                where.setdefault((field, attribute), place)
    best: dict[str, Suggestion] = {}
    for (field, attribute), count in sorted(seen.items(), key=lambda item: (-item[1], item[0])):
        best.setdefault(field, Suggestion(attribute, field, count, where[field, attribute]))
    for suggestion in _of_roots(spans, best, read):
        best = {f: s for f, s in best.items() if s.attribute != suggestion.attribute}
        best[suggestion.field] = suggestion
    return tuple(sorted(best.values(), key=lambda s: (-s.spans, s.field)))


_ANYWAY = frozenset({"question", "answer", "query"})
"""The app's own words for these are better than what was put together from its model calls."""


def _read_already(spans: Sequence[SpanRow], logs: Sequence[LogRow]) -> Mapping[str, frozenset[str]]:
    """For each trace, the fields that its turns hold without a mapping."""
    spans_of: dict[str, list[SpanRow]] = defaultdict(list)
    logs_of: dict[str, list[LogRow]] = defaultdict(list)
    for span in spans:
        spans_of[span.trace_id].append(span)
    for log in logs:
        logs_of[log.trace_id].append(log)
    return {
        trace_id: frozenset().union(*map(_held, assemble_turns(own, logs_of[trace_id])))
        for trace_id, own in spans_of.items()
    }


def _held(turn: Turn) -> frozenset[str]:
    told = {
        "question": turn.question is not None,
        "answer": turn.answer is not None,
        "query": any(retrieval.query for retrieval in turn.retrievals),
        "documents": any(retrieval.chunks for retrieval in turn.retrievals),
        "top_k": any(retrieval.chunks for retrieval in turn.retrievals),
        "reranked": turn.reranked is not None,
        "model": turn.model is not None,
        "prompt": turn.model is not None,
        "completion": turn.answer is not None,
        "input_tokens": turn.usage.input_tokens is not None,
        "output_tokens": turn.usage.output_tokens is not None,
    }
    return frozenset(field for field, held in told.items() if held)


def _own(span: SpanRow) -> Iterable[tuple[str, Any, str]]:
    """(name, value, where) of the attributes of the app's own on a span and its events."""
    events = [
        (e.attributes, f"{span.name} (event {e.name})")
        for e in span.events
        if e.name not in _known_events()
    ]
    for attributes, place in [(span.attributes, span.name), *events]:
        for attribute, value in attributes.items():
            if not _known(attribute) and not _SECRET.search(attribute):
                yield attribute, value, place


@functools.cache
def _known_events() -> frozenset[str]:
    """Names of span events that some table reads."""
    sources = (s for table in conventions() for every in table.read.values() for s in every)
    read = {s.partition("#")[0][1:] for s in sources if s.startswith("@")}
    return frozenset(read).union(*(table.events for table in conventions()))


def _of_roots(
    spans: Sequence[SpanRow],
    best: Mapping[str, Suggestion],
    read: Mapping[str, frozenset[str]],
) -> list[Suggestion]:
    """Question and answer by weaker names, of first spans only, where no better name was seen."""
    ids = {span.span_id for span in spans}
    roots = [span for span in spans if span.parent_id not in ids]
    found = []
    for field, pattern in _FALLBACK:
        if field in best:
            continue
        seen: Counter[str] = Counter()
        where: dict[str, str] = {}
        bare = [span for span in roots if field not in read[span.trace_id]]
        for attribute, value, place in (own for span in bare for own in _own(span)):
            if isinstance(value, str) and value and pattern.search(attribute):
                seen[attribute] += 1
                where.setdefault(attribute, place)
        if seen:
            attribute = min(seen, key=lambda name: (-seen[name], name))
            found.append(Suggestion(attribute, field, seen[attribute], where[attribute]))
    return found


def _field_for(attribute: str, value: Any) -> str | None:  # noqa: ANN401
    if isinstance(value, (list, tuple)) or (isinstance(value, str) and value[:1] in "[{"):
        found = _documents_field(attribute, value)
        if found is not None:
            return found
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        return None
    for field, pattern in _COMPILED:
        if pattern.search(attribute):
            return field if field in _COUNTS or isinstance(value, str) else None
    return None


def _documents_field(attribute: str, value: Any) -> str | None:  # noqa: ANN401
    """Lists of passages give themselves away by what they hold, messages by their roles."""
    if bare_words(value):
        return None
    chunks = chunks_of(value)
    told = any(chunk.content for chunk in chunks) and not any("role" in c.metadata for c in chunks)
    if not told:
        return None
    return "reranked" if _RERANKED.search(attribute) else "documents"


def followed(folder: Path, suggestions: Sequence[Suggestion]) -> tuple[int, int]:
    """(turns that the files give today, turns when the proposal is followed).

    Raises:
        InvalidInputError: nothing there could be read as OTLP.
    """
    mapping = {s.attribute: s.field for s in suggestions}
    return len(check(folder).turns), len(check(folder, mapping).turns)


def suggestions_text(
    suggestions: Sequence[Suggestion], turns: tuple[int, int] | None = None
) -> str:
    """The suggestions as lines for stagewatch.toml, each with where it was seen; `turns` is what
    `followed` gives.
    """
    if not suggestions:
        return "nothing to map: every attribute that looks like a turn field is read already"
    lines = ["[attribute_map]"]
    lines += [
        f'{_toml_key(s.attribute)} = "{s.field}"  # on {s.spans} spans, e.g. {s.where}'
        for s in suggestions
    ]
    if turns is not None:
        lines.append(f"# these files give {turns[0]} turns; with this mapping {turns[1]}")
    return "\n".join(printable(line) for line in lines)


def _toml_key(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
