"""A probe: which rows are asked of which app, how often, and what is measured."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import orjson
from pydantic import BaseModel, Field, JsonValue, model_validator

from stagewatch.core.codec import to_text
from stagewatch.core.errors import InvalidInputError, NotFoundError
from stagewatch.core.store.client import Store
from stagewatch.core.store.documents import (
    delete_document,
    get_document,
    list_documents,
    put_document,
)
from stagewatch.scorer.plans.credentials import HIDDEN, shown_connector, shown_literals
from stagewatch.scorer.plans.plan import (
    Connector,
    Name,
    Plan,
    Text,
    named_body,
    parse_plan,
    parsed,
)
from stagewatch.scorer.strict import STRICT, Many

COLLECTION = "probes"

PROBE_METRICS: tuple[str, ...] = (
    "retrieved_recall", "context_recall", "first_relevant_rank", "reciprocal_rank",
    "answer_precision", "refusal", "stale_context",
)  # fmt: skip
"""What a probe measures unless it names metrics: what labels decide, and little of the judge."""

REWRITE_GAIN = "rewrite_gain"


class Raw(BaseModel):
    """How the app is asked to search with the question as it stands, without its rewrite.

    What is empty stays as in the connector.
    """

    model_config = STRICT

    url: Text = ""
    body: JsonValue = None

    @model_validator(mode="after")
    def _differs(self) -> Raw:
        if not self.url and self.body is None:
            raise ValueError("raw needs url or body: something has to differ")
        return self


class Probe(BaseModel):
    """One probe; see docs/probes.md.

    `version` None is the newest frozen one. `tags` narrows the rows. With `raw` every row that
    has needs is asked twice, and rewrite_gain is measured.
    """

    model_config = STRICT

    name: Name
    dataset: Name
    version: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    tags: Many[str] = ()
    connector: Connector
    raw: Raw | None = None
    metrics: Many[str] = PROBE_METRICS
    top_k: Annotated[int, Field(ge=1, le=1000)] | None = None
    every_minutes: Annotated[float, Field(ge=0.05, le=60 * 24 * 7)] = 60.0
    max_calls_per_day: Annotated[int, Field(ge=1, le=1_000_000)] = 1000
    judge: Literal["embedded", "openai"] | None = None
    judge_model: Text = ""
    enabled: bool = True

    @model_validator(mode="after")
    def _sensible(self) -> Probe:
        plan_of(self)
        return self


def plan_of(probe: Probe) -> Plan:
    """The plan that asks a probe's rows: connector, metrics and judge are checked as a plan's."""
    return parse_plan(
        {
            "name": probe.name,
            "dataset": probe.dataset,
            "version": probe.version,
            "tags": probe.tags,
            "connector": probe.connector.model_dump(),
            "metrics": probe.metrics,
            "top_k": probe.top_k,
            "judge": probe.judge,
            "judge_model": probe.judge_model,
        }
    )


def raw_plan(probe: Probe) -> Plan | None:
    """The plan that asks with the raw question; it measures ranks only, so no judge is asked."""
    if probe.raw is None:
        return None
    changes: dict[str, Any] = {}
    if probe.raw.url:
        changes["url"] = probe.raw.url
    if probe.raw.body is not None:
        changes["body"] = probe.raw.body
    body = plan_of(probe).model_dump()
    body["connector"].update(changes)
    body["metrics"] = ("reciprocal_rank",)
    return parse_plan(body)


def parse_probe(body: object) -> Probe:
    """A probe from plain data.

    Raises:
        InvalidInputError: naming the first field that does not fit.
    """
    try:
        return parsed(Probe, body, "probe")
    except InvalidInputError as error:
        raise InvalidInputError(str(error).replace("plan: ", "probe: ", 1)) from None


def check_storable(probe: Probe) -> None:
    """Raise InvalidInputError when the probe holds what the store cannot keep."""
    try:
        to_text(probe_body(probe))
    except (TypeError, ValueError):
        raise InvalidInputError(
            "probe: holds a number beyond 64 bits, or what is not text"
        ) from None


def load_probe(path: Path) -> Probe:
    """The probe in a TOML or JSON file; its name is the file's unless it says another.

    Raises:
        InvalidInputError: the file cannot be read or does not hold a probe.
    """
    return parse_probe(named_body(path, "probe"))


def probe_body(probe: Probe) -> dict[str, Any]:
    """The probe as plain data that `parse_probe` reads back."""
    return probe.model_dump(mode="json")


def shown_body(probe: Probe, *, whole: bool, writes: bool = False) -> dict[str, Any]:
    """The probe as API and UI show it.

    Addresses may hold keys: without `whole` the host is all that is told of them. Literals of
    the bodies that look like credentials are shown to who `writes` only.
    """
    body = probe_body(probe)
    if not whole and not writes:
        body["connector"] = shown_connector(body["connector"])
        if body["raw"] is not None:
            body["raw"]["body"] = shown_literals(body["raw"]["body"])
    if not whole:
        body["connector"]["url"] = _masked(probe.connector.url)
        if body["raw"] is not None:
            body["raw"]["url"] = _masked(body["raw"]["url"])
    return body


def _masked(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return HIDDEN
    if not host:
        return HIDDEN if url else ""
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}/{HIDDEN}"


def put_probe(store: Store, project: str, probe: Probe, *, at: datetime) -> None:
    """Store or replace a probe."""
    put_document(store, COLLECTION, probe.name, probe_body(probe), at=at, project=project)


def list_probes(store: Store, project: str) -> list[Probe]:
    """The probes of a project by name."""
    found = [parse_probe(body) for body in list_documents(store, COLLECTION, project=project)]
    return sorted(found, key=lambda probe: probe.name)


def need_probe(store: Store, project: str, name: str) -> Probe:
    """A probe.

    Raises:
        NotFoundError: there is none of this name.
    """
    body = get_document(store, COLLECTION, name, project=project)
    if body is None:
        raise NotFoundError(f"no probe {name!r} in project {project!r}")
    return parse_probe(body)


def drop_probe(store: Store, project: str, name: str, *, at: datetime) -> None:
    """Delete a probe; what it found stays.

    Raises:
        NotFoundError: there is none of this name.
    """
    need_probe(store, project, name)
    delete_document(store, COLLECTION, name, at=at, project=project)


def all_probes(store: Store) -> list[tuple[str, Probe]]:
    """(project, probe) of every project; one that cannot be read any more is left out."""
    rows = store.rows(
        """SELECT project, body FROM documents FINAL
           WHERE collection = {collection:String} AND NOT deleted ORDER BY project, id""",
        {"collection": COLLECTION},
    )
    found = []
    for row in rows:
        try:
            found.append((row["project"], parse_probe(orjson.loads(row["body"]))))
        except InvalidInputError:
            continue
    return found
