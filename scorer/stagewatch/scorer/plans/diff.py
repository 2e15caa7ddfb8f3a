"""Two runs row by row: what flipped, which stage moved, which numbers changed. Pure.

Only rows that both runs asked are compared; what stands in the way of a fair comparison is said
first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stagewatch.core.model import Basis
from stagewatch.scorer.plans.pairs import Change, Flips, mean_change, pass_change
from stagewatch.scorer.plans.plan import KNOWN_METRICS
from stagewatch.scorer.plans.results import Run
from stagewatch.scorer.plans.table import (
    ABSENT,
    BASES,
    FAIL,
    NO_VERDICT,
    PASS,
    UNSCORED,
    Column,
    RunTable,
    aligned,
)
from stagewatch.scorer.plans.words import Masks, kind_masks, summary_sentence

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


def diff_runs(before: Run, after: Run, rows_before: RunTable, rows_after: RunTable) -> Diff:
    """What changed from `before` to `after`, on the rows that both asked."""
    old, new = aligned(rows_before, rows_after)
    common = len(old.heads)
    gone, added = len(rows_before.heads) - common, len(rows_after.heads) - common
    kinds = kind_masks(new)
    seen = {*old.columns, *new.columns}
    metrics = tuple(
        _metric_change(name, old.column(name), new.column(name), kinds)
        for name in KNOWN_METRICS
        if name in seen
    )
    verdicts = [(a.verdict, b.verdict) for a, b in zip(old.heads, new.heads, strict=True)]
    told = [pair for pair in verdicts if "errored" not in pair]
    return Diff(
        before=before.run_id,
        after=after.run_id,
        common=common,
        only_before=gone,
        only_after=added,
        rows=pass_change(len(told), told.count(("fail", "pass")), told.count(("pass", "fail"))),
        flipped=_flipped_rows(old, new),
        metrics=metrics,
        sentence=summary_sentence(old, new, kinds, [item.metric for item in metrics]),
        warnings=tuple(comparability(before, after, gone, added)),
        hints=tuple(_hints(old, new)) if common > 1 else (),
    )


def _flipped_rows(old: RunTable, new: RunTable) -> dict[str, tuple[FlippedRow, ...]]:
    """Rows whose verdict changed, by kind; what got worse comes first."""
    names = [name for name in KNOWN_METRICS if name in old.columns or name in new.columns]
    moved = [old.column(name).verdict != new.column(name).verdict for name in names]
    found: dict[str, list[FlippedRow]] = {}
    for place, (a, b) in enumerate(zip(old.heads, new.heads, strict=True)):
        if a.verdict == b.verdict:
            continue
        metrics = tuple(name for name, changed in zip(names, moved, strict=True) if changed[place])
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


def _metric_change(metric: str, old: Column, new: Column, kinds: Masks) -> MetricChange:
    both = (old.status != ABSENT) & (new.status != ABSENT)
    valued = both & ~np.isnan(old.value) & ~np.isnan(new.value)
    judged = (old.verdict != NO_VERDICT) & (new.verdict != NO_VERDICT)
    mended = judged & (old.verdict == FAIL) & (new.verdict == PASS)
    broken = judged & (old.verdict == PASS) & (new.verdict == FAIL)
    by_kind = {
        kind: pass_change(_count(judged & mask), _count(mended & mask), _count(broken & mask))
        for kind, mask in kinds.items()
    }
    bases = np.unique(np.concatenate([old.basis[both], new.basis[both]]))
    unbounded = metric in _UNBOUNDED
    return MetricChange(
        metric=metric,
        bases=tuple(BASES[number] for number in bases),
        mean=None if unbounded else mean_change(old.value[valued], new.value[valued]),
        passes=pass_change(_count(judged), _count(mended), _count(broken)),
        by_kind={kind: found for kind, found in by_kind.items() if found is not None},
        unscored_before=_count(old.status == UNSCORED),
        unscored_after=_count(new.status == UNSCORED),
    )


def _count(mask: NDArray[np.bool_]) -> int:
    return int(np.count_nonzero(mask))


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


def _hints(old: RunTable, new: RunTable) -> Iterable[str]:
    for metric in KNOWN_METRICS:
        verdicts = np.concatenate([old.column(metric).verdict, new.column(metric).verdict])
        told = set(verdicts[verdicts != NO_VERDICT].tolist())
        if told == {PASS}:
            yield (
                f"{metric} passes on every row of both runs: it cannot tell them apart; "
                "harder rows or a tighter threshold would"
            )
        elif told == {FAIL}:
            yield (
                f"{metric} fails on every row of both runs: check its labels, the "
                "connector's paths and the threshold"
            )
