"""How much each sender may send: a token bucket a key for requests and one for bytes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from stagewatch.collector.refusal import RESOURCE_EXHAUSTED, RefusedError

BURST_SECONDS = 2.0
MAX_SENDERS = 10_000
_LONGEST_WAIT_S = 3


@dataclass(slots=True)
class _Bucket:
    """What is left now, requests and bytes; below 0 is debt."""

    requests: float
    size: float
    at: float


class Allowances:
    """Bounds on requests and inflated bytes a second for each sender; a rate of 0 is no bound.

    A request is admitted while its sender is not in debt, and its bytes, known only once it is
    inflated, are charged afterwards: so one body may be larger than a second's bytes, and the
    sender pays for it by waiting. A sender may save up for `BURST_SECONDS`.
    """

    def __init__(
        self,
        requests_per_second: float,
        bytes_per_second: float,
        monotonic: Callable[[], float],
    ) -> None:
        self._requests = requests_per_second
        self._bytes = bytes_per_second
        self._monotonic = monotonic
        self._buckets: dict[str, _Bucket] = {}
        self.bounded = requests_per_second > 0 or bytes_per_second > 0

    def admit(self, sender: str) -> None:
        """Charge one request.

        Raises:
            RefusedError: 429 with the seconds (1 to 3) after which it may come again.
        """
        if not self.bounded:
            return
        bucket = self._refilled(sender)
        waits = [0.0]
        if self._requests > 0 and bucket.requests < 1:
            waits.append((1 - bucket.requests) / self._requests)
        if self._bytes > 0 and bucket.size < 0:
            waits.append(-bucket.size / self._bytes)
        if max(waits) > 0:
            raise RefusedError(
                429,
                RESOURCE_EXHAUSTED,
                "rate_limited",
                "this key sends more than it may",
                min(_LONGEST_WAIT_S, max(1, math.ceil(max(waits)))),
            )
        bucket.requests -= 1

    def charge(self, sender: str, size: int) -> None:
        """Charge `size` bytes of a body that was admitted."""
        if self._bytes > 0:
            self._refilled(sender).size -= size

    def _refilled(self, sender: str) -> _Bucket:
        now = self._monotonic()
        most_requests = max(1.0, self._requests * BURST_SECONDS)
        most_bytes = self._bytes * BURST_SECONDS
        bucket = self._buckets.get(sender)
        if bucket is None:
            if len(self._buckets) >= MAX_SENDERS:
                self._forget_idle(now)
            bucket = self._buckets[sender] = _Bucket(most_requests, most_bytes, now)
            return bucket
        passed = max(0.0, now - bucket.at)
        bucket.requests = min(most_requests, bucket.requests + passed * self._requests)
        bucket.size = min(most_bytes, bucket.size + passed * self._bytes)
        bucket.at = now
        return bucket

    def _forget_idle(self, now: float) -> None:
        """Who was quiet for the burst and owes nothing would start with a full bucket anyway."""
        self._buckets = {
            sender: bucket
            for sender, bucket in self._buckets.items()
            if now - bucket.at < BURST_SECONDS or bucket.size < 0
        }
