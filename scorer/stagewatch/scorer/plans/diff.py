"""Two runs row by row: what flipped, which stage moved, which numbers changed. Pure.

Only rows that both runs asked are compared; what stands in the way of a fair comparison is said
first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from stagewatch.core.model import Basis
from stagewatch.scorer.plans.pairs import Change, Flips, mean_change, pass_change
from stagewatch.scorer.plans.plan import KNOWN_METRICS
from stagewatch.scorer.plans.results import RowSummary, Run, ScoreLine
from stagewatch.scorer.plans.words import summary_sentence

_UNBOUNDED = frozenset({"first_relevant_rank"})
"""Ranks have no mean (a miss has no number): only their pass rate is compared."""


@dataclass(frozen=True, slots=True)
class FlippedRow:
    """A row whose verdict changed. `metrics` are those whose own verdict changed."""

    row_id: str
    kind: str
    question: str
    before: str
    after: str
    stage_before: str
    stage_after: str
    metrics: tuple[str, ...]
    why: str
    counts: bool


@dataclass(frozen=True, slots=True)
class MetricChange:
    """One metric over the common rows. `mean` is None for ranks, `passes` without a threshold.

    `unscored_before` and `unscored_after` count common rows that should have a value and have
    none; they are in neither number.
    """

    metric: str
    bases: tuple[Basis, ...]
    mean: Change | None
    passes: Flips | None
    by_kind: Mapping[str, Flips]
    unscored_before: int
    unscored_after: int


@dataclass(frozen=True, slots=True)
class Diff:
    """Everything `diff A B` says."""

    before: str
    after: str
    common: int
    only_before: int
    only_after: int
    rows: Flips | None
    flipped: Mapping[str, tuple[FlippedRow, ...]]
    metrics: tuple[MetricChange, ...]
    sentence: str
    warnings: tuple[str, ...]
    hints: tuple[str, ...]


Pair = tuple[RowSummary, RowSummary]


def diff_runs(
    before: Run, after: Run, rows_before: Iterable[RowSummary], rows_after: Iterable[RowSummary]
) -> Diff:
    """What changed from `before` to `after`, on the rows that both asked."""
    old = {row.row_id: row for row in rows_before}
    new = {row.row_id: row for row in rows_after}
    pairs = [(old[row_id], new[row_id]) for row_id in old if row_id in new]
    metrics = tuple(_metric_changes(pairs))
    told = [(a, b) for a, b in pairs if "errored" not in {a.verdict, b.verdict}]
    return Diff(
        before=before.run_id,
        after=after.run_id,
        common=len(pairs),
        only_before=len(old) - len(pairs),
        only_after=len(new) - len(pairs),
        rows=_flips([(a.verdict == "pass", b.verdict == "pass") for a, b in told]),
        flipped=flipped_rows(pairs),
        metrics=metrics,
        sentence=summary_sentence(pairs, [m.metric for m in metrics]),
        warnings=tuple(comparability(before, after, len(old) - len(pairs), len(new) - len(pairs))),
        hints=tuple(_hints(pairs, metrics)),
    )


def flipped_rows(pairs: Sequence[Pair]) -> dict[str, tuple[FlippedRow, ...]]:
    """Rows whose verdict changed, by kind; what got worse comes first."""
    found: dict[str, list[FlippedRow]] = {}
    for a, b in pairs:
        if a.verdict == b.verdict:
            continue
        metrics = tuple(
            name
            for name in {**a.scores, **b.scores}
            if _verdict(a.scores.get(name)) != _verdict(b.scores.get(name))
        )
        row = FlippedRow(
            b.row_id, b.kind, b.question, a.verdict, b.verdict, a.stage, b.stage, metrics,
            b.error or b.why, b.counts,
        )  # fmt: skip
        found.setdefault(b.kind, []).append(row)
    order = {"fail": 0, "errored": 1, "pass": 2}
    return {
        kind: tuple(sorted(rows, key=lambda row: (order[row.after], row.row_id)))
        for kind, rows in sorted(found.items())
    }


def _verdict(line: ScoreLine | None) -> str | None:
    return line.verdict if line is not None else None


def _metric_changes(pairs: Sequence[Pair]) -> Iterable[MetricChange]:
    seen = {name for a, b in pairs for name in (*a.scores, *b.scores)}
    for metric in (name for name in KNOWN_METRICS if name in seen):
        yield _metric_change(
            metric, [(a.scores.get(metric), b.scores.get(metric), b.kind) for a, b in pairs]
        )


def _metric_change(
    metric: str, lines: Sequence[tuple[ScoreLine | None, ScoreLine | None, str]]
) -> MetricChange:
    both = [(x, y, kind) for x, y, kind in lines if x is not None and y is not None]
    valued = [(x.value, y.value) for x, y, _ in both]
    numbers = [(x, y) for x, y in valued if x is not None and y is not None]
    by_kind: dict[str, list[tuple[bool, bool]]] = {}
    for x, y, kind in both:
        if x.verdict and y.verdict:
            by_kind.setdefault(kind, []).append((x.verdict == "pass", y.verdict == "pass"))
    flips = {kind: _flips(items) for kind, items in sorted(by_kind.items())}
    bases = {cast("Basis", line.basis) for x, y, _ in both for line in (x, y)}
    return MetricChange(
        metric=metric,
        bases=tuple(sorted(bases)),
        mean=None
        if metric in _UNBOUNDED
        else mean_change([x for x, _ in numbers], [y for _, y in numbers]),
        passes=_flips([item for items in by_kind.values() for item in items]),
        by_kind={kind: found for kind, found in flips.items() if found is not None},
        unscored_before=sum(x is not None and x.status == "unscored" for x, _, _ in lines),
        unscored_after=sum(y is not None and y.status == "unscored" for _, y, _ in lines),
    )


def _flips(items: Sequence[tuple[bool, bool]]) -> Flips | None:
    return pass_change([x for x, _ in items], [y for _, y in items])


def comparability(before: Run, after: Run, gone: int, new: int) -> Iterable[str]:
    """What makes the two runs less than comparable, one sentence each."""
    if (before.dataset, before.version) != (after.dataset, after.version):
        yield (
            f"dataset versions differ ({_dataset(before)}, then {_dataset(after)}): only the rows "
            "that both asked are compared"
        )
    elif gone or new:
        yield f"{gone} rows are only in the first run and {new} only in the second"
    if before.fingerprint != after.fingerprint:
        yield (
            f"judges differ ({before.fingerprint}, then {after.fingerprint}): "
            "what rests on a judge's word may differ for that reason alone"
        )
    for name in ("thresholds", "metrics", "top_k", "mode"):
        if before.plan.get(name) != after.plan.get(name):
            yield f"the plans differ in {name}"
    moved = [
        f"{name.replace('_', ' ')} {_versions(before, name)} → {_versions(after, name)}"
        for name in ("release", "index_version", "prompt_version")
        if before.pipeline.get(name, ()) != after.pipeline.get(name, ())
    ]
    if len(moved) > 1:
        yield (
            f"more than one pipeline version differs ({', '.join(moved)}): "
            "the runs cannot tell which of them did it"
        )
    for which, run in (("first", before), ("second", after)):
        if run.state != "finished":
            yield f"the {which} run is {run.state}, not finished"


def _dataset(run: Run) -> str:
    return f"{run.dataset} v{run.version}" if run.version else f"{run.dataset} (working copy)"


def _versions(run: Run, name: str) -> str:
    return " and ".join(run.pipeline.get(name, ())) or "unknown"


def _hints(pairs: Sequence[Pair], metrics: Sequence[MetricChange]) -> Iterable[str]:
    if len(pairs) < 2:
        return
    for item in metrics:
        found = [_verdict(row.scores.get(item.metric)) for pair in pairs for row in pair]
        told = [verdict for verdict in found if verdict]
        if not told:
            continue
        if all(verdict == "pass" for verdict in told):
            yield (
                f"{item.metric} passes on every row of both runs: it cannot tell them apart; "
                "harder rows or a tighter threshold would"
            )
        elif all(verdict == "fail" for verdict in told):
            yield (
                f"{item.metric} fails on every row of both runs: check its labels, the "
                "connector's paths and the threshold"
            )
