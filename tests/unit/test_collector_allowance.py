"""What a key may send in a second, on a clock that is turned by hand."""

from __future__ import annotations

import pytest

from stagewatch.collector.allowance import MAX_SENDERS, Allowances
from stagewatch.collector.refusal import RefusedError


class Hand:
    """A clock's hand, in seconds."""

    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


def test_requests_over_the_rate_are_429_with_a_short_delay_and_come_in_after_it() -> None:
    hand = Hand()
    allowances = Allowances(5, 0, hand)
    for _ in range(10):
        allowances.admit("a")
    with pytest.raises(RefusedError) as refused:
        allowances.admit("a")
    assert (refused.value.http, refused.value.code, refused.value.retry_after_s) == (429, 8, 1)
    allowances.admit("b")
    hand.at += 1
    for _ in range(5):
        allowances.admit("a")
    with pytest.raises(RefusedError):
        allowances.admit("a")


def test_bytes_are_paid_afterwards_by_waiting_and_the_delay_is_never_over_three_seconds() -> None:
    hand = Hand()
    allowances = Allowances(0, 1e6, hand)
    allowances.admit("a")
    allowances.charge("a", 12_000_000)
    with pytest.raises(RefusedError) as refused:
        allowances.admit("a")
    assert refused.value.retry_after_s == 3
    hand.at += 9.5
    with pytest.raises(RefusedError) as refused:
        allowances.admit("a")
    assert refused.value.retry_after_s == 1
    hand.at += 0.5
    allowances.admit("a")


def test_a_clock_that_stands_still_or_jumps_back_gives_nothing_for_free() -> None:
    hand = Hand()
    allowances = Allowances(1, 0, hand)
    allowances.admit("a")
    allowances.admit("a")
    hand.at -= 3600
    with pytest.raises(RefusedError):
        allowances.admit("a")
    hand.at += 1
    allowances.admit("a")


def test_without_rates_all_is_admitted_and_memory_stays_bounded() -> None:
    free = Allowances(0, 0, Hand())
    for _ in range(1000):
        free.admit("a")
        free.charge("a", 1 << 40)
    hand = Hand()
    bounded = Allowances(1, 0, hand)
    for number in range(3 * MAX_SENDERS):
        bounded.admit(f"key {number}")
        hand.at += 0.01
    assert len(bounded._buckets) <= MAX_SENDERS
