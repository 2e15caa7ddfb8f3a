"""What the framework apps share: the knowledge base, the switch, the report.

The apps run in an environment of their own (`requirements/frameworks.txt`), started by
`tests/integration/test_sdk_frameworks_real.py`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from stagewatch.sdk import semconv
from stagewatch.sdk.frameworks import watch_openai, watch_reranker, watch_retriever
from stagewatch.sdk.testing import Captured, CapturedTurn, capture

QUESTION = "How many days do I have to request a refund?"
KB = [
    {"id": "refund#1", "source": "refund.md", "text": "Refunds can be requested within 30 days."},
    {"id": "refund#2", "source": "refund.md", "text": "A refund takes 5 days to arrive."},
    {"id": "warranty#1", "source": "warranty.md", "text": "The warranty lasts two years."},
    {"id": "shipping#1", "source": "shipping.md", "text": "Shipping takes three days."},
]


class Watching:
    """Watched objects, or the objects themselves."""

    def __init__(self, on: bool) -> None:
        def same(thing: Any, **_: Any) -> Any:
            return thing

        self.retriever: Callable[..., Any] = watch_retriever if on else same
        self.reranker: Callable[..., Any] = watch_reranker if on else same
        self.openai: Callable[..., Any] = watch_openai if on else same


def told(turn: CapturedTurn) -> dict[str, Any]:
    spans = [dict(span.attributes or {}) for span in turn.spans]
    models = [s[semconv.RESPONSE_MODEL] for s in spans if semconv.RESPONSE_MODEL in s]
    tokens = [
        [s.get(semconv.INPUT_TOKENS), s.get(semconv.OUTPUT_TOKENS)]
        for s in spans
        if s.get(semconv.STEP) == "generate"
    ]
    prompts = [json.loads(s[semconv.INPUT_MESSAGES]) for s in spans if semconv.INPUT_MESSAGES in s]
    return {
        "stages": turn.stages,
        "queries": [
            s.get(semconv.RETRIEVAL_QUERY, s.get(semconv.RERANK_QUERY))
            for s in spans
            if s.get(semconv.STEP) in {"retrieve", "rerank"}
        ],
        "top_k": [
            s.get(semconv.RETRIEVAL_TOP_K) for s in spans if s.get(semconv.STEP) == "retrieve"
        ],
        "documents": turn.documents,
        "reranked": turn.reranked,
        "reranked_from": [
            list(s[semconv.RERANK_INPUT_IDS]) for s in spans if semconv.RERANK_INPUT_IDS in s
        ],
        "answer": turn.answer,
        "models": models,
        "tokens": tokens,
        "prompts": [[[m["role"], m["parts"][0]["content"]] for m in p] for p in prompts],
        "error": turn.error,
    }


def main(run: Callable[[Watching], dict[str, Any]]) -> None:
    on = "watched" in sys.argv
    captured: Captured
    with capture() as captured:
        got = run(Watching(on))
    turns = {turn.question: told(turn) for turn in captured.turns}
    print(json.dumps({"got": got, "told": turns if on else {}}))
