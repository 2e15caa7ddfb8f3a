"""What a folder of OTLP files assembles to, field by field: "does stagewatch read what my app
sends?". Works on files of any emitter; traces that give no turn are listed with the reason.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stagewatch.collector.assemble import assemble_turns, why_turnless
from stagewatch.collector.assemble.otlp_file import read_otlp_file
from stagewatch.collector.assemble.sight import recognise
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
    """A whole folder. `unread` are files that are no OTLP, with the reason; `turnless` are the
    traces that gave no turn: (why, how many, the id of one); `strangers` counts spans by scope that
    no table knows.
    """

    files: int
    spans: int
    logs: int
    traces: int
    turns: tuple[TurnReport, ...]
    turnless: tuple[tuple[str, int, str], ...]
    unread: tuple[tuple[str, str], ...]
    strangers: tuple[tuple[str, int], ...]


def check(folder: Path, attribute_map: Mapping[str, str] | None = None) -> Report:
    """What the OTLP files in `folder` (or the one file) assemble to.

    Raises:
        InvalidInputError: nothing there could be read as OTLP.
    """
    files, spans, logs, unread = load(folder)
    logs_of: dict[str, list[LogRow]] = defaultdict(list)
    for log in logs:
        logs_of[log.trace_id].append(log)
    by_trace = _by_trace(spans)
    reports: list[TurnReport] = []
    turnless: dict[str, list[str]] = defaultdict(list)
    for trace_id in sorted(by_trace, key=lambda t: min(s.start_ns for s in by_trace[t])):
        own, own_logs = by_trace[trace_id], logs_of.get(trace_id, ())
        turns = assemble_turns(own, own_logs, attribute_map=attribute_map)
        reports += [_turn_report(turn, own) for turn in turns]
        if not turns:
            why = why_turnless(own, own_logs, attribute_map=attribute_map)
            turnless[why].append(trace_id)
    return Report(
        files=files,
        spans=len(spans),
        logs=len(logs),
        traces=len(by_trace),
        turns=tuple(reports),
        turnless=tuple((why, len(ids), ids[0]) for why, ids in sorted(turnless.items())),
        unread=tuple(unread),
        strangers=tuple(_strangers(spans, attribute_map or {}).most_common()),
    )


def load(
    folder: Path,
) -> tuple[int, list[SpanRow], list[LogRow], list[tuple[str, str]]]:
    """(files read, spans, log records, what could not be read and why) of a folder or a file.

    Raises:
        InvalidInputError: nothing there could be read as OTLP.
    """
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


def _strangers(spans: Sequence[SpanRow], attribute_map: Mapping[str, str]) -> Counter[str]:
    return Counter(
        span.scope_name or "(no scope)"
        for span in spans
        if all(table.always for table in recognise(span))
        and attribute_map.keys().isdisjoint(span.attributes)
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
        by = ", ".join(turn.conventions) or "mapped attributes alone"
        lines.append("")
        lines.append(f"turn {turn.turn_id}  ({by}{'' if turn.complete else '; incomplete'})")
        width = max(len(row.field) for row in turn.fields)
        for row in turn.fields:
            shown = row.value or "-"
            source = f"  <- {row.source}" if row.source else ""
            lines.append(f"  {row.field:{width}}  {row.state:12}  {shown}{source}")
    if report.turnless:
        lines.append("")
        lines.append("traces that give no turn, by reason:")
        lines += [f"  {n:6}  {why}  (e.g. {example})" for why, n, example in report.turnless]
    if report.strangers:
        lines.append("")
        lines.append("spans of no known convention, by scope:")
        lines += [f"  {count:6}  {scope}" for scope, count in report.strangers]
    return "\n".join(printable(line) for line in lines)


def printable(line: str) -> str:
    """`line` without what a terminal would obey."""
    return "".join(letter if letter.isprintable() else "�" for letter in line)
