"""The overview's numbers over a real store: clusters, totals, alerts, questions behind links."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.support.scorer_turns import AT, turn

from stagewatch.api.overview import load_overview
from stagewatch.core.model import Decision, Diagnosis
from stagewatch.core.store import Store
from stagewatch.core.store.documents import put_document
from stagewatch.core.store.scores import Evaluated, put_evaluated
from stagewatch.core.store.turns import put_turns
from stagewatch.scorer.estimate import mean_estimate

pytestmark = pytest.mark.integration


def fill(store: Store, project: str, n: int, per_conversation: int) -> list[bool]:
    """`n` scored turns; whole conversations pass or fail together."""
    turns, evaluated, passed = [], [], []
    for number in range(n):
        conversation = number // per_conversation
        good = conversation % 2 == 0
        item = replace(
            turn(f"question {number}?", "answer", ["refund"], project=project,
                 turn_id=f"{project}{number}-s"),
            conversation_id=f"c{conversation}",
            started_at=AT + timedelta(seconds=number),
        )  # fmt: skip
        turns.append(item)
        passed.append(good)
        evaluated.append(
            Evaluated(
                turn=item, revision=1, scores=(), claims=(),
                diagnosis=Diagnosis("ok" if good else "generation", "why"),
                passed=good, relevance=(), fingerprint="f",
                decision=Decision("scored", "sampled", 1.0, "", AT, "uniform"),
            )
        )  # fmt: skip
    put_turns(store, turns, assembled_at=AT, revision=1)
    put_evaluated(store, evaluated)
    return passed


def test_the_pass_rate_counts_that_turns_of_a_conversation_lean_together(
    store: Store, project: str
) -> None:
    passed = fill(store, project, 400, per_conversation=20)
    found = load_overview(store, project, AT - timedelta(hours=1), AT + timedelta(hours=1))
    values = [float(good) for good in passed]
    clustered = mean_estimate(values, [1.0] * 400, [f"c{n // 20}" for n in range(400)])
    alone = mean_estimate(values, [1.0] * 400, [""] * 400)
    assert found["passed"] == clustered
    assert clustered is not None
    assert alone is not None
    assert clustered.high - clustered.low > 2 * (alone.high - alone.low)


def test_the_total_is_counted_to_the_end_like_n(store: Store, project: str) -> None:
    fill(store, project, 10_050, per_conversation=1)
    found = load_overview(store, project, AT - timedelta(hours=1), AT + timedelta(hours=6))
    assert found["total"] == found["passed"].n == 10_050
    assert found["few"] == ""


def test_alerts_come_worst_first_with_the_questions_behind_their_links(
    store: Store, project: str
) -> None:
    fill(store, project, 3, per_conversation=1)
    for name, to, opened in (("small", 0.9, 9), ("large", 0.1, 1)):
        body = {
            "alert_id": name, "stage": name, "near": [], "state": "open", "from": 1.0, "to": to,
            "opened_at": f"2026-03-0{opened}T00:00:00Z", "sentence": f"{name}: fell since then.",
            "turn_ids": [f"{project}1-s", "gone"],
        }  # fmt: skip
        put_document(store, "alerts", f"{project}-{name}", body, at=AT, project=project)
    found = load_overview(store, project, AT - timedelta(hours=1), AT + timedelta(hours=1))
    assert [alert["alert_id"] for alert in found["alerts"]] == ["large", "small"]
    assert found["questions"] == {f"{project}1-s": "question 1?"}
