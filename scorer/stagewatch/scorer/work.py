"""One pass of the scorer over the store: new and changed turns, then what people flagged."""

from __future__ import annotations

import logging
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

from stagewatch.core.clock import Clock
from stagewatch.core.model import FLAGGING_FEEDBACK, Decision, Turn
from stagewatch.core.store.client import Store
from stagewatch.core.store.feedback import flags_of, rescore_on_demand
from stagewatch.core.store.scores import Evaluated, decisions_of, put_evaluated
from stagewatch.core.store.turns import turns_by_id, undecided_turns
from stagewatch.scorer.decide import Standing, decide
from stagewatch.scorer.evaluate import Evaluation, ScoreConfig, evaluate_turn
from stagewatch.scorer.judges.protocol import Judge
from stagewatch.scorer.metrics.relevance import Mark

log = logging.getLogger("stagewatch.scorer")

BATCH = 100
ATTEMPTS = 3
"""Passes in which a judge may fail on a turn before its decision says `judge_error` for good."""

_FLAG_HORIZON = timedelta(days=30)
_OVERLAP = timedelta(minutes=10)
"""How far a pass looks back behind the last one: clocks of collectors may lag."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What one pass works by. `over_budget` says whether the day's money is spent; `threads` is
    how many turns may wait for the judge at a time.
    """

    rate: float
    lookback: timedelta
    config: ScoreConfig = field(default_factory=ScoreConfig)
    over_budget: Callable[[], bool] = lambda: False
    threads: int = 1


@dataclass(slots=True)
class PassReport:
    """What a pass did: turns by outcome, errors by place, the age of the oldest waiting turn."""

    outcomes: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    lag_s: float = 0.0

    @property
    def turns(self) -> int:
        """How many turns got a decision."""
        return sum(self.outcomes.values())


@dataclass(frozen=True, slots=True)
class _Item:
    turn: Turn
    revision: int
    demanded: bool = False


class Worker:
    """Keeps what must outlive a pass: where the last one ended, and which turns failed before."""

    def __init__(self, store: Store, judge: Judge, clock: Clock, rules: Rules) -> None:
        self._store = store
        self._judge = judge
        self._clock = clock
        self._rules = rules
        self._seen_until: datetime | None = None
        self._failures: Counter[tuple[str, int]] = Counter()
        # Guards `_failures` and the report's error counts against the judge threads.
        self._lock = threading.Lock()

    def run_pass(self, stopping: Callable[[], bool] = lambda: False) -> PassReport:
        """Decide and score everything that waits, in batches, until nothing waits or `stopping`.

        Raises:
            StoreError: the store failed; decisions are written last, so nothing is lost.
        """
        report = PassReport()
        started = self._clock.now()
        for batch in self._batches(started, report):
            self._do(batch, report, stopping)
            if stopping():
                return report
        if not self._failures:
            # Turns that wait for another try must stay within reach of the next pass.
            self._seen_until = started - _OVERLAP
        self._do(self._demanded(started), report, stopping)
        return report

    def _batches(self, now: datetime, report: PassReport) -> Iterator[list[_Item]]:
        after = self._seen_until or now - self._rules.lookback
        done: set[tuple[str, int]] = set()
        while True:
            waiting = undecided_turns(self._store, assembled_after=after, limit=BATCH, now=now)
            if waiting and not done:
                report.lag_s = max(0.0, (now - waiting[0].assembled_at).total_seconds())
            fresh = [p for p in waiting if (p.turn.turn_id, p.revision) not in done]
            if not fresh:
                return
            done.update((p.turn.turn_id, p.revision) for p in fresh)
            yield [_Item(p.turn, p.revision) for p in fresh]
            if len(waiting) < BATCH:
                return

    def _demanded(self, now: datetime) -> list[_Item]:
        ids = rescore_on_demand(self._store, since=now - _FLAG_HORIZON, limit=BATCH)
        if not ids:
            return []
        revisions = newest_revisions(self._store, ids)
        return [_Item(turn, revision, demanded=True) for turn, revision in revisions]

    def _do(self, items: Sequence[_Item], report: PassReport, stopping: Callable[[], bool]) -> None:
        if not items:
            return
        ids = [item.turn.turn_id for item in items]
        earlier = decisions_of(self._store, ids)
        flags = flags_of(self._store, ids)
        flagged = {
            turn_id
            for turn_id, found in flags.items()
            if any(f.reason in FLAGGING_FEEDBACK and f.state != "rejected" for f in found)
        }

        def judge(item: _Item) -> Evaluated | None:
            if stopping():
                return None
            past = earlier.get(item.turn.turn_id)
            standing = _standing(past, flagged=item.turn.turn_id in flagged)
            return self._one(item, standing, report)

        results = [result for result in self._map(judge, items) if result is not None]
        put_evaluated(self._store, results)
        for result in results:
            report.outcomes[result.decision.outcome] += 1

    def _map(
        self, judge: Callable[[_Item], Evaluated | None], items: Sequence[_Item]
    ) -> Iterable[Evaluated | None]:
        if self._rules.threads <= 1:
            return [judge(item) for item in items]
        with ThreadPoolExecutor(self._rules.threads, thread_name_prefix="judge") as pool:
            return list(pool.map(judge, items))

    def _one(self, item: _Item, standing: Standing, report: PassReport) -> Evaluated:
        now = self._clock.now()
        decision = decide(item.turn, standing, rate=self._rules.rate, at=now)
        if decision.outcome != "scored":
            return Evaluated(turn=item.turn, revision=item.revision, decision=decision)
        if self._rules.over_budget():
            spent = replace(decision, outcome="over_budget", why="the day's judge budget is spent")
            return Evaluated(turn=item.turn, revision=item.revision, decision=spent)
        try:
            found = evaluate_turn(
                item.turn,
                self._judge,
                feedback_low=True if standing.flagged else None,
                config=self._rules.config,
                at=now,
            )
        except Exception as error:  # noqa: BLE001
            # One turn that trips a bug must not stop all others. The error's own text may quote
            # the turn, so only its class and place are logged.
            log.error(
                "a turn could not be scored",
                extra={
                    "turn": item.turn.turn_id,
                    "error": type(error).__name__,
                    "at": _place(error),
                },
            )
            with self._lock:
                report.errors[type(error).__name__] += 1
            return self._failed(item, decision, f"scoring failed ({type(error).__name__})")
        if _judge_failed(found):
            with self._lock:
                report.errors["judge"] += 1
            return self._failed(item, decision, "the judge gave no usable reply", found)
        with self._lock:
            self._failures.pop((item.turn.turn_id, item.revision), None)
        return _evaluated(item, decision, found)

    def _failed(
        self, item: _Item, decision: Decision, why: str, found: Evaluation | None = None
    ) -> Evaluated:
        key = (item.turn.turn_id, item.revision)
        with self._lock:
            self._failures[key] += 1
            last = self._failures[key] >= ATTEMPTS
            if last:
                del self._failures[key]
        if not last:
            waiting = replace(decision, outcome="pending", why=f"{why}; will be tried again")
            return Evaluated(turn=item.turn, revision=item.revision, decision=waiting)
        final = replace(decision, outcome="judge_error", why=f"{why} in {ATTEMPTS} tries")
        if found is None:
            return Evaluated(turn=item.turn, revision=item.revision, decision=final)
        return _evaluated(item, final, found)


def _place(error: Exception) -> str:
    """File and line where the error was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""


def newest_revisions(store: Store, turn_ids: Sequence[str]) -> list[tuple[Turn, int]]:
    """(turn, revision) of the newest revision of each turn that is still there."""
    rows = store.rows(
        """SELECT turn_id, max(revision) AS revision FROM turns
           WHERE turn_id IN {ids:Array(String)} GROUP BY turn_id""",
        {"ids": list(turn_ids)},
    )
    revisions = {row["turn_id"]: int(row["revision"]) for row in rows}
    turns = turns_by_id(store, turn_ids)
    return [(turns[i], revisions[i]) for i in turn_ids if i in turns]


def _standing(past: Decision | None, *, flagged: bool) -> Standing:
    if past is None:
        return Standing(flagged=flagged)
    return Standing(True, past.inclusion, past.stratum, flagged)


def _judge_failed(found: Evaluation) -> bool:
    """True when an error of the judge left faithfulness or relevance without a value."""
    return any(
        score.status == "unscored" and score.reason.startswith(("judge_error", "judge_incomplete"))
        for score in found.scores
    )


def _evaluated(item: _Item, decision: Decision, found: Evaluation) -> Evaluated:
    return Evaluated(
        turn=item.turn,
        revision=item.revision,
        decision=decision,
        scores=found.scores,
        claims=found.claims,
        diagnosis=found.diagnosis,
        passed=found.passed,
        relevance=[_code(mark) for mark in (found.relevance[0] if found.relevance else ())],
        fingerprint=found.fingerprint,
    )


def _code(mark: Mark) -> int:
    return -1 if mark is None else int(mark)
