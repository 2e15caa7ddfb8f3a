"""Scores as the scorer stores them, written straight into the store."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from stagewatch.core.store import Store


def put_scores(
    store: Store,
    project: str,
    at: datetime,
    first: int,
    n: int,
    passes: Callable[[int], bool],
    **fields: Any,
) -> None:
    """Faithfulness scores of turns `first` … `first + n - 1`, one a minute from `at` on."""
    rows = []
    for i in range(first, first + n):
        good = passes(i)
        rows.append(
            {
                "project": project, "turn_id": f"{project}-{i}",
                "started_at": at + timedelta(minutes=i), "metric": "faithfulness",
                "status": "scored", "value": float(good), "verdict": "pass" if good else "fail",
                "hard_fail": False, "basis": "judge", "judge": "embedded", "fingerprint": "f",
                "threshold": 0.7, "reason": "", "at": at + timedelta(minutes=i), "revision": 1,
                "inclusion": 1.0, "stratum": "uniform", "conversation_id": "", "service": "bot",
                "release": "1", "index_version": "a", "prompt_version": "", **fields,
            }
        )  # fmt: skip
    store.put("scores", rows)


def often(share: float) -> Callable[[int], bool]:
    """Passes for this share of the numbers, evenly strewn."""
    return lambda i: (i * 7919) % 100 < share * 100
