"""Recall: how much of what the answer needs was fetched (retrieved) and shown (window).

Two recalls on purpose: the first tells "never fetched", the second "fetched and cut off".
"""

from __future__ import annotations

from collections.abc import Sequence

from stagewatch.core.model import ClaimLabel
from stagewatch.scorer.metrics.relevance import Mark
from stagewatch.scorer.results import NotApplicable, Result, Scored, Unscored


def recall_of_needs(
    met: Sequence[bool], *, all_or_nothing: bool = False, unanswerable: bool = False
) -> Result:
    """Needs met / needs, in [0, 1]: `retrieved_recall` over the union of the retrieved lists,
    `context_recall` over the window (METRICS.md, Retrieval with gold).

    Args:
        met: one flag a need; a need is met once however many chunks meet it.
        all_or_nothing: `multi_hop` rows: 1 only if every need is met, else 0.
        unanswerable: rows without an answer have no gold: not applicable.
    """
    if unanswerable or not met:
        return NotApplicable("no_gold")
    share = sum(met) / len(met)
    if all_or_nothing:
        share = 1.0 if all(met) else 0.0
    return Scored(share, note=f"{sum(met)} of {len(met)} needs met")


def retrieved_any(lists: Sequence[Sequence[Mark]]) -> Result:
    """Judge basis of `retrieved_recall`: 1 if any retrieved chunk is relevant, else 0.

    A judge that skipped chunks cannot prove a miss: without a relevant chunk and with a
    missing mark the result is unscored. Lists that are all empty are a miss (0).
    """
    if any(mark is True for marks in lists for mark in marks):
        return Scored(1.0)
    if any(mark is None for marks in lists for mark in marks):
        return Unscored("judge_incomplete")
    return Scored(0.0, note="no relevant chunk in the retrieved lists")


def context_recall_claims(labels: Sequence[ClaimLabel | None] | None) -> Result:
    """Claims of the expected answer supported by the window / all of them, in [0, 1].

    2 of 3 is 0.667 and fails the default threshold of 0.7. None in `labels` is a claim the
    judge left out. Definition: METRICS.md, Retrieval without gold.
    """
    if not labels:
        return NotApplicable("no_expected_output")
    if any(label is None for label in labels):
        return Unscored("judge_incomplete")
    supported = sum(label == "SUPPORTED" for label in labels)
    return Scored(supported / len(labels), note=f"{supported} of {len(labels)} expected claims")
