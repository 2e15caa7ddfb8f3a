"""Does the window hold everything needed to answer: the stand-in for recall without gold."""

from __future__ import annotations

from typing import Literal

from stagewatch.scorer.results import Result, Scored

SufficiencyLevel = Literal["sufficient", "partial", "insufficient"]

SUFFICIENCY_VALUE: dict[SufficiencyLevel, float] = {
    "sufficient": 1.0,
    "partial": 0.5,
    "insufficient": 0.0,
}


def context_sufficiency(level: SufficiencyLevel) -> Result:
    """`sufficient` 1, `partial` 0.5, `insufficient` 0; an empty window is insufficient."""
    return Scored(SUFFICIENCY_VALUE[level], note=level)
