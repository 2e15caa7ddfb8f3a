"""The first page's numbers, read in a handful of queries."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from stagewatch.api.scoring import scorer_banners, scorer_states
from stagewatch.api.views import summaries
from stagewatch.core.service import Context
from stagewatch.core.store.alerts import list_alerts
from stagewatch.core.store.client import Store
from stagewatch.core.store.turns import (
    TurnFilter,
    count_turns,
    list_turns,
    number_of_turns,
    question_starts,
)
from stagewatch.scorer.alerts import worst_first
from stagewatch.scorer.calibration_state import uncalibrated_metrics
from stagewatch.scorer.estimate import few_of, mean_estimate

_VERDICTS = """
SELECT d.passed AS passed, d.inclusion AS inclusion, d.stage AS stage,
       t.conversation_id AS conversation_id
FROM (SELECT turn_id, passed, inclusion, stage FROM diagnoses FINAL
      WHERE project = {project:String} AND started_at >= {since:DateTime64(6, 'UTC')}
        AND started_at < {until:DateTime64(6, 'UTC')} AND inclusion IS NOT NULL) AS d
LEFT JOIN (SELECT turn_id, conversation_id FROM turns FINAL
      WHERE project = {project:String} AND started_at >= {since:DateTime64(6, 'UTC')}
        AND started_at < {until:DateTime64(6, 'UTC')} AND replaced_by = '') AS t
  ON t.turn_id = d.turn_id
"""


def load_overview(store: Store, project: str, since: datetime, until: datetime) -> dict[str, Any]:
    """What the overview shows for [since, until)."""
    wanted = TurnFilter(project=project, since=since, until=until)
    total = number_of_turns(store, wanted)
    rows = store.rows(_VERDICTS, {"project": project, "since": since, "until": until})
    known = [row for row in rows if row["passed"] is not None]
    passed = mean_estimate(
        [1.0 if row["passed"] else 0.0 for row in known],
        [row["inclusion"] for row in known],
        [row["conversation_id"] for row in known],
    )
    flagged = TurnFilter(project=project, flagged=True)
    failing, _ = list_turns(
        store, TurnFilter(project=project, since=since, until=until, flagged=True), limit=8
    )
    alerts = [
        alert
        for alert in list_alerts(store, project, until)
        # What recovered a moment ago is news too.
        if alert["state"] == "open" or (alert["state"] == "closed" and _closed_after(alert, since))
    ]
    grouped = group_alerts(alerts)
    first = store.value(
        """SELECT min(started_at) FROM turns WHERE project = {project:String}
           AND started_at >= {since:DateTime64(6, 'UTC')} AND replaced_by = '' AND NOT probe""",
        {"project": project, "since": since},
    )
    return {
        # Charts begin where the data does, so that a young project is not a dot at the edge.
        "chart_since": max(since, first.replace(tzinfo=UTC)) if total else since,
        "total": total,
        "passed": passed,
        "few": few_of("pass_rate", passed) if passed else "",
        "unscored": len(rows) - len(known),
        "stages": _stage_counts(rows),
        "open_flags": count_turns(store, flagged)[0],
        "alerts": grouped,
        "questions": question_starts(store, (t for a in grouped[:3] for t in a["turn_ids"][:5])),
        "recent": summaries(store, failing),
        "uncalibrated": uncalibrated_metrics(store, project),
        "scorer_banners": scorer_banners(scorer_states(store), project),
        "since": since,
        "until": until,
    }


def newest_turn(store: Store, project: str) -> datetime | None:
    """When the newest live turn began, None when there never was one."""
    found = store.value(
        """SELECT maxOrNull(started_at) FROM turns
           WHERE project = {project:String} AND replaced_by = '' AND NOT probe""",
        {"project": project},
    )
    return found.replace(tzinfo=UTC) if found else None


def otlp_ports(context: Context) -> tuple[int, int]:
    """Ports for OTLP over HTTP and over gRPC: those listened on, or those that are set where the
    collector is another process.
    """
    known: Mapping[str, str] = context.shared.get("addresses", {})
    settings = context.settings
    wanted = (("otlp http", settings.otlp_http_port), ("otlp grpc", settings.otlp_grpc_port))
    http, grpc = (
        urlsplit(known[name]).port or port if name in known else port for name, port in wanted
    )
    return http, grpc


def _closed_after(alert: dict[str, Any], since: datetime) -> bool:
    return datetime.fromisoformat(alert["closed_at"]) >= since


def group_alerts(alerts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Alerts of one stage that one change brought, as one: worst first, `also` has the others.

    A broken deployment moves several metrics; a person wants to read of it once.
    """
    groups: dict[tuple[str, str, str, tuple[str, ...]], dict[str, Any]] = {}
    for alert in worst_first(alerts):
        # What a probe found is not what customers met.
        key = (alert["state"], alert["stage"], alert.get("probe", ""), tuple(alert["near"]))
        if key in groups:
            groups[key]["also"].append(alert["sentence"].split(": ", 1)[1].split(" since ")[0])
        else:
            groups[key] = {**alert, "also": []}
    return list(groups.values())


def _stage_counts(rows: list[dict[str, Any]]) -> list[tuple[str, float, int]]:
    """(stage, weighted share of turns, number seen), biggest first, `ok` left out."""
    total = sum(1 / row["inclusion"] for row in rows)
    weights: dict[str, float] = {}
    counts: dict[str, int] = {}
    for row in rows:
        weights[row["stage"]] = weights.get(row["stage"], 0.0) + 1 / row["inclusion"]
        counts[row["stage"]] = counts.get(row["stage"], 0) + 1
    found = [
        (stage, weight / total, counts[stage]) for stage, weight in weights.items() if stage != "ok"
    ]
    return sorted(found, key=lambda item: -item[1])
