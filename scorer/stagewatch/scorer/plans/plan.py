"""A plan: what is asked of which app, how it is scored, and what a gate demands of the result.

Plans are TOML files or JSON. A run keeps a full copy of its plan, so an edit never changes what
an old run means.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import orjson
from pydantic import BaseModel, Field, JsonValue, ValidationError, model_validator

from stagewatch.core.errors import InvalidInputError
from stagewatch.core.model import RowKind
from stagewatch.scorer.plans.credentials import literal_secret
from stagewatch.scorer.strict import STRICT, Many, fault
from stagewatch.scorer.thresholds import DEFAULT_THRESHOLDS, Threshold, Thresholds

M = TypeVar("M", bound=BaseModel)

REPORTED_METRICS = ("context_precision", "reciprocal_rank", "version_conflict", "stale_context")
"""Metrics that a run reports and that decide nothing unless the plan gives them a threshold."""

KNOWN_METRICS: tuple[str, ...] = (*DEFAULT_THRESHOLDS, *REPORTED_METRICS)
GENERATION_METRICS = ("faithfulness", "answer_relevancy", "answer_precision", "refusal")
"""What is left to measure when the passages are given (fixed-context mode)."""

LOWER_IS_BETTER = frozenset(
    {"first_relevant_rank", "version_conflict", "stale_context", "answered_from_superseded"}
)

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
Text = Annotated[str, Field(max_length=2000)]


class _Part(BaseModel):
    model_config = STRICT


class Paths(_Part):
    """Where things stand in the app's JSON answer; None is not looked for.

    `chunks` is the ranked list, best first; the paths of a chunk start at each of its items.
    """

    answer: Text = "$.answer"
    chunks: Text | None = "$.chunks"
    chunk_id: Text | None = "id"
    document_id: Text | None = "document_id"
    version: Text | None = "version"
    content: Text | None = "content"
    score: Text | None = "score"
    rewritten_query: Text | None = None
    trace_id: Text | None = None
    release: Text | None = None
    index_version: Text | None = None
    prompt_version: Text | None = None
    input_tokens: Text | None = None
    output_tokens: Text | None = None
    cost_usd: Text | None = None


class Connector(_Part):
    """How the app is reached: an HTTP request, or a Python callable `module:function`.

    Strings of `body`, `url` and `headers` may hold `{{question}}`, `{{history}}`, `{{context}}`,
    `{{standalone_question}}` and `{{row_id}}`; headers may hold `${NAME}`, read from the
    environment when the run starts and never stored.
    """

    kind: Literal["http", "python"] = "http"
    url: Text = ""
    method: Literal["POST", "GET"] = "POST"
    headers: dict[str, Text] = {}
    body: JsonValue = {"question": "{{question}}", "history": "{{history}}"}
    call: Annotated[str, Field(max_length=300)] = ""
    timeout_s: Annotated[float, Field(gt=0, le=600)] = 30.0
    concurrency: Annotated[int, Field(ge=1, le=64)] = 8
    paths: Paths = Paths()

    @model_validator(mode="after")
    def _reachable(self) -> Connector:
        if self.kind == "http" and not self.url.startswith(("http://", "https://")):
            raise ValueError("an http connector needs url, an http(s) address")
        if self.kind == "python" and self.call.count(":") != 1:
            raise ValueError("a python connector needs call, as module:function")
        for name, text in self.headers.items():
            if literal_secret(name, text):
                # Plans are stored and shown.
                raise ValueError(
                    f"header {name}: name a variable, as ${{NAME}} or Bearer ${{NAME}}, not the "
                    "secret (a server reads those that STAGEWATCH_PLAN_ENV lists)"
                )
        return self


class Condition(_Part):
    """One demand of a gate beyond the default ones.

    `no_drop`: no row's value may get worse than in the baseline. `non_inferior`: the pass rate
    may not be worse by more than `margin`, with 95 % confidence. `min_pass_rate`: at least
    `limit` of the rows pass. `max_fails`, `max_hard_fails`: at most `limit` rows fail.
    """

    name: Annotated[str, Field(min_length=1, max_length=120)]
    metric: str
    rule: Literal["no_drop", "non_inferior", "min_pass_rate", "max_fails", "max_hard_fails"]
    kinds: Many[RowKind] = ()
    limit: Annotated[float, Field(ge=0)] = 0.0
    margin: Annotated[float, Field(ge=0, le=1)] = 0.0

    @model_validator(mode="after")
    def _sensible(self) -> Condition:
        _need_known([self.metric])
        if self.rule == "min_pass_rate" and not 0 < self.limit <= 1:
            raise ValueError("min_pass_rate needs limit, a share above 0 and at most 1")
        return self


class GateOptions(_Part):
    """What the gate demands; `require_second_reviewer` leaves unconfirmed trap rows out."""

    defaults: bool = True
    require_second_reviewer: bool = True
    conditions: Many[Condition] = ()


class Pipeline(_Part):
    """Versions of the app under test, where its answers do not say them."""

    release: Text | None = None
    index_version: Text | None = None
    prompt_version: Text | None = None


class Plan(_Part):
    """A whole plan; see docs/plans.md. `metrics` empty means all that the mode can measure."""

    name: Name
    dataset: Name | None = None
    version: Annotated[int, Field(ge=1)] | None = None
    mode: Literal["app", "fixed_context"] = "app"
    connector: Connector
    metrics: Many[str] = ()
    thresholds: dict[str, float] = {}
    top_k: Annotated[int, Field(ge=1, le=1000)] | None = None
    judge: Literal["embedded", "openai"] | None = None
    judge_model: Text = ""
    judge_fingerprint: Text | None = None
    tags: Many[str] = ()
    pipeline: Pipeline = Pipeline()
    gate: GateOptions = GateOptions()

    @model_validator(mode="after")
    def _sensible(self) -> Plan:
        _need_known([*self.metrics, *self.thresholds])
        if self.mode == "fixed_context":
            beyond = sorted(set(self.metrics) - set(GENERATION_METRICS))
            if beyond:
                raise ValueError(
                    f"{', '.join(beyond)}: retrieval is not measured in fixed_context mode"
                )
        if self.judge == "openai" and not self.judge_model:
            raise ValueError("judge = 'openai' needs judge_model")
        return self

    @property
    def measured(self) -> tuple[str, ...]:
        """The metrics of a run of this plan."""
        if self.metrics:
            return self.metrics
        return GENERATION_METRICS if self.mode == "fixed_context" else KNOWN_METRICS

    def limits(self) -> Thresholds:
        """The thresholds in force: the defaults with this plan's own over them."""
        table = dict(DEFAULT_THRESHOLDS)
        for metric, limit in self.thresholds.items():
            table[metric] = Threshold(limit, lower_is_better=metric in LOWER_IS_BETTER)
        return Thresholds({name: table[name] for name in table if name in self.measured})


def _need_known(metrics: list[str]) -> None:
    unknown = sorted(set(metrics) - set(KNOWN_METRICS))
    if unknown:
        raise ValueError(f"unknown metric {unknown[0]!r}; known: {', '.join(KNOWN_METRICS)}")


def parse_plan(body: object) -> Plan:
    """A plan from plain data.

    Raises:
        InvalidInputError: naming the first field that does not fit.
    """
    return parsed(Plan, body, "plan")


def parsed(kind: type[M], body: object, what: str) -> M:
    """A `kind` from plain data; `what` begins the error.

    Raises:
        InvalidInputError: naming the first field that does not fit.
    """
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        raise InvalidInputError(f"{what}: {fault(error)}") from None


def load_plan(path: Path) -> Plan:
    """The plan in a TOML or JSON file; its name is the file's unless it says another.

    Raises:
        InvalidInputError: the file cannot be read or does not hold a plan.
    """
    return parse_plan(named_body(path, "plan"))


def named_body(path: Path, what: str) -> Any:  # noqa: ANN401 - as the file has it
    """What a TOML or JSON file holds, named after the file unless it says another name.

    Raises:
        InvalidInputError: it cannot be read, or is neither.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"cannot read the {what} {path}: {error}") from None
    try:
        body: Any = orjson.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (orjson.JSONDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidInputError(f"{path}: {error}") from None
    if isinstance(body, dict):
        body.setdefault("name", path.stem)
    return body


def plan_body(plan: Plan) -> dict[str, Any]:
    """The plan as plain data that `parse_plan` reads back."""
    return plan.model_dump(mode="json")
