"""What judges cost: rows as they are paid, totals of a day by project and rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime

from stagewatch.core.store.client import Store


@dataclass(frozen=True, slots=True)
class Spent:
    """Calls and money; adds up with `+`, and `-` takes away."""

    calls: int = 0
    usd: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            self.calls + other.calls,
            self.usd + other.usd,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
        )

    def __sub__(self, other: Spent) -> Spent:
        return Spent(
            self.calls - other.calls,
            self.usd - other.usd,
            self.input_tokens - other.input_tokens,
            self.output_tokens - other.output_tokens,
        )


Account = tuple[str, str]
"""Project and rule that a call is paid for; both "" where none is known (runs, promotions)."""


def put_spending(store: Store, rows: Iterable[tuple[Account, Spent]], *, at: datetime) -> None:
    """Add to the spending of the UTC day of `at`."""
    store.put(
        "spending",
        [
            {
                "day": at.date(),
                "project": account[0],
                "rule": account[1],
                "calls": spent.calls,
                "input_tokens": spent.input_tokens,
                "output_tokens": spent.output_tokens,
                "cost_usd": spent.usd,
                "at": at,
            }
            for account, spent in rows
        ],
    )


def spent_on(store: Store, day: date) -> Mapping[Account, Spent]:
    """What was spent on a UTC day, by project and rule, by every process on this store."""
    found = store.rows(
        """SELECT project, rule, sum(calls) AS calls, sum(cost_usd) AS usd,
                  sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens
           FROM spending WHERE day = {day:Date} GROUP BY project, rule""",
        {"day": day},
    )
    return {
        (row["project"], row["rule"]): Spent(
            int(row["calls"]), float(row["usd"]), int(row["input_tokens"]),
            int(row["output_tokens"]),
        )
        for row in found
    }  # fmt: skip
