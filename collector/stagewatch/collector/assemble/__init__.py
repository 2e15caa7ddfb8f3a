"""Turns out of spans: pure, the same for any order of arrival, told by tables in `conventions/`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stagewatch.collector.assemble.scrub import storable
from stagewatch.collector.assemble.tree import build, groups, one_each
from stagewatch.collector.assemble.turn import build_turn
from stagewatch.core.model import LogRow, SpanRow, Turn

__all__ = ["assemble_turns"]


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
        attribute_map: The app's own attribute names, `{"app.user_question": "question"}`. Fields:
            question, answer, rewritten_query, query, conversation_id, turn_index, user_id,
            release, index_version, prompt_version, environment, tags.<name>.

    Returns:
        One turn for each question answered; empty for traces that answer none. Never raises for
        any content: what cannot be read is missing, and `Turn.missing` says why.
    """
    ordered = one_each(spans)
    logs = sorted(logs, key=lambda log: (log.time_ns, log.event_name, repr(log)))
    found = [build_turn(group, attribute_map or {}) for group in groups(build(ordered, logs))]
    turns = [storable(turn) for turn in found if turn is not None]
    return sorted(turns, key=lambda turn: (turn.started_at, turn.turn_id))
