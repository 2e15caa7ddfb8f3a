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


def _dimensions(turn: Turn) -> dict[str, Any]:
    return {
        "service": turn.service,
        "release": turn.release or "",
        "index_version": turn.index_version or "",
        "prompt_version": turn.prompt_version or "",
    }


def _score_row(item: Evaluated, score: Score) -> dict[str, Any]:
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
        "inclusion": item.decision.inclusion,
        "stratum": item.decision.stratum,
        "conversation_id": item.turn.conversation_id or "",
        **_dimensions(item.turn),
    }


def put_evaluated(store: Store, items: Sequence[Evaluated]) -> None:
    """Store evaluations, the decisions last."""
    store.put("scores", [_score_row(item, score) for item in items for score in item.scores])
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
                "inclusion": item.decision.inclusion,
                **_dimensions(item.turn),
            }
            for item, key in keyed
            if item.diagnosis
        ],
    )
    put_decisions(store, [(item.turn, item.revision, item.decision) for item in items])


def put_decisions(store: Store, items: Iterable[tuple[Turn, int, Decision]]) -> None:
    """Store (turn, revision, decision) triples."""
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
            }
            for turn, revision, decision in items
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
    """The newest score of each metric of each turn, metrics in alphabetical order."""
    if not turn_ids:
        return {}
    found = store.rows(
        """SELECT * FROM scores WHERE turn_id IN {ids:Array(String)}
           ORDER BY at DESC LIMIT 1 BY turn_id, metric""",
        {"ids": list(turn_ids)},
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
    if not turn_ids:
        return {}
    found = store.rows(
        """SELECT turn_id, outcome, rule, inclusion, stratum, why, at FROM decisions
           WHERE turn_id IN {ids:Array(String)} ORDER BY at DESC LIMIT 1 BY turn_id""",
        {"ids": list(turn_ids)},
    )
    return {
        row["turn_id"]: Decision(
            outcome=row["outcome"],
            rule=row["rule"],
            inclusion=row["inclusion"],
            why=row["why"],
            at=row["at"].replace(tzinfo=UTC),
            stratum=row["stratum"],
        )
        for row in found
    }


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
    store: Store, project: str, metric: str, since: datetime, until: datetime
) -> list[Reading]:
    """Live readings of a metric in [since, until), oldest turn first.

    Only turns that were sampled: what feedback added (inclusion none) is in no live estimate.
    """
    found = store.rows(
        """SELECT turn_id, started_at, status, value, verdict, hard_fail, reason, fingerprint,
                  basis, threshold, inclusion, stratum, conversation_id,
                  service, release, index_version, prompt_version
           FROM scores FINAL
           WHERE project = {project:String} AND metric = {metric:String}
             AND started_at >= {since:DateTime64(6, 'UTC')}
             AND started_at < {until:DateTime64(6, 'UTC')}
             AND inclusion IS NOT NULL
           ORDER BY started_at, turn_id, at""",
        {"project": project, "metric": metric, "since": since, "until": until},
    )
    return [
        Reading(
            turn_id=row["turn_id"],
            at=row["started_at"].replace(tzinfo=UTC),
            status=row["status"],
            value=row["value"],
            verdict=row["verdict"],
            hard_fail=row["hard_fail"],
            reason=row["reason"],
            fingerprint=row["fingerprint"],
            basis=row["basis"],
            threshold=row["threshold"],
            inclusion=row["inclusion"],
            stratum=row["stratum"],
            conversation_id=row["conversation_id"],
            dimensions={
                name: row[name]
                for name in ("service", "release", "index_version", "prompt_version")
            },
        )
        for row in found
    ]
