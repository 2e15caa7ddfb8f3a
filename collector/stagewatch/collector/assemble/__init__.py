"""Turns out of spans: pure, the same for any order of arrival, told by tables in `conventions/`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stagewatch.collector.assemble.scrub import storable
from stagewatch.collector.assemble.steps import STEP_FIELDS
from stagewatch.collector.assemble.tree import Group, build, groups, one_each
from stagewatch.collector.assemble.turn import build_turn
from stagewatch.collector.assemble.turnless import why_no_turn
from stagewatch.core.model import LogRow, SpanRow, Turn

__all__ = ["assemble_turns", "why_turnless"]


def assemble_turns(
    spans: Sequence[SpanRow],
    logs: Sequence[LogRow] = (),
    *,
    attribute_map: Mapping[str, str] | None = None,
) -> list[Turn]:
    """The turns in the spans of one trace, by start time.

    Args:
        spans: Every span of one trace, in any order; the same span may come twice.
        logs: Log records of that trace (GenAI message events), in any order.
        attribute_map: The app's own attribute names, `{"app.user_question": "question"}`; the
            fields are `stagewatch.core.settings.MAPPED_FIELDS` and tags.<name>.

    Returns:
        One turn for each question answered; empty for traces that answer none. Never raises for
        any content: what cannot be read is missing, and `Turn.missing` says why.
    """
    mapped = attribute_map or {}
    found = [build_turn(group, mapped) for group in _groups(spans, logs, mapped)]
    turns = [storable(turn) for turn in found if turn is not None]
    return sorted(turns, key=lambda turn: (turn.started_at, turn.turn_id))


def why_turnless(
    spans: Sequence[SpanRow],
    logs: Sequence[LogRow] = (),
    *,
    attribute_map: Mapping[str, str] | None = None,
) -> str:
    """Why the spans of one trace, which `assemble_turns` made no turn of, give none."""
    mapped = attribute_map or {}
    reasons = [why_no_turn(group, mapped) for group in _groups(spans, logs, mapped)]
    return min(reasons)[1] if reasons else "no spans"


def _groups(
    spans: Sequence[SpanRow], logs: Sequence[LogRow], mapped: Mapping[str, str]
) -> list[Group]:
    logs = sorted(logs, key=lambda log: (log.time_ns, log.event_name, repr(log)))
    of_steps = {name: STEP_FIELDS[to] for name, to in mapped.items() if to in STEP_FIELDS}
    return groups(build(one_each(spans), logs, of_steps))
