"""Judge calls kept and paid once: the cache by fingerprint and input, and the day's spending."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime

import xxhash

from stagewatch.core.store.client import Store
from stagewatch.core.store.spending import Account, Spent, put_spending
from stagewatch.scorer.budget import NOBODY, Budget, Limits
from stagewatch.scorer.judges.together import Together


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


_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Paid:
    key: _Key
    judgement: Judgement
    account: Account


class Ledger:
    """Reads and writes the `judgements` table and books what calls cost; usable from any thread."""

    def __init__(
        self,
        store: Store,
        budget_usd: float,
        now: Callable[[], datetime],
        *,
        budget_calls: int | None = None,
        behind: bool = False,
    ) -> None:
        self._behind = behind
        self._store = store
        self._now = now
        self.budget = Budget(store, now, Limits(budget_usd, budget_calls))
        # Guards `_sent` and `_under_way`: replies on their way to the store, as what is waited
        # for and by their keys, so that a turn that is read again at once pays for none twice.
        self._lock = threading.Lock()
        self._sent: set[Future[None]] = set()
        self._under_way: dict[_Key, Judgement] = {}
        self._finding = Together("ledger-find", self._find)
        self._keeping: Together[_Paid, None] = Together("ledger-keep", self._keep)

    def find(self, fingerprint: str, key: str) -> Judgement | None:
        """The reply to this very input that is stored or on its way there, or None."""
        with self._lock:
            fresh = self._under_way.get((fingerprint, key))
        return fresh or self._finding.ask((fingerprint, key))

    def keep(self, fingerprint: str, key: str, judgement: Judgement) -> None:
        """Book a reply's cost to whoever's turn this thread reads, and have the reply stored.

        With `behind` nobody waits for the store here: `flush` does, before scores that rest on
        the reply are written.
        """
        payer = self.budget.payer()
        account = payer.account if payer is not None else NOBODY
        self.budget.paid(payer, _cost(judgement))
        paid = _Paid((fingerprint, key), judgement, account)
        with self._lock:
            self._under_way[paid.key] = judgement
        sent = self._keeping.send(paid)
        with self._lock:
            self._sent.add(sent)
        sent.add_done_callback(lambda done: self._kept(done, paid))
        if not self._behind:
            self.flush()

    def _kept(self, done: Future[None], paid: _Paid) -> None:
        with self._lock:
            self._under_way.pop(paid.key, None)
        if done.exception() is None:
            self.budget.stored(paid.account, _cost(paid.judgement))
            with self._lock:
                self._sent.discard(done)

    def flush(self) -> None:
        """Wait until every reply so far is stored.

        Raises:
            StoreError: some could not be stored; they may have to be paid again.
        """
        with self._lock:
            sent, self._sent = self._sent, set()
        for future in sent:
            future.result()

    def _find(self, keys: Sequence[_Key]) -> list[Judgement | None]:
        found: dict[_Key, Judgement] = {}
        for fingerprint in {fingerprint for fingerprint, _ in keys}:
            rows = self._store.rows(
                """SELECT input_hash, output, input_tokens, output_tokens, cost_usd FROM judgements
                   WHERE fingerprint = {fingerprint:String} AND input_hash IN {keys:Array(String)}
                   ORDER BY at DESC LIMIT 1 BY input_hash""",
                {"fingerprint": fingerprint, "keys": [k for f, k in keys if f == fingerprint]},
            )
            for row in rows:
                key = (fingerprint, row.pop("input_hash"))
                found[key] = Judgement(**row)
        return [found.get(key) for key in keys]

    def _keep(self, group: Sequence[_Paid]) -> list[None]:
        now = self._now()
        self._store.put(
            "judgements",
            [
                {
                    "fingerprint": item.key[0],
                    "input_hash": item.key[1],
                    "output": item.judgement.output,
                    "input_tokens": item.judgement.input_tokens,
                    "output_tokens": item.judgement.output_tokens,
                    "cost_usd": item.judgement.cost_usd,
                    "at": now,
                }
                for item in group
            ],
        )
        bill: dict[Account, Spent] = defaultdict(Spent)
        for item in group:
            bill[item.account] = bill[item.account] + _cost(item.judgement)
        put_spending(self._store, bill.items(), at=now)
        return [None] * len(group)

    def spent_today(self) -> float:
        """US dollars spent since midnight UTC, by every process that shares the store."""
        self.flush()
        self.budget.refresh()
        return self.budget.today().usd

    def over_budget(self) -> bool:
        """True once the day's budget of money or calls is used up."""
        self.budget.refresh()
        spent, limits = self.budget.today(), self.budget.limits
        if limits.calls is not None and spent.calls >= limits.calls:
            return True
        return limits.usd is not None and spent.usd >= limits.usd


def _cost(judgement: Judgement) -> Spent:
    return Spent(1, judgement.cost_usd, judgement.input_tokens, judgement.output_tokens)
