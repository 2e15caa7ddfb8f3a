"""Refusals: right when nothing was there to answer from, a generation failure otherwise."""

from __future__ import annotations

from typing import Literal

from stagewatch.scorer.metrics.sufficiency import SufficiencyLevel
from stagewatch.scorer.results import Result, Scored

RefusalKind = Literal["none", "correct_refusal", "wrong_refusal", "unjudged_refusal"]


def refusal_kind(*, refused: bool, sufficiency: SufficiencyLevel | None) -> RefusalKind:
    """What a refusal means given what the window held.

    `correct_refusal` when it was insufficient, `wrong_refusal` when it was sufficient; partial
    or unknown sufficiency leaves the refusal unjudged.
    """
    if not refused:
        return "none"
    if sufficiency == "insufficient":
        return "correct_refusal"
    if sufficiency == "sufficient":
        return "wrong_refusal"
    return "unjudged_refusal"


def refusal_on_unanswerable(*, refused: bool) -> Result:
    """On `unanswerable` rows: 1 when the answer refuses, else 0 and a hard fail.

    A partial answer with a hedge is not a refusal and does not pass.
    """
    return Scored(1.0 if refused else 0.0, hard_fail=not refused)
