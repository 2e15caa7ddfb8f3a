"""What a run leaves behind: one record of the run, one of each row, and the short form of a row.

The short form is all that lists, diffs and gates need; a run of 10,000 rows is compared
without reading a single passage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple

import orjson

from stagewatch.core.codec import from_json, to_json, to_plain, to_text
from stagewatch.core.errors import InvalidInputError
from stagewatch.core.model import Claim, RowKind, RowStatus, Score, Stage, Turn

RunState = Literal["running", "finished", "stopped", "failed"]
Verdict = Literal["pass", "fail", "errored"]


class ScoreLine(NamedTuple):
    """One metric of one row, as short as it gets."""

    status: str
    value: float | None
    verdict: str | None
    hard_fail: bool
    basis: str


def label_counts(status: str) -> bool:
    """Whether the label stands: confirmed where its kind needs a second person, refused by none."""
    return status == "confirmed"


@dataclass(frozen=True, slots=True)
class RowSummary:
    """A row of a run without its texts. `error` says why the row has no scores."""

    row_id: str
    kind: str
    status: str
    question: str
    verdict: str
    stage: str
    why: str
    error: str
    latency_ms: float
    scores: Mapping[str, ScoreLine]

    @property
    def counts(self) -> bool:
        """Whether the label counts in gates."""
        return label_counts(self.status)


@dataclass(frozen=True, slots=True)
class RunRow:
    """A row of a run with everything a person needs to check it.

    `latency_ms` is the app's, `judge_ms` the time scoring took. `turn` is what the app did, as
    scored; its window is the numbered context that the judge saw.
    """

    row_id: str
    kind: RowKind
    status: RowStatus
    question: str
    verdict: Verdict
    stage: Stage
    why: str = ""
    error: str = ""
    latency_ms: float = 0.0
    judge_ms: float = 0.0
    scores: tuple[Score, ...] = ()
    claims: tuple[Claim, ...] = ()
    turn: Turn | None = None
    expected_output: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """One run. `counts` has rows by verdict; `pipeline` the versions that were seen, by name."""

    run_id: str
    project: str
    plan_id: str
    plan: dict[str, Any]
    dataset: str
    version: int | None
    state: RunState
    started_at: datetime
    rows: int
    by: str = ""
    finished_at: datetime | None = None
    judge: str = ""
    fingerprint: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    pipeline: dict[str, tuple[str, ...]] = field(default_factory=dict)
    note: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunFile:
    """A run on its own, as `stagewatch run --out` writes it and `diff` and `gate` read it."""

    run: Run
    rows: tuple[RunRow, ...]


STATUS_CODE: Mapping[str, str] = {"scored": "s", "unscored": "u", "not_applicable": "n"}
VERDICT_CODE: Mapping[str | None, str] = {"pass": "p", "fail": "f", None: "-"}
BASIS_CODE: Mapping[str, str] = {"gold": "g", "judge": "j", "rule": "r"}
CODE_LETTERS = 4
_STATUS_OF = {code: word for word, code in STATUS_CODE.items()}
_VERDICT_OF = {code: word for word, code in VERDICT_CODE.items()}
_BASIS_OF = {code: word for word, code in BASIS_CODE.items()}


def summary_text(row: RunRow) -> str:
    """The short form of a row, as stored.

    Scores are three fields: `metrics`, names parted by commas; `codes`, four letters each
    (status, verdict, hard fail, basis); `values`, null where there is none. Rows of one run share
    their `metrics`, so a table of them is built by array work (plans/table.py).
    """
    codes = [
        STATUS_CODE[s.status] + VERDICT_CODE[s.verdict] + "-h"[s.hard_fail] + BASIS_CODE[s.basis]
        for s in row.scores
    ]
    return to_text(
        {
            "row_id": row.row_id,
            "kind": row.kind,
            "status": row.status,
            "question": row.question[:300],
            "verdict": row.verdict,
            "stage": row.stage,
            "why": row.why,
            "error": row.error,
            "latency_ms": row.latency_ms,
            "metrics": ",".join(s.metric for s in row.scores),
            "codes": "".join(codes),
            "values": [s.value for s in row.scores],
        }
    )


def read_summary(text: str | bytes) -> RowSummary:
    """The short form read back."""
    body = orjson.loads(text)
    names, codes, values = (body.pop(key) for key in ("metrics", "codes", "values"))
    scores = {}
    for number, name in enumerate(names.split(",") if names else ()):
        status, verdict, hard, basis = codes[number * CODE_LETTERS : (number + 1) * CODE_LETTERS]
        scores[name] = ScoreLine(
            _STATUS_OF[status], values[number], _VERDICT_OF[verdict], hard == "h", _BASIS_OF[basis]
        )
    return RowSummary(**body, scores=scores)


def summarise(row: RunRow) -> RowSummary:
    """The short form of a row."""
    return read_summary(summary_text(row))


def count_verdicts(rows: Iterable[RowSummary]) -> dict[str, int]:
    """Rows by verdict."""
    counts = {"pass": 0, "fail": 0, "errored": 0}
    for row in rows:
        counts[row.verdict] += 1
    return counts


def pass_share(counts: Mapping[str, int]) -> float | None:
    """Passing rows / rows that have a verdict; errored ones are kept apart. None without any."""
    told = counts.get("pass", 0) + counts.get("fail", 0)
    return counts.get("pass", 0) / told if told else None


def run_to_bytes(run: Run, rows: Sequence[RunRow]) -> bytes:
    """A run file."""
    return to_json({"run": run, "rows": rows})


def run_from_bytes(body: bytes) -> RunFile:
    """A run file read back.

    Raises:
        InvalidInputError: it is not one.
    """
    try:
        return from_json(RunFile, body)
    except InvalidInputError as error:
        raise InvalidInputError(f"not a run file: {error}") from None


def run_body(run: Run) -> dict[str, Any]:
    """The record as plain data."""
    return dict(to_plain(run))
