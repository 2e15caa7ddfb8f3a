"""Precision: how much of the window is worth reading, and whether the worth stands in front."""

from __future__ import annotations

from collections.abc import Sequence

from stagewatch.scorer.metrics.relevance import Mark
from stagewatch.scorer.results import Result, Scored, Unscored


def _gap(marks: Sequence[Mark]) -> Unscored | None:
    if not marks:
        return Unscored("empty_window")
    if any(mark is None for mark in marks):
        return Unscored("judge_incomplete")
    return None


def context_precision(marks: Sequence[Mark]) -> Result:
    """Distinct relevant chunks / chunks in the window, in [0, 1].

    `marks` are the window's in order, later copies already False (`without_copies`), so a
    second copy is noise. An empty window is unscored.
    """
    gap = _gap(marks)
    if gap is not None:
        return gap
    relevant = sum(mark is True for mark in marks)
    return Scored(relevant / len(marks), note=f"{relevant} of {len(marks)} chunks")


def context_precision_at_k(marks: Sequence[Mark], *, ordered: bool = True) -> Result:
    """Mean, over the positions that hold a relevant chunk, of (relevant so far / position).

    Average precision with the number of relevant chunks *in the window* as denominator, so it
    says how well the window is sorted and nothing about what is missing: read it beside recall.
    In [0, 1], exactly 1.0 when every relevant chunk stands before every other, 0 when none is
    relevant. Relevant at 1, 2, 5 of 5 → 0.8667; at 1, 4, 5 → 0.7; at 3, 4, 5 → 0.4778.
    """
    gap = _gap(marks)
    if gap is not None:
        return gap
    if not ordered:
        return Unscored("unordered")
    so_far = 0
    terms = []
    for position, mark in enumerate(marks, start=1):
        if mark:
            so_far += 1
            terms.append(so_far / position)
    return Scored(sum(terms) / len(terms) if terms else 0.0)


def context_relevancy(marks: Sequence[Mark]) -> Result:
    """Share of the window's chunks that are on topic, in [0, 1]; for turns without gold.

    Reported only: it takes no part in a verdict and is not run beside recall and precision.
    """
    gap = _gap(marks)
    if gap is not None:
        return gap
    return Scored(sum(mark is True for mark in marks) / len(marks))
