"""The rules a gate condition may use, each over rows that count. Pure.

A rule says what it found by basis: what gold labels or rules show is firm, what a judge says is
kept apart, and what no run can tell is unknown. The gate weighs the three.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stagewatch.core.model import Basis
from stagewatch.scorer.plans.pairs import pass_change
from stagewatch.scorer.plans.results import RowSummary, ScoreLine
from stagewatch.scorer.plans.words import improvement

CALIBRATION_NEEDS = "the judge is not calibrated, or not the same in both runs"

STAND_INS: Mapping[str, tuple[str, ...]] = {
    "context_recall": ("context_sufficiency",),
    "context_precision_at_k": ("context_precision",),
    "refusal": ("faithfulness",),
}
"""What speaks for a metric on rows where it has no value: recall without needs, precision of a
context without ranks, a refusal that was not read."""

_TOLERANCE = 1e-9

Pair = tuple[RowSummary, RowSummary]


@dataclass(frozen=True, slots=True)
class Finding:
    """A row that a rule points at, with the metric's value before and now; None is a miss."""

    row: RowSummary
    before: float | None
    after: float | None


@dataclass(slots=True)
class Verdicts:
    """What a rule found. `judged_metrics` are those that it had to take from a judge."""

    firm: list[Finding] = field(default_factory=list)
    judged: list[Finding] = field(default_factory=list)
    judged_seen: list[Finding] = field(default_factory=list)
    unknown: list[Finding] = field(default_factory=list)
    judged_metrics: list[str] = field(default_factory=list)
    basis: Basis = "gold"
    firm_says: str = ""
    judged_says: str = ""
    unknown_says: str = ""
    pass_says: str = ""
    empty: bool = False

    def see_judge(self, metric: str, finding: Finding) -> None:
        """Remember that a judge was needed."""
        self.judged_seen.append(finding)
        if metric not in self.judged_metrics:
            self.judged_metrics.append(metric)


def _lines(metric: str, pair: Pair) -> tuple[str, ScoreLine, ScoreLine | None] | None:
    """The metric (or its stand-in) that the first run has a value of, and both its lines."""
    a, b = pair
    for name in (metric, *STAND_INS.get(metric, ())):
        before = a.scores.get(name)
        if before is not None and before.status == "scored":
            return name, before, b.scores.get(name)
    return None


def no_drop(metric: str, pairs: Sequence[Pair]) -> Verdicts:
    """No row may be worse than it was."""
    found = Verdicts()
    seen = 0
    for pair in pairs:
        lines = _lines(metric, pair)
        if lines is None:
            continue
        seen += 1
        name, before, after = lines
        if after is None or after.status != "scored":
            found.unknown.append(Finding(pair[1], before.value, None))
            continue
        finding = Finding(pair[1], before.value, after.value)
        worse = improvement(name, before, after) < -_TOLERANCE
        if "judge" in {before.basis, after.basis}:
            found.see_judge(name, finding)
            if worse:
                found.judged.append(finding)
        elif worse:
            found.firm.append(finding)
    found.empty = seen == 0
    found.firm_says = _dropped(metric, found.firm, seen)
    found.judged_says = _dropped(metric, found.judged, seen)
    found.unknown_says = f"{len(found.unknown)} of {seen} rows have no {metric} now"
    found.pass_says = f"{metric} fell on none of {seen} rows"
    return found


def _dropped(metric: str, findings: Sequence[Finding], seen: int) -> str:
    stages = ", ".join(sorted({finding.row.stage.replace("_", " ") for finding in findings}))
    said = f"{metric} fell on {len(findings)} of {seen} rows"
    return f"{said} (stage: {stages})" if findings else said


def _passes(
    metric: str, rows: Sequence[RowSummary]
) -> tuple[list[tuple[RowSummary, str, ScoreLine]], list[RowSummary]]:
    """Rows with a verdict of the metric or its stand-in, and rows that should have one."""
    told, unknown = [], []
    for row in rows:
        names = (metric, *STAND_INS.get(metric, ()))
        scored = next(
            ((name, row.scores[name]) for name in names
             if name in row.scores and row.scores[name].verdict),
            None,
        )  # fmt: skip
        if scored is not None:
            told.append((row, *scored))
        elif row.verdict == "errored" or any(
            name in row.scores and row.scores[name].status == "unscored" for name in names
        ):
            unknown.append(row)
    return told, unknown


def _counted(metric: str, rows: Sequence[RowSummary], limit: float, *, hard: bool) -> Verdicts:
    told, unknown = _passes(metric, rows)
    found = Verdicts(empty=not told and not unknown)
    for row, name, line in told:
        finding = Finding(row, None, line.value)
        bad = line.hard_fail if hard else line.verdict == "fail"
        if line.basis == "judge":
            found.see_judge(name, finding)
            if bad:
                found.judged.append(finding)
        elif bad:
            found.firm.append(finding)
    word = "hard fails" if hard else "fails"
    n = len(told) + len(unknown)
    firm, judged = len(found.firm), len(found.judged)
    found.unknown = [Finding(row, None, None) for row in unknown]
    found.firm_says = f"{firm} {word} of {metric} on {n} rows, {limit:g} allowed"
    found.judged_says = f"{firm + judged} {word} of {metric} on {n} rows, {limit:g} allowed"
    found.unknown_says = f"{len(unknown)} of {n} rows have no {metric}, {firm} {word} on the rest"
    found.pass_says = f"{firm + judged} {word} of {metric} on {n} rows, {limit:g} allowed"
    if firm <= limit:
        found.firm = []
    if firm + judged <= limit:
        found.judged = []
    if firm + judged + len(unknown) <= limit:
        found.unknown = []
    return found


def max_fails(metric: str, rows: Sequence[RowSummary], limit: float) -> Verdicts:
    """At most `limit` rows fail the metric."""
    return _counted(metric, rows, limit, hard=False)


def hard_fails(metric: str, rows: Sequence[RowSummary], limit: float) -> Verdicts:
    """At most `limit` rows fail the metric outright."""
    return _counted(metric, rows, limit, hard=True)


def min_pass_rate(metric: str, rows: Sequence[RowSummary], limit: float) -> Verdicts:
    """At least the share `limit` passes, whatever the rows without a value would have said."""
    told, unknown = _passes(metric, rows)
    n = len(told) + len(unknown)
    found = Verdicts(empty=n == 0)
    passing = sum(line.verdict == "pass" for _, _, line in told)
    failing = [Finding(row, None, line.value) for row, _, line in told if line.verdict == "fail"]
    says = f"{passing} of {n} rows pass {metric}, {limit:.0%} wanted"
    found.firm_says = found.judged_says = found.pass_says = says
    found.unknown_says = f"{says}; {len(unknown)} have no value"
    _note_judges(found, told)
    if n and (passing + len(unknown)) / n < limit - _TOLERANCE:
        _put(found, failing)
    elif n and passing / n < limit - _TOLERANCE:
        found.unknown = [Finding(row, None, None) for row in unknown]
    return found


def non_inferior(metric: str, pairs: Sequence[Pair], margin: float) -> Verdicts:
    """The pass rate fell by no more than `margin`: shown, refuted, or too few rows to tell."""
    told = [
        (b, x, y)
        for a, b in pairs
        if (x := a.scores.get(metric)) and (y := b.scores.get(metric)) and x.verdict and y.verdict
    ]
    flips = [(x.verdict, y.verdict) for _, x, y in told]
    change = pass_change(len(told), flips.count(("fail", "pass")), flips.count(("pass", "fail")))
    if change is None:
        return Verdicts(empty=True)
    found = Verdicts()
    interval = f"{change.change:+.1%}, 95 % interval {change.low:+.1%} to {change.high:+.1%}"
    says = (
        f"the pass rate of {metric} moved by {interval} on {change.n} rows, -{margin:.1%} allowed"
    )
    found.firm_says = found.judged_says = found.pass_says = says
    found.unknown_says = f"{says}: too few rows to tell"
    _note_judges(found, [(b, metric, y) for b, _, y in told])
    broken = [Finding(b, x.value, y.value) for b, x, y in told
              if x.verdict == "pass" and y.verdict == "fail"]  # fmt: skip
    if change.high < -margin - _TOLERANCE:
        _put(found, broken)
    elif change.low < -margin - _TOLERANCE:
        found.unknown = broken or [Finding(b, x.value, y.value) for b, x, y in told[:1]]
    return found


def _note_judges(found: Verdicts, told: Sequence[tuple[RowSummary, str, ScoreLine]]) -> None:
    for row, name, line in told:
        if line.basis == "judge":
            found.see_judge(name, Finding(row, None, line.value))
    if found.judged_metrics:
        found.basis = "judge"


def _put(found: Verdicts, findings: list[Finding]) -> None:
    """A share over rows is as firm as its weakest row."""
    if found.judged_metrics:
        found.judged = findings
    else:
        found.firm = findings
