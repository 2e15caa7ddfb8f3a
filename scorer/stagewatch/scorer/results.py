"""What a metric may return: a value, a missing value with its reason, or no value by definition.

Never 0 for "not known" and never NaN: a caller that adds results up has to say what it does
with the two other kinds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

UnscoredReason = Literal[
    "not_captured",
    "truncated",
    "redacted",
    "unordered",
    "empty_window",
    "judge_incomplete",
    "judge_error",
    "judge_abstained",
    "over_budget",
]
NotApplicableReason = Literal[
    "no_gold", "no_expected_output", "refusal", "empty_answer", "no_rewrite"
]


@dataclass(frozen=True, slots=True)
class Scored:
    """A value. `hard_fail` fails the turn whatever the value; `note` is for a person to read."""

    value: float
    hard_fail: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class Unscored:
    """The metric should have a value here and has none."""

    reason: UnscoredReason
    note: str = ""


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """The metric has no value here by definition; it enters no mean and no verdict."""

    reason: NotApplicableReason
    note: str = ""


Result = Scored | Unscored | NotApplicable


def value_of(result: Result) -> float | None:
    """The value of a `Scored`, None for the two other kinds."""
    return result.value if isinstance(result, Scored) else None
