"""The one sentence that says what two runs come to. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from stagewatch.scorer.plans.plan import LOWER_IS_BETTER
from stagewatch.scorer.plans.results import ScoreLine
from stagewatch.scorer.plans.table import SCORED, RunTable

_SPOKEN: tuple[tuple[str, str], ...] = (
    ("context_recall", "recall"),
    ("context_sufficiency", "sufficiency"),
    ("first_relevant_rank", "rank"),
    ("context_precision_at_k", "precision"),
    ("faithfulness", "faithfulness"),
    ("answer_relevancy", "relevancy"),
    ("answer_precision", "answers"),
    ("rewrite_fidelity", "rewriting"),
    ("answered_from_superseded", "sources"),
)
"""Metrics that the sentence speaks of, in the order of the stages, and what it calls them."""

_NO_RANK = 1e9
_TOLERANCE = 1e-9

Masks = Mapping[str, NDArray[np.bool_]]


def improvement(metric: str, before: ScoreLine, after: ScoreLine) -> float:
    """How much better `after` is; ranks and flags count downwards, a miss is the worst rank."""
    sign = -1.0 if metric in LOWER_IS_BETTER else 1.0
    return sign * (_value(after) - _value(before))


def _value(line: ScoreLine) -> float:
    return _NO_RANK if line.value is None else line.value


def kind_masks(table: RunTable) -> dict[str, NDArray[np.bool_]]:
    """Kind → which rows are of it."""
    kinds = np.array([head.kind for head in table.heads], dtype=object)
    return {str(kind): kinds == kind for kind in sorted(set(kinds))}


def summary_sentence(
    before: RunTable, after: RunTable, kinds: Masks, metrics: Sequence[str]
) -> str:
    """Such as "recall up on multi hop (2 of 5 rows), precision down across the board,
    faithfulness held; near miss rows worse: 2 of 5 now fail". Counts rows, not significance.

    Both tables hold the same rows in the same order.
    """
    if not before.heads:
        return "no row is in both runs"
    parts = [
        said
        for metric, name in _SPOKEN
        if metric in metrics and (said := _metric_words(metric, name, before, after, kinds))
    ]
    whole = ", ".join(parts) or "no metric is in both runs"
    return "; ".join([whole, *_kind_words(before, after, kinds)])


def _metric_words(metric: str, name: str, before: RunTable, after: RunTable, kinds: Masks) -> str:
    old, new = before.column(metric), after.column(metric)
    both = (old.status == SCORED) & (new.status == SCORED)
    if not both.any():
        return ""
    change = np.nan_to_num(new.value, nan=_NO_RANK) - np.nan_to_num(old.value, nan=_NO_RANK)
    signs = np.where(np.abs(change) > _TOLERANCE, np.sign(change), 0.0)
    if metric in LOWER_IS_BETTER:
        signs = -signs
    moved = {kind: signs[both & mask] for kind, mask in kinds.items() if (both & mask).any()}
    ways = {kind: int(np.sign(values.sum())) for kind, values in moved.items()}
    directions = set(ways.values()) - {0}
    if not directions:
        return f"{name} held"
    if len(directions) == 1 and len(ways) > 1 and 0 not in ways.values():
        return f"{name} {_way(directions.pop())} across the board"
    said = [
        f"{_way(way)} on {kind.replace('_', ' ')} "
        f"({int((moved[kind] == way).sum())} of {len(moved[kind])} rows)"
        for kind, way in ways.items()
        if way
    ]
    return f"{name} {' and '.join(said)}"


def _way(sign: int) -> str:
    return "up" if sign > 0 else "down"


def _kind_words(before: RunTable, after: RunTable, kinds: Masks) -> Iterable[str]:
    old = np.array([head.verdict for head in before.heads], dtype=object)
    new = np.array([head.verdict for head in after.heads], dtype=object)
    for kind, mask in kinds.items():
        broken = int(((old == "pass") & (new == "fail") & mask).sum())
        mended = int(((old == "fail") & (new == "pass") & mask).sum())
        total = int(mask.sum())
        if broken > mended:
            yield f"{kind.replace('_', ' ')} rows worse: {broken} of {total} now fail"
        elif mended > broken:
            yield f"{kind.replace('_', ' ')} rows better: {mended} of {total} now pass"
