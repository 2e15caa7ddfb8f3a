"""Turns of a small refund-policy bot, for scorer tests."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from stagewatch.core.model import Chunk, Retrieval, Turn

AT = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)

PASSAGES: dict[str, str] = {
    "refund": "Refunds: you can return any item within 30 days from delivery for a full refund. "
    "Quote the order number in your request.",
    "shipping": "Standard shipping takes 3 to 5 working days and costs EUR 4.90. "
    "Orders over EUR 50 ship free.",
    "warranty": "All electronic devices carry a warranty of 24 months from the date of purchase.",
    "hours": "Our phone support is open Monday to Friday from 9:00 to 17:00. "
    "On public holidays the line is closed.",
    "giftcard": "Gift cards are valid for three years and cannot be exchanged for cash.",
    "damaged": "If a parcel arrives damaged, send a photo of the box within 48 hours.",
    "account": "To change your password, open the account page and choose security.",
    "stores": "Our shops in Berlin and Hamburg accept online orders for pick-up.",
}


def chunk(name: str, rank: int = 1, **more: Any) -> Chunk:
    """The passage as a chunk; `more` replaces fields."""
    base = Chunk(
        rank=rank, chunk_id=f"{name}-1", document_id=name, content=PASSAGES.get(name, name)
    )
    return replace(base, **more)


def turn(
    question: str,
    answer: str | None,
    names: list[str],
    *,
    window: int | None = 5,
    project: str = "shop",
    turn_id: str = "t-s",
    **more: Any,
) -> Turn:
    """A turn that retrieved `names` in this order and showed the model the first `window`."""
    chunks = tuple(chunk(name, rank) for rank, name in enumerate(names, start=1))
    trace_id, _, span_id = turn_id.partition("-")
    base = Turn(
        turn_id=turn_id,
        trace_id=trace_id,
        span_id=span_id,
        project=project,
        service="bot",
        started_at=AT,
        duration_ms=12.0,
        question=question,
        answer=answer,
        retrievals=(Retrieval(span_id="r", query=question, top_k=window, chunks=chunks),),
        window=chunks[:window],
    )
    return replace(base, **more)
