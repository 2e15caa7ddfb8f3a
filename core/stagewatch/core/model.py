"""The nouns every part shares: spans as stored, turns as assembled, scores, decisions, rows.

The field names are the HTTP contract (docs/architecture.md): a turn here serialises to
exactly the JSON that `GET /api/v1/turns/{id}` returns. All times are aware UTC datetimes,
durations are milliseconds, ids are lower-case hex, ranks count from 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

Status = Literal["scored", "unscored", "not_applicable"]
Verdict = Literal["pass", "fail"]
Basis = Literal["gold", "judge", "rule"]
ClaimLabel = Literal["SUPPORTED", "ABSENT", "CONTRADICTED"]
FeedbackKind = Literal["thumbs_up", "thumbs_down", "escalated", "disputed", "corrected"]
Outcome = Literal[
    "scored",
    "not_sampled",
    "filtered",
    "over_budget",
    "incomplete",
    "unscorable",
    "judge_error",
    "pending",
]
Stage = Literal[
    "rewrite",
    "stale_source",
    "memory",
    "retrieval_and_generation",
    "retrieval",
    "ranking",
    "generation",
    "evasion",
    "label_or_corpus",
    "ok",
    "unknown",
]
RowKind = Literal["happy_path", "unanswerable", "near_miss", "multi_hop", "stale_policy", "rewrite"]
RowStatus = Literal["needs_review", "confirmed", "retired"]

FLAGGING_FEEDBACK: frozenset[str] = frozenset({"escalated", "disputed", "corrected"})
"""Feedback that puts a turn into the review queue and has it scored on demand."""

TRAP_KINDS: frozenset[str] = frozenset({"unanswerable", "near_miss", "multi_hop", "stale_policy"})
"""Kinds whose labels are easy to get wrong: they count in gates only after a second person."""


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """One event of a span."""

    name: str
    time_ns: int
    attributes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class SpanRow:
    """One stored span with its attributes decoded (nested AnyValues become lists and dicts).

    `start_ns`/`end_ns` are Unix nanoseconds. `parent_id` is "" for a root. `kind` and
    `status_code` are the OTLP enum numbers. The dropped counts are what the sender said it cut.
    """

    project: str
    trace_id: str
    span_id: str
    parent_id: str
    name: str
    kind: int
    start_ns: int
    end_ns: int
    status_code: int
    status_message: str
    scope_name: str
    scope_version: str
    resource: dict[str, Any]
    attributes: dict[str, Any]
    events: tuple[SpanEvent, ...] = ()
    scope_attributes: dict[str, Any] = field(default_factory=dict)
    schema_url: str = ""
    links: tuple[dict[str, Any], ...] = ()
    dropped_attributes: int = 0
    dropped_events: int = 0
    received_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class LogRow:
    """One stored log record (GenAI and evaluation events); joined by trace and span id."""

    project: str
    trace_id: str
    span_id: str
    event_name: str
    time_ns: int
    body: Any
    attributes: dict[str, Any]
    scope_name: str = ""
    resource: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the dialogue before the question."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """One retrieved passage. `rank` is 1-based in the order received.

    `score_kind` says what the score means (similarity, distance, rrf, bm25, rerank): distances
    are better when lower. `in_prompt`, `cited`, `relevant`, `superseded` are None when not known.
    """

    rank: int
    chunk_id: str | None = None
    document_id: str | None = None
    version: str | None = None
    content: str = ""
    score: float | None = None
    score_kind: str | None = None
    in_prompt: bool | None = None
    cited: bool | None = None
    relevant: bool | None = None
    superseded: bool | None = None
    valid_from: str | None = None
    valid_to: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Retrieval:
    """One retriever call of a turn; `ordered` is False when the context arrived as a set."""

    span_id: str
    query: str
    top_k: int | None = None
    chunks: tuple[Chunk, ...] = ()
    ordered: bool = True


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and cost of the leaf model calls of a turn; None when not captured."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Missing:
    """A field the telemetry does not hold: `why` is not_captured, truncated, redacted…"""

    field: str
    why: str


@dataclass(frozen=True, slots=True)
class Source:
    """Where a field of a turn came from."""

    field: str
    span_id: str
    key: str


@dataclass(frozen=True, slots=True)
class Turn:
    """One question answered: question → (rewrite) → retrieve → (rerank) → generate → answer."""

    turn_id: str
    trace_id: str
    span_id: str
    project: str
    service: str
    started_at: datetime
    duration_ms: float
    question: str | None
    answer: str | None
    release: str | None = None
    index_version: str | None = None
    prompt_version: str | None = None
    environment: str | None = None
    conversation_id: str | None = None
    turn_index: int | None = None
    user_id: str | None = None
    history: tuple[Message, ...] = ()
    rewritten_query: str | None = None
    retrievals: tuple[Retrieval, ...] = ()
    reranked: tuple[Chunk, ...] | None = None
    window: tuple[Chunk, ...] = ()
    window_source: str | None = None
    refused: bool | None = None
    model: str | None = None
    request_model: str | None = None
    response_model: str | None = None
    usage: Usage = Usage()
    error: str | None = None
    tags: dict[str, str] = field(default_factory=dict)
    reused_from: str | None = None
    conventions: tuple[str, ...] = ()
    missing: tuple[Missing, ...] = ()
    sources: tuple[Source, ...] = ()
    complete: bool = True
    probe: bool = False


@dataclass(frozen=True, slots=True)
class Score:
    """One metric of one turn or row. `value` is None unless status is `scored`."""

    metric: str
    status: Status
    value: float | None
    verdict: Verdict | None = None
    hard_fail: bool = False
    basis: Basis = "rule"
    judge: str | None = None
    fingerprint: str | None = None
    reason: str = ""
    at: datetime | None = None
    threshold: float | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """One atomic statement of an answer and what the window says of it.

    `start`/`end` are character offsets in the answer. `label` is after the guard, `judge_label`
    before it; `chunk_rank` is the 1-based position in the window of the evidence.
    """

    text: str
    start: int
    end: int
    label: ClaimLabel
    judge_label: ClaimLabel
    guard: str | None = None
    disputed: bool = False
    chunk_rank: int | None = None
    evidence: str = ""
    probability: float | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The first failing stage, in one sentence a person can act on."""

    stage: Stage
    why: str
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """Why a turn was or was not scored. `inclusion` is its probability, never rewritten."""

    outcome: Outcome
    rule: str
    inclusion: float | None
    why: str
    at: datetime
    stratum: str = "uniform"


@dataclass(frozen=True, slots=True)
class Feedback:
    """What a person or system said of a turn, joined by trace id whenever it arrives."""

    feedback_id: str
    project: str
    trace_id: str
    kind: FeedbackKind
    at: datetime
    turn_id: str | None = None
    comment: str | None = None
    corrected_answer: str | None = None
    source: str = "api"
    external_id: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True)
class Passage:
    """One way to meet a need: by chunk id, or by document id (and version)."""

    chunk_id: str | None = None
    document_id: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class Need:
    """One thing the answer requires: any one of these passages meets it."""

    any_of: tuple[Passage, ...]


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a dataset row came from and who vouches for it."""

    turn_id: str | None = None
    trace_id: str | None = None
    feedback: tuple[str, ...] = ()
    promoted_by: str = ""
    reviewed_by: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class DatasetRow:
    """One labelled regression row; `turn` is a full copy, so retention cannot orphan it."""

    row_id: str
    dataset: str
    version_added: int
    kind: RowKind
    failure: Stage
    question: str
    history: tuple[Message, ...] = ()
    standalone_question: str | None = None
    needs: tuple[Need, ...] = ()
    expected_output: tuple[str, ...] = ()
    status: RowStatus = "needs_review"
    tags: tuple[str, ...] = ()
    provenance: Provenance = Provenance()
    turn: Turn | None = None
