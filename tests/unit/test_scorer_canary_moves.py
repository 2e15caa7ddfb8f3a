"""Whether two readings of the same texts differ by more than wavering."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from stagewatch.scorer.canary.moves import ALPHA, KINDS, YEAR, allowed_at, move_of, sign_test
from stagewatch.scorer.canary.watch import is_due

AT = datetime(2026, 11, 30, tzinfo=UTC)


def test_the_sign_test_is_the_textbook_value() -> None:
    """Of 10 pairs 9 moved one way: 2 (1 + 10) / 1024."""
    assert sign_test(9, 1) == pytest.approx(22 / 1024)
    assert sign_test(0, 0) == 1.0
    assert sign_test(5, 5) == 1.0
    assert sign_test(3, 17) == sign_test(17, 3)


def test_the_allowances_add_up_to_alpha() -> None:
    total = len(KINDS) * sum(allowed_at(k) for k in range(1, YEAR + 1))
    assert total < ALPHA
    assert total == pytest.approx(ALPHA, rel=0.01)


def test_a_judge_that_wavers_is_not_said_to_have_moved() -> None:
    """300 judges that give one text in ten another label each day, watched for 60 days."""
    chance = np.random.default_rng(5)
    moved = 0
    for _ in range(300):
        share = chance.random(48)
        first = {str(i): float(chance.random() < share[i]) for i in range(48)}
        for day in range(1, 61):
            now = {str(i): float(chance.random() < share[i]) for i in range(48)}
            found = move_of("faithfulness", first, now, size=48, reading=day)
            assert found is not None
            if found.moved:
                moved += 1
                break
    assert moved <= 6


@pytest.mark.parametrize(("flipped", "seen"), [(24, True), (16, True), (4, False)])
def test_how_much_of_a_move_is_seen_on_the_third_reading(flipped: int, seen: bool) -> None:
    first = {str(i): float(i % 2) for i in range(48)}
    now = {key: 1.0 if int(key) < 2 * flipped else value for key, value in first.items()}
    found = move_of("faithfulness", first, now, size=48, reading=3)
    assert found is not None
    assert (found.up, found.down, found.moved) == (flipped, 0, seen)


def test_too_few_texts_decide_nothing() -> None:
    first = {str(i): 0.0 for i in range(48)}
    assert move_of("faithfulness", first, {"1": 1.0}, size=48, reading=1) is None
    assert move_of("faithfulness", {}, {}, size=0, reading=1) is None


def test_when_the_set_is_read() -> None:
    day, hour = timedelta(days=1), timedelta(hours=1)
    assert not is_due(None, None, AT, day)
    assert not is_due(None, AT - hour / 2, AT, day)
    assert is_due(None, AT - hour, AT, day)
    assert not is_due(AT - 23 * hour, AT, AT, day)
    assert is_due(AT - day, AT, AT, day)
    assert is_due(AT - 2 * hour, AT, AT, day, asked=True)
    assert not is_due(AT - hour / 2, AT, AT, day, asked=True)
    assert not is_due(AT - day, AT, AT, timedelta(0), asked=True)
