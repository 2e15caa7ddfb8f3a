"""Judge calls kept and paid once: the cache by fingerprint and input, and the day's spending."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import xxhash

from stagewatch.core.store.client import Store


@dataclass(frozen=True, slots=True)
class Judgement:
    """One reply of a judge as stored: its text and what it cost."""

    output: str
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0


def input_hash(text: str) -> str:
    """Key of what a judge read: XXH3-128 in hex."""
    return xxhash.xxh3_128_hexdigest(text.encode())


class Ledger:
    """Reads and writes the `judgements` table; usable from several threads."""

    def __init__(self, store: Store, budget_usd: float, now: Callable[[], datetime]) -> None:
        self._store = store
        self._budget = budget_usd
        self._now = now
        # Guards the running total of the day.
        self._lock = threading.Lock()
        self._day: str = ""
        self._spent = 0.0

    def find(self, fingerprint: str, key: str) -> Judgement | None:
        """The stored reply to this very input, or None."""
        row = self._store.row(
            """SELECT output, input_tokens, output_tokens, cost_usd FROM judgements
               WHERE fingerprint = {fingerprint:String} AND input_hash = {key:String}
               ORDER BY at DESC LIMIT 1""",
            {"fingerprint": fingerprint, "key": key},
        )
        return Judgement(**row) if row else None

    def keep(self, fingerprint: str, key: str, judgement: Judgement) -> None:
        """Store a reply and add its cost to the day's spending."""
        self._store.put(
            "judgements",
            [
                {
                    "fingerprint": fingerprint,
                    "input_hash": key,
                    "output": judgement.output,
                    "input_tokens": judgement.input_tokens,
                    "output_tokens": judgement.output_tokens,
                    "cost_usd": judgement.cost_usd,
                    "at": self._now(),
                }
            ],
        )
        with self._lock:
            if self._day == self._today():
                self._spent += judgement.cost_usd

    def spent_today(self) -> float:
        """US dollars spent since midnight UTC, by every process that shares the store.

        Read from the store once a day and process, then counted here.
        """
        today = self._today()
        with self._lock:
            if self._day != today:
                total = self._store.value(
                    """SELECT sum(cost_usd) FROM judgements
                       WHERE toDate(at, 'UTC') = toDate({day:String})""",
                    {"day": today},
                )
                self._day, self._spent = today, float(total or 0.0)
            return self._spent

    def over_budget(self) -> bool:
        """True once the day's budget is used up."""
        return self.spent_today() >= self._budget

    def _today(self) -> str:
        return self._now().date().isoformat()
