"""What the collector counts: every body, span, refusal and loss, by reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from stagewatch.collector.segments import Sealed
from stagewatch.core.errors import StoreError, StoreUnavailableError


class Counters:
    """The collector's metrics on one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.bodies = Counter(
            "stagewatch_collector_bodies",
            "Request bodies accepted, by signal and outcome (stored, duplicate, empty).",
            ["signal", "outcome"],
            registry=registry,
        )
        self.items = Counter(
            "stagewatch_collector_items",
            "Spans and log records accepted.",
            ["signal"],
            registry=registry,
        )
        self.bytes = Counter(
            "stagewatch_collector_bytes",
            "Bytes of accepted bodies, inflated.",
            ["signal"],
            registry=registry,
        )
        self.rejected = Counter(
            "stagewatch_collector_rejected_items",
            "Spans and log records left out of accepted requests, by reason.",
            ["signal", "reason"],
            registry=registry,
        )
        self.refused = Counter(
            "stagewatch_collector_refused_requests",
            "Requests that got no yes, by protocol and reason.",
            ["protocol", "reason"],
            registry=registry,
        )
        self.connections = Gauge(
            "stagewatch_collector_http_connections", "Open HTTP connections.", registry=registry
        )
        self.insert_seconds = Histogram(
            "stagewatch_collector_insert_seconds",
            "Time to insert one segment.",
            registry=registry,
            buckets=(0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30),
        )
        self.inserted = Counter(
            "stagewatch_collector_inserted_segments", "Segments stored.", registry=registry
        )
        self.insert_failures = Counter(
            "stagewatch_collector_insert_failures",
            "Inserts that failed and are tried again, by kind (away, refused).",
            ["kind"],
            registry=registry,
        )
        self.dead = Counter(
            "stagewatch_collector_dead_bodies",
            "Accepted bodies that can never be stored; they are kept in the spool's dead folder.",
            registry=registry,
        )
        self.assembled = Counter(
            "stagewatch_assembler_turns",
            "Turns written, by outcome (new, changed, retired).",
            ["outcome"],
            registry=registry,
        )
        self.traces = Counter(
            "stagewatch_assembler_traces",
            "Traces looked at, by outcome (turns, none, failed, too_late).",
            ["outcome"],
            registry=registry,
        )
        self._registry = registry

    def watch(self, name: str, help_text: str, read: Callable[[], float]) -> None:
        """A gauge whose value is read when it is asked for."""
        Gauge(name, help_text, registry=self._registry).set_function(read)

    def count_rejected(self, signal: str, rejected: Mapping[str, int]) -> None:
        """Count items left out, by reason."""
        for reason, n in rejected.items():
            self.rejected.labels(signal, reason).inc(n)


class CountingWatcher:
    """Counts what the writer does and keeps what the health page says of it."""

    def __init__(self, counters: Counters, freed: Callable[[int], None]) -> None:
        self._counters = counters
        self._freed = freed
        self.trouble = ""

    def stored(self, sealed: Sealed, seconds: float) -> None:
        """A segment is in the store and gone from the spool."""
        self._counters.inserted.inc()
        self._counters.insert_seconds.observe(seconds)
        self._freed(sealed.size)
        self.trouble = ""

    def failed(self, sealed: Sealed, error: StoreError) -> None:  # noqa: ARG002 - part of Watcher
        """An insert failed and will be tried again."""
        away = isinstance(error, StoreUnavailableError)
        self._counters.insert_failures.labels("away" if away else "refused").inc()
        self.trouble = str(error)

    def dead(self, sealed: Sealed, reason: str) -> None:
        """A segment of one body can never be stored."""
        self._counters.dead.inc()
        self._freed(sealed.size)
        self.trouble = f"a body is in the spool's dead folder: {reason}"
