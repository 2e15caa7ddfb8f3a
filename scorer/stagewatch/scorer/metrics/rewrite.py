"""Rewrite: did the query that went to retrieval keep what the conversation asked for?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from stagewatch.scorer.metrics.rank import Rank, reciprocal_rank
from stagewatch.scorer.results import NotApplicable, Result, Scored, Unscored, value_of

ConstraintState = Literal["kept", "dropped", "changed"]


def rewrite_fidelity(constraints: Sequence[ConstraintState | None] | None) -> Result:
    """Constraints of the conversation the rewritten query keeps / all, in [0, 1].

    A changed constraint (another product, number, negation, date) is a hard fail. None as the
    argument means the turn has no rewrite; a conversation that asks for nothing in particular
    (no constraints) is kept in full: 1.0.
    """
    if constraints is None:
        return NotApplicable("no_rewrite")
    if any(state is None for state in constraints):
        return Unscored("judge_incomplete")
    if not constraints:
        return Scored(1.0, note="no constraint to keep")
    kept = sum(state == "kept" for state in constraints)
    changed = sum(state == "changed" for state in constraints)
    note = f"{kept} of {len(constraints)} constraints kept"
    if changed:
        note += f", {changed} changed"
    return Scored(kept / len(constraints), hard_fail=changed > 0, note=note)


def rewrite_gain(rewritten: Rank, raw: Rank) -> Result:
    """Reciprocal rank with the rewritten query minus that with the raw question, in [-1, 1]."""
    after, before = reciprocal_rank(rewritten), reciprocal_rank(raw)
    after_value, before_value = value_of(after), value_of(before)
    if after_value is None:
        return after
    if before_value is None:
        return before
    return Scored(after_value - before_value)
