"""One turn through the scorer: screened, read by the free judge, drawn, read by its own judge."""

from __future__ import annotations

import logging
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

from stagewatch.core.model import Decision, Turn
from stagewatch.core.store.scores import Evaluated, PastDecision
from stagewatch.core.store.spending import Spent
from stagewatch.scorer.budget import Budget, Limits, Reservation
from stagewatch.scorer.cascade import FirstReading, first_reading
from stagewatch.scorer.cost import estimate_cost
from stagewatch.scorer.decide import Standing, decide, screen
from stagewatch.scorer.evaluate import Evaluation, ScoreConfig, evaluate_turn
from stagewatch.scorer.judges.asking import Price
from stagewatch.scorer.judges.embedded import EmbeddedJudge
from stagewatch.scorer.judges.fuse import OUTAGES, Fuse
from stagewatch.scorer.judges.protocol import Judge
from stagewatch.scorer.metrics.relevance import Mark
from stagewatch.scorer.plans.selective import SelectiveJudge, tasks_of
from stagewatch.scorer.rules import Rule
from stagewatch.scorer.sampling import Signals
from stagewatch.scorer.thresholds import row_verdict

log = logging.getLogger("stagewatch.scorer")

ATTEMPTS = 3
"""Tries in which a judge may fail on a turn before its decision says `judge_error` for good."""

_TICK = timedelta(milliseconds=1)
_UNDRAWN = frozenset({"filtered", "incomplete", "unscorable"})


@dataclass(frozen=True, slots=True)
class Reader:
    """Who reads turns: the configured judge, and what it costs.

    `paid` judges have a price, a budget and a fuse; `flush` waits until their replies are stored,
    so that no score is stored whose calls would be paid again. `first_pass` has the embedded
    judge, `free`, read every turn before a paid judge is asked.
    """

    judge: Judge
    price: Price | None = None
    budget: Budget | None = None
    fuse: Fuse | None = None
    flush: Callable[[], None] = lambda: None
    first_pass: bool = False
    free: Judge = field(default_factory=EmbeddedJudge)
    config: ScoreConfig = ScoreConfig()

    @property
    def paid(self) -> bool:
        """True when asking the judge is more than work of this machine."""
        return self.judge.name != "embedded"


@dataclass(frozen=True, slots=True)
class Item:
    """A turn to be decided on, with what is known of it."""

    turn: Turn
    revision: int
    past: PastDecision | None = None
    flagged: bool = False
    release_turns: int | None = None

    @property
    def standing(self) -> Standing:
        """The part of the past that a decision rests on."""
        if self.past is None:
            return Standing(flagged=self.flagged)
        past = self.past.decision
        if past.inclusion is None and past.outcome in _UNDRAWN:
            return Standing(flagged=self.flagged)
        return Standing(True, past.inclusion, past.stratum, self.flagged)

    def at(self, now: datetime) -> datetime:
        """`now`, moved behind the decision before: of two scorers' clocks one may lag."""
        if self.past is None:
            return now
        return max(now, self.past.decision.at + _TICK)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A turn with its decision before the rule's judge is asked, and the first pass's reading."""

    item: Item
    rule: Rule | None
    decision: Decision
    first: FirstReading | None = None

    def ended(self, decision: Decision, member: str = "") -> Evaluated:
        """The turn as it is stored without the rule's judge: the first pass's word, if any."""
        found = self.first.evaluation if self.first is not None else None
        return Evaluated(
            turn=self.item.turn,
            revision=self.item.revision,
            decision=decision,
            first_pass=found.scores if found is not None else (),
            claims=found.claims if found is not None else (),
            diagnosis=found.diagnosis if found is not None else None,
            passed=found.passed if found is not None else None,
            relevance=codes(found) if found is not None else (),
            fingerprint=found.fingerprint if found is not None else "",
            counted=False,
            member=member,
        )


class Failures:
    """How often each turn's judge has failed, and how many errors of each kind a pass had."""

    def __init__(self) -> None:
        # Guards both counts against the judge threads.
        self._lock = threading.Lock()
        self._tries: Counter[tuple[str, int]] = Counter()
        self._worked: dict[tuple[str, int], int] = {}
        self.errors: Counter[str] = Counter()

    def note(self, kind: str) -> None:
        """Count an error."""
        with self._lock:
            self.errors[kind] += 1

    def worked_since(self, item: Item, before: int, now: int) -> bool:
        """True when calls have worked since `before`, or since this turn's last outage; the
        counts are of all calls that worked so far.
        """
        key = (item.turn.turn_id, item.revision)
        with self._lock:
            last = self._worked.get(key, before)
            self._worked[key] = now
        return now > min(before, last)

    def is_last(self, item: Item) -> bool:
        """Count a failed try; True when it was the last one."""
        key = (item.turn.turn_id, item.revision)
        with self._lock:
            self._tries[key] += 1
            if self._tries[key] < ATTEMPTS:
                return False
            del self._tries[key]
            self._worked.pop(key, None)
            return True

    def clear(self, item: Item) -> None:
        """The turn is read."""
        with self._lock:
            self._tries.pop((item.turn.turn_id, item.revision), None)
            self._worked.pop((item.turn.turn_id, item.revision), None)

    def take_errors(self) -> Counter[str]:
        """The errors since the last call."""
        with self._lock:
            found, self.errors = self.errors, Counter()
        return found


class TurnReader:
    """Reads single turns with a `Reader`; safe from several threads."""

    def __init__(self, reader: Reader, now: Callable[[], datetime]) -> None:
        self.reader = reader
        self._now = now
        self.failures = Failures()

    def prepare(self, item: Item, rule: Rule | None) -> Prepared:
        """Decide on a turn; the embedded judge reads it where a first pass is due."""
        at = item.at(self._now())
        standing = item.standing
        ended = screen(item.turn, standing, rule, at)
        if ended is not None:
            return Prepared(item, rule, ended)
        first: FirstReading | None = None
        if self._first_due(rule):
            try:
                first = first_reading(
                    item.turn,
                    self.reader.free,
                    feedback_low=_low(item),
                    config=self.reader.config,
                    at=at,
                )
            except Exception as error:  # noqa: BLE001 - as in `read`
                self._unexpected(item, error)
        signals = Signals(
            item.release_turns, first.failed if first else None, first.unsure if first else None
        )
        return Prepared(item, rule, decide(item.turn, standing, rule, signals, at=at), first)

    def _first_due(self, rule: Rule | None) -> bool:
        wanted = self.reader.first_pass and self.reader.paid
        return wanted or (rule is not None and rule.needs_first_pass)

    def is_paid(self, prepared: Prepared) -> bool:
        """True when the decision is to ask a judge that costs money."""
        free = prepared.rule is not None and prepared.rule.judge == "embedded"
        return prepared.decision.outcome == "scored" and self.reader.paid and not free

    def read(self, prepared: Prepared) -> tuple[Evaluated, Spent]:
        """Have the rule's judge read a turn that was decided `scored`; what to store, and what
        was paid for it.
        """
        item, rule = prepared.item, prepared.rule
        if not self.is_paid(prepared):
            return self._free(prepared), Spent()
        reserved = self._reserve(prepared)
        if isinstance(reserved, str):
            spent = replace(prepared.decision, outcome="over_budget", why=reserved)
            return prepared.ended(spent), Spent()
        worked = self.reader.fuse.successes if self.reader.fuse is not None else 0
        judge = self._judge(rule)
        if reserved is None or self.reader.budget is None:
            found = self._evaluate(item, judge)
        else:
            with self.reader.budget.paying(reserved):
                found = self._evaluate(item, judge)
        paid = reserved.used if reserved is not None else Spent()
        return self._judged(prepared, found, worked), paid

    def _free(self, prepared: Prepared) -> Evaluated:
        if prepared.first is not None:
            found: Evaluation | str = prepared.first.evaluation
        else:
            found = self._evaluate(prepared.item, self._judge(prepared.rule))
        return self._judged(replace(prepared, first=None), found, 0)

    def _judge(self, rule: Rule | None) -> Judge:
        judge = self.reader.judge
        if rule is not None and rule.judge == "embedded" and self.reader.paid:
            judge = self.reader.free
        if rule is None or not rule.metrics:
            return judge
        return SelectiveJudge(judge, tasks_of(rule.metrics))

    def _reserve(self, prepared: Prepared) -> Reservation | str | None:
        budget, price, rule = self.reader.budget, self.reader.price, prepared.rule
        if budget is None or price is None:
            return None
        metrics = rule.metrics if rule is not None else ()
        guess = estimate_cost(
            [prepared.item.turn],
            price,
            judge_depth=self.reader.config.judge_depth,
            tasks=tasks_of(metrics) if metrics else None,
        )
        limits = Limits(rule.usd_per_day, rule.calls_per_day) if rule is not None else Limits()
        account = (prepared.item.turn.project, rule.name if rule is not None else "feedback")
        return budget.reserve(account, limits, Spent(guess.calls, guess.usd))

    def _evaluate(self, item: Item, judge: Judge) -> Evaluation | str:
        try:
            return evaluate_turn(
                item.turn, judge, feedback_low=_low(item), config=self.reader.config,
                at=item.at(self._now()),
            )  # fmt: skip
        except Exception as error:  # noqa: BLE001
            self._unexpected(item, error)
            return f"scoring failed ({type(error).__name__})"

    def _unexpected(self, item: Item, error: Exception) -> None:
        """One turn that trips a bug must not stop all others. The error's own text may quote the
        turn, so only its class and place are logged.
        """
        log.error(
            "a turn could not be scored",
            extra={"turn": item.turn.turn_id, "error": type(error).__name__, "at": _place(error)},
        )
        self.failures.note(type(error).__name__)

    def _judged(self, prepared: Prepared, found: Evaluation | str, worked: int) -> Evaluated:
        if isinstance(found, str):
            return self._failed(prepared, found, None)
        metrics = prepared.rule.metrics if prepared.rule is not None else ()
        found = only(found, metrics, self.reader.config) if metrics else found
        away = _outage(found)
        if away and not self._others_work(prepared.item, worked):
            why = f"the judge cannot be used ({away}); waits until it can"
            return prepared.ended(replace(prepared.decision, outcome="pending", why=why))
        if _judge_failed(found):
            self.failures.note("judge")
            return self._failed(prepared, "the judge gave no usable reply", found)
        self.failures.clear(prepared.item)
        return self._evaluated(prepared, prepared.decision, found)

    def _others_work(self, item: Item, worked: int) -> bool:
        """True when calls have worked meanwhile: then the turn is to blame, not the server."""
        fuse = self.reader.fuse
        if fuse is None:
            return True
        since = self.failures.worked_since(item, worked, fuse.successes)
        return since and fuse.state() is None

    def _failed(self, prepared: Prepared, why: str, found: Evaluation | None) -> Evaluated:
        if not self.failures.is_last(prepared.item):
            why = f"{why}; will be tried again"
            return prepared.ended(replace(prepared.decision, outcome="pending", why=why))
        final = replace(prepared.decision, outcome="judge_error", why=f"{why} in {ATTEMPTS} tries")
        return self._evaluated(prepared, final, found) if found else prepared.ended(final)

    def _evaluated(self, prepared: Prepared, decision: Decision, found: Evaluation) -> Evaluated:
        first = prepared.first.evaluation.scores if prepared.first is not None else ()
        read = {(s.metric, s.fingerprint) for s in first}
        return Evaluated(
            turn=prepared.item.turn,
            revision=prepared.item.revision,
            decision=decision,
            # What the first pass has by rule stands there with the inclusion of every turn.
            scores=[s for s in found.scores if (s.metric, s.fingerprint) not in read],
            first_pass=first,
            claims=found.claims,
            diagnosis=found.diagnosis,
            passed=found.passed,
            relevance=codes(found),
            fingerprint=found.fingerprint,
        )


def only(found: Evaluation, metrics: Collection[str], config: ScoreConfig) -> Evaluation:
    """`found` with those scores alone that a rule asks for or that need no judge."""
    kept = tuple(s for s in found.scores if s.metric in metrics or s.basis == "rule")
    verdict = row_verdict(kept, config.thresholds)
    passed = {"pass": True, "fail": False}.get(verdict)
    return replace(found, scores=kept, verdict=verdict, passed=passed)


def codes(found: Evaluation) -> list[int]:
    """Relevance marks of the first retrieved list as stored: 1, 0, -1 not judged."""
    return [_code(mark) for mark in (found.relevance[0] if found.relevance else ())]


def _low(item: Item) -> bool | None:
    return True if item.flagged else None


def _place(error: Exception) -> str:
    """File and line where the error was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""


def _outage(found: Evaluation) -> str:
    """The error of the judge's server that left a score without value, "" when none did."""
    for score in found.scores:
        kind = score.reason.partition(": ")[2]
        if score.status == "unscored" and kind in OUTAGES:
            return kind
    return ""


def _judge_failed(found: Evaluation) -> bool:
    """True when an error of the judge left faithfulness or relevance without a value."""
    return any(
        score.status == "unscored" and score.reason.startswith(("judge_error", "judge_incomplete"))
        for score in found.scores
    )


def _code(mark: Mark) -> int:
    return -1 if mark is None else int(mark)
