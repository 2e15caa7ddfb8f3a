"""The fuse before a paid judge, and daily limits as arithmetic."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest

from stagewatch.core.store import Store
from stagewatch.core.store.spending import Spent
from stagewatch.scorer.budget import Budget, Limits, Reservation
from stagewatch.scorer.judges.fuse import Fuse
from stagewatch.scorer.judges.together import Together


class Time:
    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


@pytest.mark.parametrize(
    ("limits", "members", "spent", "held", "wanted", "short"),
    [
        (Limits(), 1, Spent(9, 9.0), Spent(9, 9.0), Spent(9, 9.0), ""),
        (Limits(calls=10), 1, Spent(4), Spent(3), Spent(3), ""),
        (Limits(calls=10), 1, Spent(4), Spent(3), Spent(4), "calls"),
        (Limits(calls=10), 3, Spent(4), Spent(0), Spent(2), ""),
        (Limits(calls=10), 3, Spent(4), Spent(0), Spent(3), "calls"),
        (Limits(usd=1.0), 1, Spent(0, 0.4), Spent(0, 0.3), Spent(1, 0.3), ""),
        (Limits(usd=1.0), 1, Spent(0, 0.4), Spent(0, 0.3), Spent(1, 0.31), "money"),
        (Limits(usd=0.0), 1, Spent(), Spent(), Spent(1, 0.0), "money"),
        (Limits(usd=5.0, calls=0), 1, Spent(), Spent(), Spent(1, 0.1), "calls"),
    ],
)
def test_what_does_not_fit_is_short(
    limits: Limits, members: int, spent: Spent, held: Spent, wanted: Spent, short: str
) -> None:
    assert limits.short(members, spent, held, wanted) == short


def test_three_failures_in_a_row_blow_the_fuse_and_one_reply_mends_it() -> None:
    now = Time()
    fuse = Fuse(now)
    for _ in range(2):
        assert fuse.enter() == ""
        fuse.failed("InternalServerError")
    fuse.worked()
    for _ in range(3):
        assert fuse.enter() == ""
        fuse.failed("APITimeoutError")
    assert fuse.enter() == "APITimeoutError"
    outage = fuse.outage()
    assert outage is not None
    now.at += outage.wait_s
    assert fuse.outage() is None
    assert fuse.state() is not None
    assert fuse.enter() == ""
    # One call is let through to see, not two.
    assert fuse.enter() == "APITimeoutError"
    fuse.worked()
    assert fuse.state() is None
    assert fuse.enter() == ""


def test_a_refused_key_blows_it_at_once_and_the_waits_double_up_to_five_minutes() -> None:
    now = Time()
    fuse = Fuse(now)
    waits = []
    for _ in range(9):
        assert fuse.enter() == ""
        fuse.failed("AuthenticationError")
        outage = fuse.outage()
        assert outage is not None
        waits.append(outage.wait_s)
        now.at += outage.wait_s
    assert waits == [5, 10, 20, 40, 80, 160, 300, 300, 300]


def test_failures_of_calls_that_were_under_way_do_not_lengthen_the_wait() -> None:
    now = Time()
    fuse = Fuse(now)
    for _ in range(64):
        fuse.failed("APIConnectionError")
    outage = fuse.outage()
    assert outage is not None
    assert outage.wait_s == 5


def test_an_error_of_the_text_itself_is_no_outage() -> None:
    fuse = Fuse(Time())
    for _ in range(10):
        fuse.failed("BadRequestError")
    assert fuse.state() is None


def test_calls_of_many_threads_are_served_together_and_each_gets_its_own() -> None:
    groups: list[int] = []
    gate = threading.Event()

    def serve(items: object) -> list[int]:
        found = list(items)  # type: ignore[call-overload]
        groups.append(len(found))
        gate.wait(10)
        return [item * 2 for item in found]

    together: Together[int, int] = Together("t", serve)
    got: dict[int, int] = {}

    def ask(number: int) -> None:
        got[number] = together.ask(number)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    gate.set()
    for thread in threads:
        thread.join(10)
    assert got == {number: number * 2 for number in range(20)}
    assert sum(groups) == 20


def test_an_error_reaches_everyone_who_waits() -> None:
    def serve(_: object) -> list[int]:
        raise ValueError("no")

    together: Together[int, int] = Together("t", serve)
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            together.ask(1)


def test_two_turns_that_want_the_same_have_reservations_of_their_own(store: Store) -> None:
    budget = Budget(store, lambda: datetime(2026, 11, 30, tzinfo=UTC), Limits(calls=10))
    account = ("shop", "sample")
    first, second = (budget.reserve(account, Limits(), Spent(4)) for _ in range(2))
    assert isinstance(first, Reservation)
    assert isinstance(second, Reservation)
    # 8 of 10 are set aside; the second turn ends, the first one goes on.
    with budget.paying(second):
        pass
    with budget.paying(first):
        budget.paid(first, Spent(1))
        assert isinstance(budget.reserve(account, Limits(), Spent(7)), str)
        assert isinstance(budget.reserve(account, Limits(), Spent(6)), Reservation)


def test_a_spent_budget_is_told_until_nobody_has_been_refused_for_a_while(store: Store) -> None:
    times = [datetime(2026, 11, 30, 12, tzinfo=UTC)]
    budget = Budget(store, lambda: times[0], Limits(calls=1))
    budget.refresh()
    assert isinstance(budget.reserve(("shop", "gone"), Limits(calls=0), Spent(1)), str)
    budget.refresh()
    assert list(budget.short) == [("shop", "gone")]
    times[0] += timedelta(minutes=6)
    budget.refresh()
    assert budget.short == {}
