"""Results for machines and people: JUnit XML, GitHub annotations, Markdown, terminals. Pure.

Questions are a stranger's text: escaped everywhere, and left out of annotations, which end up
in build logs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape, quoteattr

from stagewatch.scorer.plans.diff import Diff
from stagewatch.scorer.plans.gate import BlockedRow, ConditionResult, GateResult
from stagewatch.scorer.plans.results import RowSummary, Run
from stagewatch.scorer.plans.tally import MetricTally

# What XML 1.0 cannot hold (section 2.2, Char).
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+\-.!|<>&~@:])")
_ROWS_SHOWN = 50

OUTCOME_WORDS: Mapping[str, str] = {
    "pass": "pass",
    "blocked": "BLOCKED",
    "cannot_tell": "cannot tell",
}


def junit_xml(result: GateResult) -> str:
    """One test case a condition: a failure when it blocked, an error when it cannot tell."""
    blocked = sum(c.outcome == "blocked" for c in result.conditions)
    unsure = sum(c.outcome == "cannot_tell" for c in result.conditions)
    cases = "\n".join(_case(condition) for condition in result.conditions)
    counts = f'tests="{len(result.conditions)}" failures="{blocked}" errors="{unsure}"'
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<testsuites {counts}>\n<testsuite name="stagewatch gate" {counts} skipped="0">\n'
        f"{cases}\n</testsuite>\n</testsuites>\n"
    )


def _case(condition: ConditionResult) -> str:
    name = quoteattr(_clean(condition.name))
    opening = f'  <testcase classname="stagewatch.gate" name={name}'
    if condition.outcome == "pass":
        return f"{opening}/>"
    tag = "failure" if condition.outcome == "blocked" else "error"
    body = escape(_clean("\n".join([condition.sentence, *map(_row_line, condition.details)])))
    message = quoteattr(_clean(condition.sentence))
    return (
        f"{opening}>\n    <{tag} type={quoteattr(condition.basis)} message={message}>"
        f"{body}</{tag}>\n  </testcase>"
    )


def _row_line(row: BlockedRow) -> str:
    return f"{row.row_id} [{row.kind}] stage {row.stage}: {row.question} ({row.why})"


def _clean(text: str) -> str:
    return _NOT_XML.sub("�", text)


def github_annotations(result: GateResult) -> str:
    """Workflow commands that mark the build; row ids and stages only."""
    lines = []
    for condition in result.conditions:
        if condition.outcome == "pass":
            continue
        level = "error" if condition.outcome == "blocked" else "warning"
        rows = ", ".join(f"{row.row_id} ({row.stage})" for row in condition.details[:_ROWS_SHOWN])
        message = condition.sentence + (f". Rows: {rows}" if rows else "")
        lines.append(f"::{level} title={_property(condition.name)}::{_message(message)}")
    return "\n".join(lines)


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")


def markdown(result: GateResult) -> str:
    """A summary for a pull request or a job page."""
    head = f"## stagewatch gate: {OUTCOME_WORDS[result.outcome]}"
    about = (
        f"{result.common} rows in both runs; baseline `{result.baseline}`, "
        f"candidate `{result.candidate}`."
    )
    if result.waiting:
        about += f" {result.waiting} rows wait for a second person and did not count."
    table = ["| condition | outcome | basis | |", "|---|---|---|---|"]
    table += [
        f"| {_md(c.name)} | {OUTCOME_WORDS[c.outcome]} | {c.basis} | {_md(c.sentence)} |"
        for c in result.conditions
    ]
    parts = [head, about, "\n".join(table)]
    parts += [_rows_table(c) for c in result.conditions if c.details]
    if result.warnings:
        parts.append("\n".join(f"- {_md(text)}" for text in result.warnings))
    return "\n\n".join(parts) + "\n"


def _rows_table(condition: ConditionResult) -> str:
    lines = [f"**{_md(condition.name)}**", "", "| row | kind | stage | question | why |",
             "|---|---|---|---|---|"]  # fmt: skip
    for row in condition.details[:_ROWS_SHOWN]:
        cells = (row.row_id, row.kind, row.stage, row.question, row.why)
        lines.append("| " + " | ".join(_md(cell) for cell in cells) + " |")
    left = len(condition.details) - _ROWS_SHOWN
    return "\n".join([*lines, *([f"… and {left} more"] if left > 0 else [])])


def _md(text: str) -> str:
    flat = " ".join(_clean(text).split())
    return _MARKDOWN.sub(r"\\\1", flat)


def plain_text(result: GateResult) -> str:
    """The result for a terminal."""
    lines = [f"gate: {OUTCOME_WORDS[result.outcome]}  ({result.common} rows in both runs)"]
    marks = {"pass": "✓", "blocked": "✗", "cannot_tell": "?"}
    for condition in result.conditions:
        lines.append(f"  {marks[condition.outcome]} {condition.name}: {condition.sentence}")
        lines += [
            f"      {row.row_id}  {row.kind}  {row.stage}  {row.question[:70]}"
            for row in condition.details[:_ROWS_SHOWN]
        ]
    if result.waiting:
        lines.append(
            f"  {result.waiting} rows wait for a second person and did not count "
            "(gate.require_second_reviewer)"
        )
    lines += [f"  note: {text}" for text in result.warnings]
    return "\n".join(lines)


def run_text(run: Run, rows: Sequence[RowSummary], metrics: Sequence[MetricTally]) -> str:
    """A run for a terminal: no headline, one line a metric, then the rows that did not pass."""
    counts = run.counts
    lines = [
        f"run {run.run_id}: {run.state}, {run.rows} rows of {run.dataset}"
        + (f" v{run.version}" if run.version else "")
        + f": {counts.get('pass', 0)} pass, {counts.get('fail', 0)} fail, "
        f"{counts.get('errored', 0)} errored"
    ]
    lines += [f"  ! {run.note}"] if run.note else []
    for item in metrics:
        if item.pass_rate is None or item.low is None or item.high is None:
            continue
        mean = f"  mean {item.mean:.3f}" if item.mean is not None else ""
        lost = f"  unscored {item.unscored}" if item.unscored else ""
        lines.append(
            f"  {item.metric:<26} {item.pass_rate:>6.1%}  {item.passed}/{item.judged}"
            f"  (95 %: {item.low:.0%} to {item.high:.0%}){mean}{lost}"
        )
    bad = [row for row in rows if row.verdict != "pass"]
    for row in bad[:_ROWS_SHOWN]:
        said = row.error or f"{row.stage}: {row.why}"
        lines.append(f"  {row.verdict:<8} {row.row_id}  {row.kind}  {row.question[:60]}  {said}")
    if len(bad) > _ROWS_SHOWN:
        lines.append(f"  … and {len(bad) - _ROWS_SHOWN} more")
    return "\n".join(lines)


def diff_text(diff: Diff) -> str:
    """A diff for a terminal."""
    lines = [f"{diff.common} rows in both runs", diff.sentence]
    lines += [f"  note: {text}" for text in diff.warnings]
    for item in diff.metrics:
        if item.mean is not None and (item.mean.change or item.mean.clear):
            change = item.mean
            lines.append(
                f"  {item.metric:<26} {change.before:.3f} → {change.after:.3f}  "
                f"{change.change:+.3f} (95 %: {change.low:+.3f} to {change.high:+.3f})"
            )
        if item.passes is not None and (item.passes.mended or item.passes.broken):
            flips = item.passes
            lines.append(
                f"  {item.metric:<26} {flips.mended} mended, {flips.broken} broken, pass rate "
                f"{flips.change:+.1%} (95 %: {flips.low:+.1%} to {flips.high:+.1%}), "
                f"p {flips.p:.3g}"
            )
    for kind, rows in diff.flipped.items():
        lines.append(f"  {kind}:")
        lines += [
            f"    {row.before} → {row.after}  {row.stage_before} → {row.stage_after}  "
            f"{row.row_id}  {row.question[:60]}"
            for row in rows[:_ROWS_SHOWN]
        ]
    lines += [f"  hint: {text}" for text in diff.hints]
    return "\n".join(lines)
