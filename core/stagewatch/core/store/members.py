"""Which scorers are alive: each writes a heartbeat; times are the store's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from stagewatch.core.codec import to_text
from stagewatch.core.store.client import Store


@dataclass(frozen=True, slots=True)
class Member:
    """A scorer as it last said it was; `age_s` is how long ago by the store's clock."""

    member: str
    body: Mapping[str, Any]
    beat: datetime
    age_s: float


def put_beat(store: Store, member: str, body: Mapping[str, Any]) -> None:
    """Say that `member` is alive now."""
    store.put("scorers", [{"member": member, "body": to_text(body)}])


def bury_member(store: Store, member: str) -> None:
    """Note that a member that did not say so has ended, once what it left is settled."""
    put_beat(store, member, {"left": True, "died": True})


def list_members(store: Store, *, within_s: float) -> list[Member]:
    """Members whose newest heartbeat is at most `within_s` seconds old, by name."""
    found = store.rows(
        """SELECT member, argMax(body, beat) AS said, max(beat) AS newest,
                  dateDiff('millisecond', newest, now64(3)) / 1000 AS age
           FROM scorers GROUP BY member HAVING age <= {within:Float64} ORDER BY member""",
        {"within": within_s},
    )
    return [
        Member(
            row["member"], orjson.loads(row["said"]), row["newest"].replace(tzinfo=UTC),
            float(row["age"]),
        )
        for row in found
    ]  # fmt: skip
