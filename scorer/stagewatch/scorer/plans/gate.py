"""Whether a candidate run may go out, against a baseline run. Pure.

The default conditions are those of docs/plans.md; a plan may add its own. Gold labels
and rules block; a judge's word blocks only when the judge is calibrated, else the gate cannot
tell. Rows whose label waits for a second person do not count unless the plan says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from stagewatch.core.model import Basis
from stagewatch.scorer.plans.conditions import (
    CALIBRATION_NEEDS,
    Finding,
    Verdicts,
    hard_fails,
    max_fails,
    min_pass_rate,
    no_drop,
    non_inferior,
)
from stagewatch.scorer.plans.diff import comparability
from stagewatch.scorer.plans.plan import Condition, GateOptions
from stagewatch.scorer.plans.results import RowSummary, Run

Outcome = Literal["pass", "blocked", "cannot_tell"]

_NOTHING = "nothing to check"

EXIT_CODE: Mapping[Outcome, int] = {"pass": 0, "blocked": 1, "cannot_tell": 2}

Pair = tuple[RowSummary, RowSummary]


@dataclass(frozen=True, slots=True)
class BlockedRow:
    """A row that a condition names: what the metric was and is, and the stage that failed."""

    row_id: str
    kind: str
    question: str
    stage: str
    why: str
    before: float | None
    after: float | None


@dataclass(frozen=True, slots=True)
class ConditionResult:
    """One condition's outcome in one sentence; `rows` are the ids of the rows behind it."""

    name: str
    outcome: Outcome
    basis: Basis
    rows: tuple[str, ...]
    sentence: str
    details: tuple[BlockedRow, ...] = ()

    @property
    def idle(self) -> bool:
        """True when no row could put it to the test."""
        return self.sentence.endswith(_NOTHING)


@dataclass(frozen=True, slots=True)
class GateResult:
    """The gate's answer. `waiting` rows were left out until a second person confirms them."""

    outcome: Outcome
    exit_code: int
    baseline: str
    candidate: str
    common: int
    waiting: int
    conditions: tuple[ConditionResult, ...]
    warnings: tuple[str, ...]


DEFAULT_CONDITIONS: tuple[Condition, ...] = (
    Condition(
        name="recall on multi hop and near miss rows",
        metric="context_recall",
        rule="no_drop",
        kinds=("multi_hop", "near_miss"),
    ),
    Condition(
        name="no invented answers on unanswerable rows",
        metric="refusal",
        rule="max_hard_fails",
        kinds=("unanswerable",),
    ),
    Condition(
        name="precision on stale policy rows",
        metric="context_precision_at_k",
        rule="no_drop",
        kinds=("stale_policy",),
    ),
)


def decide_gate(
    baseline: Run,
    candidate: Run,
    rows_before: Iterable[RowSummary],
    rows_after: Iterable[RowSummary],
    *,
    options: GateOptions,
    calibrated: Callable[[str, str], bool],
) -> GateResult:
    """The gate over the rows that both runs asked.

    Args:
        baseline: the run to compare with.
        candidate: the run that wants to go out.
        rows_before: the baseline's rows.
        rows_after: the candidate's rows.
        options: the plan's demands.
        calibrated: (metric, judge fingerprint) → whether that judge's word counts.
    """
    old = {row.row_id: row for row in rows_before}
    pairs = [(old[row.row_id], row) for row in rows_after if row.row_id in old]
    counted = [(a, b) for a, b in pairs if b.counts or not options.require_second_reviewer]
    trusted = _trust(baseline, candidate, calibrated)
    conditions = [*_standing(baseline, candidate, counted)]
    wanted = [*(DEFAULT_CONDITIONS if options.defaults else ()), *options.conditions]
    conditions += [_decide(condition, counted, trusted) for condition in wanted]
    idle = bool(counted) and all(c.idle for c in conditions)
    if idle:
        conditions += _unseen(counted)
    outcomes: list[Outcome] = [condition.outcome for condition in conditions]
    worst: Outcome = max(outcomes, key=_severity, default="pass")
    after = [b.row_id for _, b in pairs]
    warnings = [*comparability(baseline, candidate, len(old) - len(pairs), 0)]
    if idle:
        warnings.append("no condition has a row to check: the gate demands nothing of these runs")
    return GateResult(
        outcome=worst,
        exit_code=EXIT_CODE[worst],
        baseline=baseline.run_id,
        candidate=candidate.run_id,
        common=len(after),
        waiting=len(pairs) - len(counted),
        conditions=tuple(conditions),
        warnings=tuple(warnings),
    )


def _severity(outcome: Outcome) -> int:
    return ("pass", "cannot_tell", "blocked").index(outcome)


@dataclass(frozen=True, slots=True)
class _Trust:
    """What a judge's word is worth: `absolute` for one run, `paired` between the two."""

    absolute: Callable[[str], bool]
    paired: Callable[[str], bool]


def _trust(baseline: Run, candidate: Run, calibrated: Callable[[str, str], bool]) -> _Trust:
    def absolute(metric: str) -> bool:
        return calibrated(metric, candidate.fingerprint)

    def paired(metric: str) -> bool:
        return baseline.fingerprint == candidate.fingerprint and absolute(metric)

    return _Trust(absolute, paired)


def _standing(baseline: Run, candidate: Run, pairs: Sequence[Pair]) -> Iterable[ConditionResult]:
    """What stops any comparison: unfinished runs, no common rows, rows without an answer."""
    for name, run in (("baseline", baseline), ("candidate", candidate)):
        if run.state != "finished":
            said = f"the {name} run is {run.state}: {run.note or 'not every row was asked'}"
            yield ConditionResult(f"the {name} run is whole", "cannot_tell", "rule", (), said)
    if not pairs:
        said = "no row that counts is in both runs"
        yield ConditionResult("rows to compare", "cannot_tell", "rule", (), said)
    lost = [(a, b) for a, b in pairs if b.verdict == "errored" and a.verdict != "errored"]
    if lost:
        details = tuple(_detail(Finding(b, None, None)) for _, b in lost)
        reasons = sorted({b.error for _, b in lost})
        said = f"{len(lost)} rows have no verdict now and had one: {reasons[0]}"
        yield ConditionResult(
            "every row has a verdict", "cannot_tell", "rule",
            tuple(b.row_id for _, b in lost), said, details,
        )  # fmt: skip


def _unseen(pairs: Sequence[Pair]) -> Iterable[ConditionResult]:
    """Rows that fail now and passed before, where no condition looks: a pass would say nothing of
    them.
    """
    broken = [b for a, b in pairs if (a.verdict, b.verdict) == ("pass", "fail")]
    if broken:
        said = (
            f"{len(broken)} of {len(pairs)} rows passed and fail now, and no condition looks at "
            "them: say in the plan what has to hold, such as context_recall with rule no_drop"
        )
        found = [Finding(row, None, None) for row in broken]
        yield _result("rows that no condition looks at", "cannot_tell", "rule", found, said)


def _decide(condition: Condition, pairs: Sequence[Pair], trust: _Trust) -> ConditionResult:
    meant = [(a, b) for a, b in pairs if not condition.kinds or b.kind in condition.kinds]
    kinds = " and ".join(kind.replace("_", " ") for kind in condition.kinds)
    compared = condition.rule in {"no_drop", "non_inferior"}
    found = _verdicts(condition, meant)
    if found.empty:
        demands = condition.rule in {"min_pass_rate", "non_inferior"}
        said = f"no {kinds + ' ' if kinds else ''}row that counts has {condition.metric}"
        return ConditionResult(
            condition.name, "cannot_tell" if demands else "pass", "gold", (),
            f"{said}: {'cannot tell' if demands else _NOTHING}",
        )  # fmt: skip
    return _weigh(condition, found, trust.paired if compared else trust.absolute)


def _verdicts(condition: Condition, pairs: Sequence[Pair]) -> Verdicts:
    match condition.rule:
        case "no_drop":
            return no_drop(condition.metric, pairs)
        case "non_inferior":
            return non_inferior(condition.metric, pairs, condition.margin)
        case "min_pass_rate":
            return min_pass_rate(condition.metric, [b for _, b in pairs], condition.limit)
        case "max_fails":
            return max_fails(condition.metric, [b for _, b in pairs], condition.limit)
        case "max_hard_fails":
            return hard_fails(condition.metric, [b for _, b in pairs], condition.limit)


def _weigh(
    condition: Condition, found: Verdicts, trusted: Callable[[str], bool]
) -> ConditionResult:
    """Gold and rules first; then a judge's word, for what it is worth; then what is unknown."""
    if found.firm:
        return _result(condition.name, "blocked", found.basis, found.firm, found.firm_says)
    judged = [metric for metric in found.judged_metrics if not trusted(metric)]
    if judged:
        rows = found.judged or found.judged_seen
        said = (
            f"{found.judged_says}, on a judge's word for {', '.join(judged)}, "
            f"which does not count: {CALIBRATION_NEEDS}"
        )
        return _result(condition.name, "cannot_tell", "judge", rows, said)
    if found.judged:
        return _result(condition.name, "blocked", "judge", found.judged, found.judged_says)
    if found.unknown:
        return _result(
            condition.name, "cannot_tell", found.basis, found.unknown, found.unknown_says
        )
    return ConditionResult(condition.name, "pass", found.basis, (), found.pass_says)


def _result(
    name: str, outcome: Outcome, basis: Basis, findings: Sequence[Finding], sentence: str
) -> ConditionResult:
    rows = tuple(finding.row.row_id for finding in findings)
    return ConditionResult(name, outcome, basis, rows, sentence, tuple(map(_detail, findings)))


def _detail(finding: Finding) -> BlockedRow:
    row = finding.row
    return BlockedRow(
        row.row_id, row.kind, row.question, row.stage, row.error or row.why,
        finding.before, finding.after,
    )  # fmt: skip
