"""What the metrics endpoint shows of the scorer."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from stagewatch.core.store.spending import Spent
from stagewatch.scorer.budget import NOBODY
from stagewatch.scorer.judges.fuse import Outage
from stagewatch.scorer.lookups import LOOKUPS, Lookups
from stagewatch.scorer.work_hand import PassReport


class Meters:
    """The scorer's metrics on one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, says: str, *labels: str) -> Counter:
            return Counter(f"stagewatch_scorer_{name}", says, labels, registry=registry)

        def gauge(name: str, says: str, *labels: str) -> Gauge:
            return Gauge(f"stagewatch_scorer_{name}", says, labels, registry=registry)

        self.turns = counter("turns", "Turns decided, by outcome.", "outcome")
        self.errors = counter("errors", "Errors while scoring, by kind.", "kind")
        self.taken_over = counter("turns_taken_over", "Turns that a dead scorer had in hand.")
        self.repeated = counter(
            "repeated_judge_calls", "Calls for such turns, which it may have made before."
        )
        self.heartbeat = gauge("heartbeat_timestamp_seconds", "When the last pass ended.")
        self.lag = gauge("lag_seconds", "Age of the oldest undecided turn at the last pass.")
        self.rate = gauge("turns_per_second", "Turns decided a second in the last busy pass.")
        self.queue = gauge("queue_turns", "Turns that waited for their judge after the last pass.")
        self.spent = gauge("spent_usd_today", "Judge spending since midnight UTC, all processes.")
        self.calls = gauge("judge_calls_today", "Paid judge calls since midnight UTC.")
        self.short = gauge("budgets_spent", "Budgets of the day that are spent.", "whose")
        self.paused = gauge("paused", "1 while the judge cannot be used, by error.", "kind")
        self.replicas = gauge("replicas", "Scorers that share the turns.")
        self.backfill = counter("backfill_turns", "Turns of backfills, by outcome.", "outcome")
        registry.register(_NameLookups(LOOKUPS))
        self._kinds: set[str] = set()

    def note(self, report: PassReport, seconds: float, now: datetime) -> None:
        """Add one pass."""
        for outcome, count in report.outcomes.items():
            self.turns.labels(outcome).inc(count)
        for kind, count in report.errors.items():
            self.errors.labels(kind).inc(count)
        self.taken_over.inc(report.taken_over)
        self.repeated.inc(report.repeated_calls)
        self.heartbeat.set(now.timestamp())
        self.lag.set(report.lag_s)
        self.queue.set(report.waiting)
        if report.turns:
            self.rate.set(report.turns / max(seconds, 1e-6))

    def note_judge(
        self, spent: Spent, short: dict[tuple[str, str], str], outage: Outage | None
    ) -> None:
        """Show what the judge has cost today, which budgets are spent and whether it is away."""
        self.spent.set(spent.usd)
        self.calls.set(spent.calls)
        # Names of projects and rules are not for everybody who may read this page.
        rules = sum(account != NOBODY for account in short)
        self.short.labels("all").set(len(short) - rules)
        self.short.labels("rules").set(rules)
        kind = outage.kind if outage is not None else ""
        for name in self._kinds | ({kind} if kind else set()):
            self.paused.labels(name).set(1 if name == kind else 0)
        self._kinds |= {kind} if kind else set()


class _NameLookups(Collector):
    """What the process says of names that webhooks and probes have looked up."""

    def __init__(self, lookups: Lookups) -> None:
        self._lookups = lookups

    def collect(self) -> Iterable[CounterMetricFamily | GaugeMetricFamily]:
        yield CounterMetricFamily(
            "stagewatch_scorer_name_lookups_late",
            "Webhooks and probes whose deadline passed before a name was resolved.",
            value=self._lookups.late,
        )
        yield GaugeMetricFamily(
            "stagewatch_scorer_name_lookups",
            "Names that are being resolved now, each in a thread.",
            value=self._lookups.under_way,
        )
