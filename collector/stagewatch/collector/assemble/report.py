"""What a folder of OTLP files assembles to, field by field, and which attributes to map.

`check` answers "does stagewatch read what my app sends?"; `suggest` answers "which of my own
attribute names should I map?". Both work on files of any emitter.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stagewatch.collector.assemble import assemble_turns
from stagewatch.collector.assemble.otlp_file import read_otlp_file
from stagewatch.collector.assemble.steps import recognise
from stagewatch.collector.assemble.tables import conventions
from stagewatch.core.errors import InvalidInputError
from stagewatch.core.model import LogRow, SpanRow, Turn

_NOT_OTLP = frozenset({"requests.json", "expected.json"})
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class FieldRow:
    """One field of one turn: `state` is found, absent or why it is missing; `source` is
    `span name :: key`.
    """

    field: str
    state: str
    value: str
    source: str


@dataclass(frozen=True, slots=True)
class TurnReport:
    """One assembled turn."""

    turn_id: str
    conventions: tuple[str, ...]
    complete: bool
    fields: tuple[FieldRow, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """A whole folder. `unread` are files that are no OTLP, with the reason; `strangers` counts
    spans by scope that no table knows.
    """

    files: int
    spans: int
    logs: int
    traces: int
    turns: tuple[TurnReport, ...]
    unread: tuple[tuple[str, str], ...]
    strangers: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Map `attribute` to the turn field `field`; seen on `spans` spans, for example on `where`."""

    attribute: str
    field: str
    spans: int
    where: str


def check(folder: Path, attribute_map: Mapping[str, str] | None = None) -> Report:
    """What the OTLP files in `folder` (or the one file) assemble to.

    Raises:
        InvalidInputError: nothing there could be read as OTLP.
    """
    files, spans, logs, unread = _load(folder)
    logs_of: dict[str, list[LogRow]] = defaultdict(list)
    for log in logs:
        logs_of[log.trace_id].append(log)
    by_trace = _by_trace(spans)
    reports = [
        _turn_report(turn, by_trace[trace_id])
        for trace_id in sorted(by_trace, key=lambda t: min(s.start_ns for s in by_trace[t]))
        for turn in assemble_turns(
            by_trace[trace_id], logs_of.get(trace_id, ()), attribute_map=attribute_map
        )
    ]
    return Report(
        files=files,
        spans=len(spans),
        logs=len(logs),
        traces=len(by_trace),
        turns=tuple(reports),
        unread=tuple(unread),
        strangers=tuple(_strangers(spans).most_common()),
    )


def _load(
    folder: Path,
) -> tuple[int, list[SpanRow], list[LogRow], list[tuple[str, str]]]:
    paths = [folder] if folder.is_file() else sorted(_otlp_files(folder))
    spans: list[SpanRow] = []
    logs: list[LogRow] = []
    unread: list[tuple[str, str]] = []
    for path in paths:
        try:
            more_spans, more_logs = read_otlp_file(path)
        except InvalidInputError as error:
            unread.append((str(path), str(error)))
            continue
        spans += more_spans
        logs += more_logs
    if not spans and not logs:
        why = f": {unread[0][1]}" if unread else ""
        raise InvalidInputError(f"no OTLP spans in {folder} (.pb or .json){why}")
    return len(paths) - len(unread), spans, logs, unread


def _otlp_files(folder: Path) -> Iterable[Path]:
    for pattern in ("*.pb", "*.json", "*.pb.gz", "*.json.gz"):
        for path in folder.rglob(pattern):
            if path.name in _NOT_OTLP:
                continue
            # A capture may hold the same body in both encodings: the protobuf one is enough.
            if path.suffix == ".json" and path.with_suffix(".pb").exists():
                continue
            yield path


def _by_trace(spans: Sequence[SpanRow]) -> dict[str, list[SpanRow]]:
    found: dict[str, list[SpanRow]] = defaultdict(list)
    for span in spans:
        found[span.trace_id].append(span)
    return found


def _strangers(spans: Sequence[SpanRow]) -> Counter[str]:
    return Counter(
        span.scope_name or "(no scope)"
        for span in spans
        if all(table.always for table in recognise(span))
    )


# -- one turn --------------------------------------------------------------------------------


def _turn_report(turn: Turn, spans: Sequence[SpanRow]) -> TurnReport:
    names = {span.span_id: span.name for span in spans}
    source_of = {
        source.field: f"{names.get(source.span_id, '?')} :: {source.key}" for source in turn.sources
    }
    why_of = {missing.field: missing.why for missing in turn.missing}
    rows = []
    for field, value in _values(turn):
        source = source_of.get(field, "")
        missing = why_of.get(field)
        state = missing or ("found" if value else "absent")
        rows.append(FieldRow(field, state, value, source))
    listed = {row.field for row in rows}
    rows += [
        FieldRow(missing.field, missing.why, "", "")
        for missing in turn.missing
        if missing.field not in listed
    ]
    return TurnReport(turn.turn_id, turn.conventions, turn.complete, tuple(rows))


def _values(turn: Turn) -> Iterable[tuple[str, str]]:
    for field in (
        "question",
        "rewritten_query",
        "answer",
        "conversation_id",
        "turn_index",
        "user_id",
        "request_model",
        "response_model",
        "release",
        "index_version",
        "prompt_version",
        "environment",
        "error",
    ):
        yield field, _short(getattr(turn, field))
    yield "history", f"{len(turn.history)} messages" if turn.history else ""
    yield "usage.input_tokens", _short(turn.usage.input_tokens)
    yield "usage.output_tokens", _short(turn.usage.output_tokens)
    if not turn.retrievals:
        yield "retrievals", ""
    for at, retrieval in enumerate(turn.retrievals):
        yield f"retrievals[{at}].query", _short(retrieval.query)
        yield f"retrievals[{at}]", _list(retrieval.chunks)
    yield "reranked", _list(turn.reranked or ())
    yield "window", _list(turn.window) + (f" by {turn.window_source}" if turn.window else "")
    yield "tags", _short(", ".join(f"{k}={v}" for k, v in turn.tags.items()))


def _list(chunks: Sequence[Any]) -> str:
    if not chunks:
        return ""
    parts = [f"{len(chunks)} chunks"]
    for name, what in (("chunk_id", "ids"), ("content", "text"), ("score", "scores")):
        if any(getattr(chunk, name) not in {None, ""} for chunk in chunks):
            parts.append(what)
    return ", ".join(parts)


def _short(value: Any) -> str:  # noqa: ANN401
    if value is None:
        return ""
    text = " ".join(str(value).split())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def report_text(report: Report) -> str:
    """The report as a table for a terminal; control characters of the content are taken out."""
    read = f"{report.files} files, {report.spans} spans, {report.logs} log records"
    lines = [f"{read}, {report.traces} traces, {len(report.turns)} turns"]
    lines += [f"not read: {why}" for _, why in report.unread]
    for turn in report.turns:
        by = ", ".join(turn.conventions) or "no known convention"
        lines.append("")
        lines.append(f"turn {turn.turn_id}  ({by}{'' if turn.complete else '; incomplete'})")
        width = max(len(row.field) for row in turn.fields)
        for row in turn.fields:
            shown = row.value or "-"
            source = f"  <- {row.source}" if row.source else ""
            lines.append(f"  {row.field:{width}}  {row.state:12}  {shown}{source}")
    if report.strangers:
        lines.append("")
        lines.append("spans of no known convention, by scope:")
        lines += [f"  {count:6}  {scope}" for scope, count in report.strangers]
    return "\n".join(_printable(line) for line in lines)


def _printable(line: str) -> str:
    return "".join(letter if letter.isprintable() else "�" for letter in line)


# -- suggestions -----------------------------------------------------------------------------

_HINTS: tuple[tuple[str, str], ...] = (
    ("rewritten_query", r"(rewrit|standalone|condens)\w*([._](output|query|result))?$"),
    ("conversation_id", r"(conversation|session|thread|chat)([._]?id)?$"),
    ("turn_index", r"turn([._]?(index|number|no|id))?$"),
    ("index_version", r"index[._]?version$|(kb|corpus)[._]?version$"),
    ("prompt_version", r"prompt[._]?version$"),
    ("release", r"release$|app[._]?version$|build$"),
    ("user_id", r"(user|customer)([._]?id)?$"),
    ("question", r"question$|user[._]?(input|message|query)$"),
    ("answer", r"answer$|(final|bot)[._]?(response|output|reply|message)$"),
    ("query", r"(search[._]?)?query$"),
)
_COMPILED = tuple((field, re.compile(pattern, re.IGNORECASE)) for field, pattern in _HINTS)


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
    "haystack.",
    "ai.",
)


def suggest(folder: Path) -> tuple[Suggestion, ...]:
    """Attributes of the app's own that look like turn fields, at most one a field, the one on
    most spans first.

    Raises:
        InvalidInputError: nothing there could be read as OTLP.
    """
    _, spans, _, _ = _load(folder)
    seen: Counter[tuple[str, str]] = Counter()
    where: dict[tuple[str, str], str] = {}
    for span in spans:
        events = [(e.attributes, f"{span.name} (event {e.name})") for e in span.events]
        for attributes, place in [(span.attributes, span.name), *events]:
            for attribute, value in attributes.items():
                field = _field_for(attribute, value)
                if field is not None:
                    seen[field, attribute] += 1
                    where.setdefault((field, attribute), place)
    best: dict[str, Suggestion] = {}
    for (field, attribute), count in sorted(seen.items(), key=lambda item: (-item[1], item[0])):
        best.setdefault(field, Suggestion(attribute, field, count, where[field, attribute]))
    return tuple(sorted(best.values(), key=lambda s: (-s.spans, s.field)))


def _field_for(attribute: str, value: Any) -> str | None:  # noqa: ANN401
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        return None
    if _known(attribute):
        return None
    for field, pattern in _COMPILED:
        if pattern.search(attribute):
            return field if field == "turn_index" or isinstance(value, str) else None
    return None


def suggestions_text(suggestions: Sequence[Suggestion]) -> str:
    """The suggestions as lines for stagewatch.toml, each with where it was seen."""
    if not suggestions:
        return "nothing to map: every attribute that looks like a turn field is read already"
    lines = ["[attribute_map]"]
    lines += [
        f'{_toml_key(s.attribute)} = "{s.field}"  # on {s.spans} spans, e.g. {s.where}'
        for s in suggestions
    ]
    return "\n".join(_printable(line) for line in lines)


def _toml_key(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
