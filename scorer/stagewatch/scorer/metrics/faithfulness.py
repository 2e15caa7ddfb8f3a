"""Faithfulness: what of the answer the window supports, whatever the truth may be."""

from __future__ import annotations

from collections.abc import Sequence

from stagewatch.core.model import ClaimLabel
from stagewatch.scorer.results import NotApplicable, Result, Scored, Unscored


def faithfulness(
    labels: Sequence[ClaimLabel | None],
    *,
    refused: bool = False,
    empty_answer: bool = False,
    unanswerable: bool = False,
) -> Result:
    """Supported claims / claims, in [0, 1]; any CONTRADICTED claim is a hard fail.

    A plain refusal has no claims and scores 1.0. An answer that states nothing that could be
    checked (a greeting) scores 1.0 too. None is a claim the judge left out: unscored. On
    `unanswerable` rows an answer that does not refuse is a hard fail. Worked value: two
    SUPPORTED and one CONTRADICTED → 0.667, hard fail (METRICS.md, Generation).
    """
    if empty_answer:
        return NotApplicable("empty_answer")
    if any(label is None for label in labels):
        return Unscored("judge_incomplete")
    invented = unanswerable and not refused
    if not labels:
        note = "refused" if refused else "no statement to check"
        return Scored(1.0, hard_fail=invented, note=note)
    supported = sum(label == "SUPPORTED" for label in labels)
    contradicted = sum(label == "CONTRADICTED" for label in labels)
    note = f"{supported} of {len(labels)} claims supported"
    if contradicted:
        note += f", {contradicted} contradicted"
    if invented:
        note += ", answered a question that has no answer"
    return Scored(supported / len(labels), hard_fail=contradicted > 0 or invented, note=note)
