"""The answer against the question (relevancy) and against the expected facts (precision)."""

from __future__ import annotations

from collections.abc import Sequence

from stagewatch.core.model import ClaimLabel
from stagewatch.scorer.results import NotApplicable, Result, Scored, Unscored


def answer_relevancy(
    asked: int, addressed: int, *, refused: bool = False, empty_answer: bool = False
) -> Result:
    """Asked things that the answer addresses / asked things, in [0, 1].

    The judge sees question and answer only. The general rule given for a specific question does
    not address it. A refusal or an empty answer has no value.

    Raises:
        ValueError: `addressed` is not within 0..`asked`.
    """
    if empty_answer:
        return NotApplicable("empty_answer")
    if refused:
        return NotApplicable("refusal")
    if not 0 <= addressed <= asked:
        raise ValueError("addressed must be within 0..asked")
    if asked == 0:
        return Unscored("judge_incomplete", note="no question found")
    return Scored(addressed / asked, note=f"{addressed} of {asked} asked things addressed")


def answer_precision(labels: Sequence[ClaimLabel | None] | None) -> Result:
    """Expected facts the answer states / expected facts, in [0, 1].

    `labels` is one label an expected fact, read against the answer. A contradicted expected
    fact fails the row outright. The denominator is the expectation, not the answer: extra true
    statements cost nothing here.
    """
    if not labels:
        return NotApplicable("no_expected_output")
    if any(label is None for label in labels):
        return Unscored("judge_incomplete")
    stated = sum(label == "SUPPORTED" for label in labels)
    against = sum(label == "CONTRADICTED" for label in labels)
    note = f"{stated} of {len(labels)} expected facts stated"
    if against:
        note += f", {against} contradicted"
    return Scored(stated / len(labels), hard_fail=against > 0, note=note)
