"""Scores, claims, diagnoses and decisions: written by the scorer, read by API and drift.

Idempotent by (turn, metric, fingerprint): writing an evaluation twice changes nothing a reader
sees. The decision is written last, so a crash before it means the turn is simply scored again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from stagewatch.core.codec import from_json, to_text
from stagewatch.core.model import Claim, Decision, Diagnosis, Score, Turn
from stagewatch.core.store.client import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """One turn with everything the scorer has to say of it.

    `relevance` marks the chunks of the first retrieved list in rank order: 1 relevant, 0 not,
    -1 not judged. `passed` is the turn's verdict over all metrics; None when one is unscored.
    `first_pass` holds scores of the free judge where another judge has the last word; `counted`
    is False when diagnosis and verdict are the first pass's own: shown, and in no estimate.
    `member` names the scorer that decided, or has a pending turn in hand.
    """

    turn: Turn
    revision: int
    decision: Decision
    scores: Sequence[Score] = ()
    claims: Sequence[Claim] = ()
    diagnosis: Diagnosis | None = None
    passed: bool | None = None
    relevance: Sequence[int] = ()
    fingerprint: str = ""
    first_pass: Sequence[Score] = ()
    counted: bool = True
    member: str = ""


FIRST_PASS = "first_pass"  # noqa: S105 - no password
"""Stratum of the free judge's scores beside a configured judge: every turn has them, so their
inclusion is 1, and no series of the configured judge takes them in."""


def _dimensions(turn: Turn) -> dict[str, Any]:
    return {
        "service": turn.service,
        "release": turn.release or "",
        "index_version": turn.index_version or "",
        "prompt_version": turn.prompt_version or "",
    }


def _score_row(item: Evaluated, score: Score, *, first: bool = False) -> dict[str, Any]:
    # A rule reads every turn in the first pass, so its scores are the live ones.
    stratum = (FIRST_PASS if score.basis == "judge" else "uniform") if first else None
    return {
        "project": item.turn.project,
        "turn_id": item.turn.turn_id,
        "started_at": item.turn.started_at,
        "metric": score.metric,
        "status": score.status,
        "value": score.value,
        "verdict": score.verdict or "",
        "hard_fail": score.hard_fail,
        "basis": score.basis,
        "judge": score.judge or "",
        "fingerprint": score.fingerprint or "",
        "threshold": score.threshold,
        "reason": score.reason,
        "at": score.at or item.decision.at,
        "revision": item.revision,
        "inclusion": 1.0 if first else item.decision.inclusion,
        "stratum": stratum or item.decision.stratum,
        "conversation_id": item.turn.conversation_id or "",
        **_dimensions(item.turn),
    }


def put_evaluated(store: Store, items: Sequence[Evaluated]) -> None:
    """Store evaluations, the decisions last."""
    store.put(
        "scores",
        [
            *(_score_row(item, s, first=True) for item in items for s in item.first_pass),
            *(_score_row(item, s) for item in items for s in item.scores),
        ],
    )
    keyed = [
        (
            item,
            {
                "project": item.turn.project,
                "turn_id": item.turn.turn_id,
                "started_at": item.turn.started_at,
                "at": item.decision.at,
            },
        )
        for item in items
    ]
    store.put(
        "claims",
        [
            {**key, "fingerprint": item.fingerprint, "body": to_text(list(item.claims))}
            for item, key in keyed
            if item.claims
        ],
    )
    store.put(
        "diagnoses",
        [
            {
                **key,
                "stage": item.diagnosis.stage,
                "why": item.diagnosis.why,
                "missing": list(item.diagnosis.missing),
                "passed": item.passed,
                "relevance": list(item.relevance),
                "fingerprint": item.fingerprint,
                "inclusion": item.decision.inclusion if item.counted else None,
                **_dimensions(item.turn),
            }
            for item, key in keyed
            if item.diagnosis
        ],
    )
    put_decisions(store, [(i.turn, i.revision, i.decision, i.member) for i in items])


def put_decisions(store: Store, items: Iterable[tuple[Turn, int, Decision, str]]) -> None:
    """Store (turn, revision, decision, member that has it in hand or "")."""
    store.put(
        "decisions",
        [
            {
                "project": turn.project,
                "turn_id": turn.turn_id,
                "started_at": turn.started_at,
                "outcome": decision.outcome,
                "rule": decision.rule,
                "inclusion": decision.inclusion,
                "stratum": decision.stratum,
                "why": decision.why,
                "revision": revision,
                "at": decision.at,
                "member": member,
            }
            for turn, revision, decision, member in items
        ],
    )


def _score(row: Mapping[str, Any]) -> Score:
    return Score(
        metric=row["metric"],
        status=row["status"],
        value=row["value"],
        verdict=row["verdict"] or None,
        hard_fail=row["hard_fail"],
        basis=row["basis"],
        judge=row["judge"] or None,
        fingerprint=row["fingerprint"] or None,
        reason=row["reason"],
        at=row["at"].replace(tzinfo=UTC),
        threshold=row["threshold"],
    )


def scores_of(store: Store, turn_ids: Sequence[str]) -> dict[str, list[Score]]:
    """The score that counts of each metric of each turn, metrics in alphabetical order.

    Of the newest revision of the turn the configured judge's word, else the first pass's; a
    judge that gave no value stands back behind one that did.
    """
    if not turn_ids:
        return {}
    found = store.rows(
        """SELECT * FROM scores WHERE turn_id IN {ids:Array(String)}
           ORDER BY revision DESC, status = 'unscored', stratum = {first:String}, at DESC
           LIMIT 1 BY turn_id, metric""",
        {"ids": list(turn_ids), "first": FIRST_PASS},
    )
    grouped: dict[str, list[Score]] = defaultdict(list)
    for row in sorted(found, key=lambda row: str(row["metric"])):
        grouped[row["turn_id"]].append(_score(row))
    return dict(grouped)


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """A stored diagnosis with the verdict and relevance marks that came with it."""

    diagnosis: Diagnosis
    passed: bool | None
    relevance: tuple[int, ...]
    fingerprint: str
    at: datetime


def diagnoses_of(store: Store, turn_ids: Sequence[str]) -> dict[str, Diagnosed]:
    """The newest diagnosis of each turn."""
    if not turn_ids:
        return {}
    found = store.rows(
        """SELECT turn_id, stage, why, missing, passed, relevance, fingerprint, at FROM diagnoses
           WHERE turn_id IN {ids:Array(String)} ORDER BY at DESC LIMIT 1 BY turn_id""",
        {"ids": list(turn_ids)},
    )
    return {
        row["turn_id"]: Diagnosed(
            Diagnosis(row["stage"], row["why"], tuple(row["missing"])),
            row["passed"],
            tuple(row["relevance"]),
            row["fingerprint"],
            row["at"].replace(tzinfo=UTC),
        )
        for row in found
    }


def claims_of(store: Store, turn_id: str) -> list[Claim]:
    """The claims of the newest evaluation of a turn."""
    found = store.row(
        "SELECT body FROM claims WHERE turn_id = {id:String} ORDER BY at DESC LIMIT 1",
        {"id": turn_id},
    )
    return from_json(list[Claim], found["body"]) if found else []


def decisions_of(store: Store, turn_ids: Sequence[str]) -> dict[str, Decision]:
    """The newest decision of each turn."""
    return {turn_id: past.decision for turn_id, past in past_decisions(store, turn_ids).items()}


@dataclass(frozen=True, slots=True)
class PastDecision:
    """A stored decision, the turn's revision it was made on, and who has the turn in hand."""

    decision: Decision
    revision: int
    member: str


def past_decisions(store: Store, turn_ids: Sequence[str]) -> dict[str, PastDecision]:
    """The newest decision of each turn with what the scorer needs beside it."""
    if not turn_ids:
        return {}
    found = store.rows(
        """SELECT turn_id, outcome, rule, inclusion, stratum, why, at, revision, member
           FROM decisions WHERE turn_id IN {ids:Array(String)}
           ORDER BY at DESC LIMIT 1 BY turn_id""",
        {"ids": list(turn_ids)},
    )
    return {row["turn_id"]: _past(row) for row in found}


def _past(row: Mapping[str, Any]) -> PastDecision:
    decision = Decision(
        outcome=row["outcome"],
        rule=row["rule"],
        inclusion=row["inclusion"],
        why=row["why"],
        at=row["at"].replace(tzinfo=UTC),
        stratum=row["stratum"],
    )
    return PastDecision(decision, int(row["revision"]), row["member"])


def rule_counts(store: Store, project: str, since: datetime) -> dict[str, dict[str, int]]:
    """Rule name → outcome → turns decided since then."""
    found = store.rows(
        """SELECT rule, outcome, count() AS n FROM decisions FINAL
           WHERE project = {project:String} AND at >= {since:DateTime64(3, 'UTC')}
           GROUP BY rule, outcome""",
        {"project": project, "since": since},
    )
    counts: dict[str, dict[str, int]] = defaultdict(dict)
    for row in found:
        counts[row["rule"]][row["outcome"]] = int(row["n"])
    return dict(counts)


def read_by(store: Store, turns: Mapping[str, int], fingerprint: str) -> set[str]:
    """Those of `turns` (id → revision) that the judge of this fingerprint has read since then."""
    found = store.rows(
        """SELECT turn_id, max(revision) AS revision FROM scores
           WHERE turn_id IN {ids:Array(String)} AND fingerprint = {fingerprint:String}
             AND status != 'unscored'
           GROUP BY turn_id""",
        {"ids": list(turns), "fingerprint": fingerprint},
    )
    return {row["turn_id"] for row in found if int(row["revision"]) >= turns[row["turn_id"]]}


@dataclass(frozen=True, slots=True)
class Reading:
    """One scored or unscored turn of one metric, as estimates and drift read it."""

    turn_id: str
    at: datetime
    status: str
    value: float | None
    verdict: str
    hard_fail: bool
    reason: str
    fingerprint: str
    basis: str
    threshold: float | None
    inclusion: float
    stratum: str
    conversation_id: str
    dimensions: dict[str, str] = field(default_factory=dict)


def readings(
    store: Store,
    project: str,
    metric: str,
    since: datetime,
    until: datetime,
    *,
    first_pass: bool = False,
) -> list[Reading]:
    """Live readings of a metric in [since, until), oldest turn first.

    Only turns that were sampled: what feedback added (inclusion none) is in no live estimate.
    With `first_pass` the free judge's readings of all turns instead of the configured judge's.
    """
    found = store.rows(
        """SELECT turn_id, started_at, status, value, verdict, hard_fail, reason, fingerprint,
                  basis, threshold, inclusion, stratum, conversation_id,
                  service, release, index_version, prompt_version
           FROM scores FINAL
           WHERE project = {project:String} AND metric = {metric:String}
             AND started_at >= {since:DateTime64(6, 'UTC')}
             AND started_at < {until:DateTime64(6, 'UTC')}
             AND inclusion IS NOT NULL AND (stratum = {first:String}) = {first_pass:Bool}
           ORDER BY started_at, turn_id, at""",
        {
            "project": project,
            "metric": metric,
            "since": since,
            "until": until,
            "first": FIRST_PASS,
            "first_pass": first_pass,
        },
    )
    return [
        reading_of(
            row,
            turn_id=row["turn_id"],
            at=row["started_at"],
            inclusion=row["inclusion"],
            stratum=row["stratum"],
            conversation_id=row["conversation_id"],
            dimensions=_DIMENSIONS,
        )
        for row in found
    ]


_DIMENSIONS = ("service", "release", "index_version", "prompt_version")


def reading_of(
    row: Mapping[str, Any],
    *,
    turn_id: str,
    at: datetime,
    inclusion: float,
    stratum: str,
    conversation_id: str,
    dimensions: Sequence[str],
) -> Reading:
    """A reading from a row with the columns of a score; `at` is UTC as the store gives it."""
    return Reading(
        turn_id=turn_id,
        at=at.replace(tzinfo=UTC),
        status=row["status"],
        value=row["value"],
        verdict=row["verdict"],
        hard_fail=row["hard_fail"],
        reason=row["reason"],
        fingerprint=row["fingerprint"],
        basis=row["basis"],
        threshold=row["threshold"],
        inclusion=inclusion,
        stratum=stratum,
        conversation_id=conversation_id,
        dimensions={name: row[name] for name in dimensions},
    )


def stages_between(store: Store, project: str, since: datetime, until: datetime) -> dict[str, str]:
    """The diagnosed stage of each turn that started in [since, until), by turn id."""
    found = store.rows(
        """SELECT turn_id, stage FROM diagnoses
           WHERE project = {project:String}
             AND started_at >= {since:DateTime64(6, 'UTC')}
             AND started_at < {until:DateTime64(6, 'UTC')}
           ORDER BY at DESC LIMIT 1 BY turn_id""",
        {"project": project, "since": since, "until": until},
    )
    return {row["turn_id"]: row["stage"] for row in found}
