"""What an alert says of the questions it is about, and two releases in one sentence."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from stagewatch.core.model import Turn
from stagewatch.core.store.scores import Reading
from stagewatch.scorer.comparison import COMPARED, compare
from stagewatch.scorer.kinds import fisher, kinds_of

AT = datetime(2026, 11, 30, tzinfo=UTC)


def turn(n: int, question: str, **fields: Any) -> Turn:
    return Turn(
        turn_id=f"t{n}", trace_id="t", span_id="s", project="p", started_at=AT, duration_ms=1.0,
        question=question, answer="a", **{"service": "bot", **fields},
    )  # fmt: skip


FILLER = ("Where is my parcel?", "Is the shop open on Sundays?", "Do you ship to France?")


def test_the_word_that_failing_questions_share_is_named() -> None:
    failing = [turn(n, f"When do I get my refund for order {n}?") for n in range(30)]
    passing = [turn(100 + n, FILLER[n % 3]) for n in range(90)]
    (first, *rest) = kinds_of(failing, passing)
    assert {first.value, *(kind.value for kind in rest)} == {"refund", "order"}
    assert first.sentence == "30 of 30 failing turns ask with “order”, 0 of 90 passing ones do."


def test_the_service_and_the_tag_are_named() -> None:
    failing = [
        turn(n, FILLER[n % 3], service="bot-eu", tags={"channel": "mail"}) for n in range(20)
    ]
    passing = [turn(50 + n, FILLER[n % 3], tags={"channel": "web"}) for n in range(60)]
    passing += [turn(200 + n, FILLER[n % 3], service="bot-eu") for n in range(3)]
    found = {kind.what: kind for kind in kinds_of(failing, passing)}
    assert set(found) == {"service", "tag channel"}
    assert found["service"].sentence == (
        "20 of 20 failing turns have service bot-eu, 3 of 63 passing ones do."
    )


def test_nothing_is_named_where_failing_turns_are_like_the_others() -> None:
    """In 200 trials of turns that fail by luck, a kind is named in at most 1 in a hundred."""
    chance = np.random.default_rng(3)
    named = 0
    for _ in range(200):
        turns = [
            turn(n, " ".join(chance.choice(["alpha", "beta", "gamma", "delta"], 3)),
                 service=str(chance.choice(["a", "b"])), tags={"t": str(chance.integers(3))})
            for n in range(200)
        ]  # fmt: skip
        bad = set(chance.choice(200, 40, replace=False).tolist())
        named += bool(kinds_of(
            [t for n, t in enumerate(turns) if n in bad],
            [t for n, t in enumerate(turns) if n not in bad],
        ))  # fmt: skip
    assert named <= 2


def test_too_little_to_say_is_silence() -> None:
    assert kinds_of([turn(1, "refund?")] * 4, [turn(2, "parcel?")] * 50) == []
    assert kinds_of([turn(1, "refund?")] * 40, []) == []


def test_fisher_is_the_textbook_value() -> None:
    """The lady tasting tea (Fisher 1935): 3 of 4 right and 1 of 4 wrong, p = 17/70."""
    assert fisher(3, 4, 1, 4) == pytest.approx(17 / 70)
    assert fisher(4, 4, 0, 4) == pytest.approx(1 / 70)
    assert fisher(0, 4, 0, 4) == pytest.approx(1.0)


def readings(release: str, n: int, good: float, **fields: Any) -> list[Reading]:
    base = Reading(
        turn_id="", at=AT, status="scored", value=1.0, verdict="pass", hard_fail=False, reason="",
        fingerprint="f", basis="judge", threshold=0.7, inclusion=1.0, stratum="uniform",
        conversation_id="", dimensions={"release": release},
    )  # fmt: skip
    bad = round(n * (1 - good))
    return [
        replace(base, turn_id=f"{release}-{i}", at=AT + timedelta(seconds=i),
                verdict="fail" if i < bad else "pass", value=0.0 if i < bad else 1.0, **fields)
        for i in range(n)
    ]  # fmt: skip


def test_two_releases_are_told_apart_in_one_sentence() -> None:
    found = compare(
        "release", "1.4", "1.5",
        {
            "retrieved_recall": readings("1.4", 500, 0.8) + readings("1.5", 500, 0.95),
            "context_precision_at_k": readings("1.4", 500, 0.9) + readings("1.5", 500, 0.7),
            "faithfulness": readings("1.4", 2000, 0.96) + readings("1.5", 2000, 0.96),
            "rewrite_fidelity": readings("1.4", 40, 0.9) + readings("1.5", 40, 0.9),
            "answer_relevancy": readings("1.4", 500, 0.9),
        },
    )  # fmt: skip
    assert found.sentence == (
        "Release 1.5 against 1.4: went up: recall (80% → 95%); went down: precision (90% → 70%); "
        "faithfulness held; cannot tell of rewrites, relevancy of answers."
    )
    moved = {item.metric: item for item in found.items}
    assert moved["answer_relevancy"].why == "nothing scored of 1.5"
    assert moved["rewrite_fidelity"].why.startswith("the interval is too wide")


def test_two_judges_are_never_compared() -> None:
    rows = readings("1", 100, 0.9) + readings("2", 100, 0.5, fingerprint="another")
    found = compare("release", "1", "2", {"faithfulness": rows})
    assert found.items[0].moved == "cannot_tell"
    assert found.items[0].why == "no judge read both"
    shared = [*rows, *readings("2", 50, 0.9)]
    found = compare("release", "1", "2", {"faithfulness": shared})
    assert found.items[0].b is not None
    assert found.items[0].b.n == 50


def test_a_share_where_less_is_better_is_turned_around() -> None:
    spec = next(item for item in COMPARED if item.flip)
    rows = readings("1", 400, 1.0) + readings("2", 400, 0.0)
    found = compare("release", "1", "2", {spec.metric: rows})
    assert found.items[0].moved == "up"


def test_the_interval_of_a_difference_covers() -> None:
    """95 % intervals of 2,000 simulated pairs with weights and conversations cover at least 94 %."""
    chance = np.random.default_rng(11)
    inside = 0
    for _ in range(2000):
        rows = []
        for release, share in (("1", 0.85), ("2", 0.9)):
            for i in range(150):
                good = bool(chance.random() < share)
                rows.append(
                    replace(readings(release, 1, 1.0)[0], verdict="pass" if good else "fail",
                            inclusion=float(chance.choice([0.2, 1.0])), turn_id=f"{release}{i}")
                )  # fmt: skip
        (item,) = compare("release", "1", "2", {"faithfulness": rows}).items
        assert item.low is not None and item.high is not None
        inside += item.low <= 0.05 <= item.high
    assert inside / 2000 >= 0.94
