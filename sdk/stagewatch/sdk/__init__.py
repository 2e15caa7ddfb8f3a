"""Tell stagewatch what your RAG app did: `configure` once, then name the stages.

Everything here is safe to call: nothing raises into the app, waits for the network or changes
what your functions return. Each stage is a `with` block, an `async with` block or a decorator.
"""

from __future__ import annotations

from stagewatch.sdk._api import (
    carry,
    current_trace_id,
    feedback,
    generate,
    rerank,
    retrieve,
    rewrite,
    turn,
)
from stagewatch.sdk._content import Capture, Content
from stagewatch.sdk._feedback import FeedbackKind
from stagewatch.sdk._setup import configure, flush, shutdown
from stagewatch.sdk._stages import Generate, Rerank, Retrieve, Rewrite
from stagewatch.sdk._turn import Turn

__all__ = [
    "Capture",
    "Content",
    "FeedbackKind",
    "Generate",
    "Rerank",
    "Retrieve",
    "Rewrite",
    "Turn",
    "carry",
    "configure",
    "current_trace_id",
    "feedback",
    "flush",
    "generate",
    "rerank",
    "retrieve",
    "rewrite",
    "shutdown",
    "turn",
]
