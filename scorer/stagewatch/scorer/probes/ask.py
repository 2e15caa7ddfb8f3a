"""Asking one row of the live app, with its rewrite and without, so that both ranks are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from stagewatch.core.codec import to_text
from stagewatch.core.errors import StoreError
from stagewatch.core.model import DatasetRow, Score
from stagewatch.core.store.probes import ProbedRow
from stagewatch.scorer.plans.connector import App, HttpApp
from stagewatch.scorer.plans.results import RunRow
from stagewatch.scorer.plans.run import Bench, ask_row
from stagewatch.scorer.probes.probe import REWRITE_GAIN

PROBE_HEADER = "x-stagewatch-probe"
"""Sent with every request of a probe; the app marks its turn with it (`probe=True`)."""


@dataclass(frozen=True, slots=True)
class Probing:
    """What rows of a pass are asked with; `raw` None asks once. `new_trace` gives trace ids (32
    hex digits) and `mark` remembers them, before the app can send their spans.
    """

    probe: str
    bench: Bench
    raw: Bench | None
    new_trace: Callable[[], str]
    mark: Callable[[str], None]
    version: int = 0


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """A row's result as it is kept: what was answered and how it scored, and the live trace."""

    row: RunRow
    trace_id: str
    asked_at: datetime
    calls: int


def probe_row(row: DatasetRow, probing: Probing) -> tuple[ProbedRow, str]:
    """(the row asked and scored by its labels, why it has no scores); never raises for what the
    app does.
    """
    asked_at = probing.bench.clock.now()
    try:
        return _probed(row, probing, asked_at)
    except StoreError:
        raise
    except Exception as error:  # noqa: BLE001 - one row must not end the others
        why = f"the row's result cannot be kept: {type(error).__name__}"
        question = row.question.encode("utf-8", "replace").decode()
        blank = RunRow(row.row_id, row.kind, row.status, question, "errored", "unknown", error=why)
        result = ProbeResult(blank, "", asked_at, 1)
        return ProbedRow(
            row_id=row.row_id, asked_at=asked_at, calls=1, verdict="errored",
            body=to_text(result), version=probing.version, dimensions={},
        ), why  # fmt: skip


def _probed(row: DatasetRow, probing: Probing, asked_at: datetime) -> tuple[ProbedRow, str]:
    trace_id, found = _ask(row, probing.bench, probing)
    if found.verdict == "pass" and found.stage == "unknown":
        # What the labels leave open was not asked about, on purpose.
        found = replace(found, stage="ok", why="Everything that the labels decide is well.")
    calls = 1
    scores = found.scores
    if probing.raw is not None and row.needs:
        _, raw = _ask(row, probing.raw, probing)
        calls = 2
        scores = (*scores, rewrite_gain(found, raw))
    said = found.turn.trace_id if found.turn is not None else ""
    if said and said != trace_id:
        # The app started a trace of its own: only its answer tells which.
        probing.mark(said)
    result = ProbeResult(replace(found, scores=scores), said or trace_id, asked_at, calls)
    turn = found.turn
    names = ("release", "index_version", "prompt_version")
    probed = ProbedRow(
        row_id=row.row_id, asked_at=asked_at, calls=calls, verdict=found.verdict,
        body=to_text(result), scores=scores, version=probing.version,
        dimensions={name: getattr(turn, name) or "" for name in names} if turn else {},
    )  # fmt: skip
    return probed, "" if found.scores else found.error


def _ask(row: DatasetRow, bench: Bench, probing: Probing) -> tuple[str, RunRow]:
    trace_id = probing.new_trace()
    probing.mark(trace_id)
    traced = replace(bench, app=_traced(bench.app, probing.probe, trace_id))
    return trace_id, ask_row(row, traced)


def _traced(app: App, probe: str, trace_id: str) -> App:
    """The app asked under our own trace (W3C Trace Context), where it goes on with it."""
    if not isinstance(app, HttpApp):
        return app
    headers: Mapping[str, Any] = {
        **app.headers,
        "traceparent": f"00-{trace_id}-{trace_id[:16]}-01",
        PROBE_HEADER: probe,
    }
    return replace(app, headers=headers)


def rewrite_gain(rewritten: RunRow, raw: RunRow) -> Score:
    """Reciprocal rank with the rewritten query minus with the raw question: -1 to 1.

    Unscored when either is not known.
    """
    values = []
    for name, asked in (("rewritten", rewritten), ("raw", raw)):
        score = next((s for s in asked.scores if s.metric == "reciprocal_rank"), None)
        if score is None or score.status != "scored" or score.value is None:
            why = asked.error or (score.reason if score is not None else "no answer")
            return Score(
                REWRITE_GAIN, "unscored", None, None, basis="gold", reason=f"{name}: {why}"
            )
        values.append(score.value)
    return Score(
        REWRITE_GAIN, "scored", values[0] - values[1], None, basis="gold",
        reason=f"reciprocal rank {values[0]:.3g} rewritten, {values[1]:.3g} raw",
    )  # fmt: skip
