"""Daily budgets of judge calls and US dollars, in all and by rule: hard, and shared by replicas.

Before a turn is read its calls are reserved; what does not fit is not begun. Paid calls are
booked to the rule whose turn is read by the thread that makes them. Several scorers on one store
each take an equal share of what the store says is left, so together they stay below the limit.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

from stagewatch.core.store.client import Store
from stagewatch.core.store.spending import Account, Spent, spent_on

NOBODY: Account = ("", "")
_TOLD = timedelta(minutes=5)
"""How long after its last refusal a spent budget is still shown."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a UTC day may cost; None is no limit."""

    usd: float | None = None
    calls: int | None = None

    def short(self, left_share: int, spent: Spent, held: Spent, wanted: Spent) -> str:
        """What is short for `wanted`: "" nothing, else `calls` or `money`.

        `spent` is what the store knows, `held` what this process has paid since and reserved.
        """
        if self.calls is not None:
            left = (self.calls - spent.calls) / left_share - held.calls
            if wanted.calls > left:
                return "calls"
        if self.usd is not None:
            left = (self.usd - spent.usd) / left_share - held.usd
            if left <= 0 or wanted.usd > left + 1e-12:
                return "money"
        return ""


@dataclass(slots=True, eq=False)
class Reservation:
    """Calls and money set aside for one turn; `used` is what has been paid of it so far.

    Two turns may want the same, so each is only equal to itself.
    """

    account: Account
    limits: Limits
    wanted: Spent
    used: Spent = field(default_factory=Spent)

    def open(self) -> Spent:
        """What of it is still set aside."""
        return Spent(
            max(0, self.wanted.calls - self.used.calls), max(0.0, self.wanted.usd - self.used.usd)
        )


_PAYER: ContextVar[Reservation | None] = ContextVar("stagewatch_payer", default=None)


class Budget:
    """The day's accounts; safe from several threads."""

    def __init__(self, store: Store, now: Callable[[], datetime], limits: Limits) -> None:
        self._store = store
        self._now = now
        self.limits = limits
        # Guards all below.
        self._lock = threading.Lock()
        self._day: date | None = None
        self._known: Mapping[Account, Spent] = {}
        self._since: dict[Account, Spent] = defaultdict(Spent)
        self._flying: dict[Account, Spent] = defaultdict(Spent)
        self._open: list[Reservation] = []
        self._members = 1
        # Whom a spent budget was told, in which words, and when last.
        self._told: dict[Account, tuple[str, datetime]] = {}

    @property
    def short(self) -> dict[Account, str]:
        """The sentences of budgets that are spent, by whose they are."""
        with self._lock:
            return {account: said for account, (said, _) in self._told.items()}

    def refresh(self, members: int = 1) -> None:
        """Read what every process has spent today; `members` share what is left.

        Raises:
            StoreError: the store failed.
        """
        today = self._now().date()
        with self._lock:
            before = dict(self._since) if self._day == today else {}
        known = spent_on(self._store, today)
        with self._lock:
            if self._day != today:
                self._day, self._since = today, defaultdict(Spent)
                self._told = {}
            self._known, self._members = known, max(1, members)
            # A rule that nobody asks of any more (it is gone, or its turns are) stops being told.
            now = self._now()
            self._told = {
                a: (said, at) for a, (said, at) in self._told.items() if now - at <= _TOLD
            }
            # `_since` counts what was in the store before it was read: `known` has it.
            for account, spent in before.items():
                self._since[account] = self._since[account] - spent

    def reserve(self, account: Account, limits: Limits, wanted: Spent) -> Reservation | str:
        """Set `wanted` aside, or say which budget it does not fit: a sentence."""
        with self._lock:
            self._new_day()
            for whose, those in ((account, limits), (None, self.limits)):
                short = those.short(self._members, self._spent(whose), self._held(whose), wanted)
                if short:
                    said = _sentence(short, None if whose is None else account[1], those)
                    self._told[account if whose else NOBODY] = said, self._now()
                    return said
            self._told.pop(account, None)
            self._told.pop(NOBODY, None)
            found = Reservation(account, limits, wanted)
            self._open.append(found)
            return found

    def one_more(self) -> bool:
        """Whether the turn in hand may make a call that was not planned, such as a second ask."""
        payer = _PAYER.get()
        if payer is None:
            return True
        one = Spent(1, 0.0)
        with self._lock:
            if payer.open().calls >= 1:
                return True
            for whose, those in ((payer.account, payer.limits), (None, self.limits)):
                if those.short(self._members, self._spent(whose), self._held(whose), one):
                    return False
            payer.wanted = payer.wanted + one
            return True

    @contextlib.contextmanager
    def paying(self, reservation: Reservation) -> Iterator[None]:
        """Calls of this thread are booked to the reservation, which ends with the block."""
        token = _PAYER.set(reservation)
        try:
            yield
        finally:
            _PAYER.reset(token)
            with self._lock:
                self._open.remove(reservation)

    @staticmethod
    def payer() -> Reservation | None:
        """Who pays for this thread's calls; None for nobody in particular."""
        return _PAYER.get()

    def paid(self, reservation: Reservation | None, spent: Spent) -> None:
        """Count a call that has been paid for and is on its way to the store."""
        with self._lock:
            self._new_day()
            account = reservation.account if reservation is not None else NOBODY
            self._flying[account] = self._flying[account] + spent
            if reservation is not None:
                reservation.used = reservation.used + spent

    def stored(self, account: Account, spent: Spent) -> None:
        """Note that such a call is in the store now."""
        with self._lock:
            self._flying[account] = self._flying[account] - spent
            self._since[account] = self._since[account] + spent

    def today(self) -> Spent:
        """What every process has spent today, as far as this one knows."""
        with self._lock:
            self._new_day()
            return (
                self._spent(None) + self._total(self._since, None) + self._total(self._flying, None)
            )

    def used(self, account: Account) -> Spent:
        """What an account has paid today, with what is reserved for it."""
        with self._lock:
            self._new_day()
            return self._spent(account) + self._held(account)

    def room(
        self, account: Account, limits: Limits, *, carry: float, besides: Mapping[Account, Spent]
    ) -> Limits:
        """What the day's budgets will have left for an account at midnight; None is no limit.

        Args:
            account: who would pay.
            limits: of the account; the budget's own hold too.
            carry: the day's length as a multiple of the part that is over, 1 or more: what was
                paid until now is taken to go on at that pace.
            besides: of what was paid, that which will not go on.
        """
        usd: list[float] = []
        calls: list[int] = []
        with self._lock:
            self._new_day()
            for whose, those in ((account, limits), (None, self.limits)):
                paid = self._spent(whose) + self._held(whose)
                pace = paid - self._total(besides, whose)
                if those.usd is not None:
                    ahead = (carry - 1) * max(0.0, pace.usd)
                    usd.append((those.usd - paid.usd - ahead) / self._members)
                if those.calls is not None:
                    coming = math.ceil((carry - 1) * max(0, pace.calls))
                    calls.append((those.calls - paid.calls - coming) // self._members)
        return Limits(min(usd, default=None), min(calls, default=None))

    def _new_day(self) -> None:
        if self._day is not None and self._now().date() != self._day:
            self._day = self._now().date()
            self._known, self._since, self._told = {}, defaultdict(Spent), {}

    def _spent(self, whose: Account | None) -> Spent:
        return self._total(self._known, whose)

    def _held(self, whose: Account | None) -> Spent:
        held = self._total(self._since, whose) + self._total(self._flying, whose)
        for item in self._open:
            if whose is None or item.account == whose:
                held = held + item.open()
        return held

    @staticmethod
    def _total(accounts: Mapping[Account, Spent], whose: Account | None) -> Spent:
        if whose is not None:
            return accounts.get(whose, Spent())
        return sum(accounts.values(), Spent())


def _sentence(short: str, rule: str | None, limits: Limits) -> str:
    whose = "the day's" if rule is None else f"rule {rule}: the day's"
    if short == "calls":
        return f"{whose} budget of {limits.calls:,} judge calls is spent"
    return f"{whose} judge budget of {limits.usd:g} USD is spent"
