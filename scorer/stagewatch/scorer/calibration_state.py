"""Calibration of the judge in force, from the hand labels and scores in the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stagewatch.core.codec import from_json
from stagewatch.core.model import Claim
from stagewatch.core.store.client import Store
from stagewatch.scorer.calibrate import Calibration, Pair, calibrate

LABEL_OF: Mapping[str, str] = {
    "faithfulness": "faithfulness",
    "first_relevant_rank": "chunk_relevance",
    "reciprocal_rank": "chunk_relevance",
    "retrieved_recall": "chunk_relevance",
    "context_recall": "chunk_relevance",
    "context_precision": "chunk_relevance",
    "context_precision_at_k": "chunk_relevance",
    "context_sufficiency": "context_sufficiency",
    "rewrite_fidelity": "rewrite_fidelity",
    "answer_relevancy": "answer_relevancy",
}
"""Which hand labels stand behind a metric: ranks and recalls rest on marks of chunks."""

_VERDICTS = ("pass", "fail")
LABELS: Mapping[str, tuple[str, ...]] = {
    "faithfulness": ("SUPPORTED", "ABSENT", "CONTRADICTED"),
    "chunk_relevance": ("relevant", "not_relevant"),
    "context_sufficiency": _VERDICTS,
    "rewrite_fidelity": _VERDICTS,
    "answer_relevancy": _VERDICTS,
}
"""Kind of hand label → the labels it may have: those that the judge gives, so that the two can be
compared.
"""

LABELLED_METRICS = tuple(LABELS)
_SOURCE_METRIC = {"chunk_relevance": "first_relevant_rank"}


def current_fingerprint(store: Store, project: str, label_metric: str) -> str | None:
    """Fingerprint of the newest judge score behind these labels, that of a configured judge before
    the first pass's; None when no judge has spoken.
    """
    metric = _SOURCE_METRIC.get(label_metric, label_metric)
    found = store.value(
        """SELECT fingerprint FROM scores WHERE project = {project:String}
           AND metric = {metric:String} AND basis = 'judge'
           ORDER BY stratum = 'first_pass', at DESC LIMIT 1""",
        {"project": project, "metric": metric},
    )
    return str(found) if found else None


def _labels(store: Store, project: str, metric: str) -> list[dict[str, Any]]:
    """Hand labels, the newest of each (turn, item) whoever gave it."""
    return store.rows(
        """SELECT turn_id, item, label FROM labels FINAL
           WHERE project = {project:String} AND metric = {metric:String}
           ORDER BY at DESC LIMIT 1 BY turn_id, item""",
        {"project": project, "metric": metric},
    )


def _pairs(
    store: Store, project: str, metric: str, fingerprint: str
) -> tuple[list[Pair], str | None]:
    """Labelled items with what the judge said of them, and the fingerprint that said it."""
    labels = _labels(store, project, metric)
    ids = sorted({row["turn_id"] for row in labels})
    readers: Mapping[str, Callable[[], dict[tuple[str, str], tuple[str, str]]]] = {
        "faithfulness": lambda: _claim_labels(store, ids),
        "chunk_relevance": lambda: _chunk_labels(store, ids),
    }
    said = readers.get(metric, lambda: _verdict_labels(store, ids, metric))()
    pairs, fingerprints = [], set()
    for row in labels:
        found = said.get((row["turn_id"], row["item"]))
        if found is None:
            continue
        judge, by = found
        fingerprints.add(by)
        pairs.append(Pair(row["item"], row["label"], judge, row["turn_id"]))
    old = sorted(fingerprints - {fingerprint})
    return pairs, (old[0] if old else fingerprint)


def _claim_labels(store: Store, ids: list[str]) -> dict[tuple[str, str], tuple[str, str]]:
    rows = store.rows(
        """SELECT turn_id, fingerprint, body FROM claims WHERE turn_id IN {ids:Array(String)}
           ORDER BY at DESC LIMIT 1 BY turn_id""",
        {"ids": ids},
    )
    found = {}
    for row in rows:
        for claim in from_json(list[Claim], row["body"]):
            found[(row["turn_id"], claim.text)] = (str(claim.label), row["fingerprint"])
    return found


def _chunk_labels(store: Store, ids: list[str]) -> dict[tuple[str, str], tuple[str, str]]:
    rows = store.rows(
        """SELECT d.turn_id AS turn_id, d.relevance AS relevance, d.fingerprint AS fingerprint,
                  t.chunk_ids AS chunk_ids
           FROM (SELECT turn_id, relevance, fingerprint FROM diagnoses
                 WHERE turn_id IN {ids:Array(String)} ORDER BY at DESC LIMIT 1 BY turn_id) AS d
           INNER JOIN (SELECT turn_id, chunk_ids FROM turns
                 WHERE turn_id IN {ids:Array(String)} ORDER BY revision DESC LIMIT 1 BY turn_id)
                 AS t ON t.turn_id = d.turn_id""",
        {"ids": ids},
    )
    found = {}
    for row in rows:
        for chunk_id, mark in zip(row["chunk_ids"], row["relevance"], strict=False):
            if mark >= 0 and chunk_id:
                label = "relevant" if mark else "not_relevant"
                found[(row["turn_id"], chunk_id)] = (label, row["fingerprint"])
    return found


def _verdict_labels(
    store: Store, ids: list[str], metric: str
) -> dict[tuple[str, str], tuple[str, str]]:
    rows = store.rows(
        """SELECT turn_id, verdict, fingerprint FROM scores
           WHERE turn_id IN {ids:Array(String)} AND metric = {metric:String}
             AND status = 'scored'
           ORDER BY stratum = 'first_pass', at DESC LIMIT 1 BY turn_id""",
        {"ids": ids, "metric": metric},
    )
    return {(row["turn_id"], ""): (row["verdict"], row["fingerprint"]) for row in rows}


def calibration_of(store: Store, project: str, label_metric: str) -> Calibration | None:
    """Calibration of the judge in force on one kind of label; None when it has not spoken."""
    fingerprint = current_fingerprint(store, project, label_metric)
    if fingerprint is None:
        return None
    pairs, labelled = _pairs(store, project, label_metric, fingerprint)
    return calibrate(label_metric, pairs, fingerprint=fingerprint, labelled_fingerprint=labelled)


def calibration_report(store: Store, project: str) -> list[Calibration]:
    """Calibrations of every kind of label that the judge in force has spoken on."""
    found = [calibration_of(store, project, metric) for metric in LABELLED_METRICS]
    return [report for report in found if report is not None]


def calibration_check(store: Store, project: str) -> Callable[[str, str], bool]:
    """(metric, fingerprint) → whether that judge counts for alerts and gates in this project."""
    known: dict[str, Calibration | None] = {}

    def check(metric: str, fingerprint: str) -> bool:
        label = LABEL_OF.get(metric, metric)
        if label not in known:
            known[label] = calibration_of(store, project, label)
        found = known[label]
        return (
            found is not None and found.state == "calibrated" and found.fingerprint == fingerprint
        )

    return check


def uncalibrated_metrics(store: Store, project: str) -> list[str]:
    """Kinds of labels on which the judge in force has spoken and is not calibrated."""
    names = {"faithfulness": "faithfulness", "chunk_relevance": "passage relevance"}
    found = []
    for metric, name in names.items():
        report = calibration_of(store, project, metric)
        if report is not None and report.state != "calibrated":
            found.append(name)
    return found


def labels_of_turn(store: Store, turn_id: str) -> dict[tuple[str, str], str]:
    """(kind of label, item) → the newest hand label of a turn."""
    rows = store.rows(
        """SELECT metric, item, label FROM labels FINAL WHERE turn_id = {id:String}
           ORDER BY at DESC LIMIT 1 BY metric, item""",
        {"id": turn_id},
    )
    return {(row["metric"], row["item"]): row["label"] for row in rows}
