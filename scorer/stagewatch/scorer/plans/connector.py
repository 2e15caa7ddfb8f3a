"""Asking the app one row: an HTTP request or a Python call, its JSON answer read into a turn.

Every failure becomes a `RowError` with a reason that names what to look at and holds nothing of
the app's answer.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from urllib.parse import quote

from stagewatch.core.codec import to_json, to_plain
from stagewatch.core.errors import InvalidInputError
from stagewatch.core.model import Chunk, DatasetRow, Retrieval, Turn, Usage
from stagewatch.scorer.plans.exchange import RowError, ask_http, check_address, parse_answer
from stagewatch.scorer.plans.paths import NOTHING, find, parse_path
from stagewatch.scorer.plans.plan import Connector, Paths, Plan
from stagewatch.scorer.plans.template import fill, fill_headers

FOUND_NOTHING = "found nothing"
"""How the reason ends when a path is to blame."""

_MOST_TOKENS = 2**53
"""What is beyond is no count of tokens, and no JSON number that everybody reads alike."""


class App(Protocol):
    """Answers one request body with plain JSON data; safe from several threads."""

    def ask(self, values: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON has any type
        """The answer to a row.

        Raises:
            RowError: there is none.
        """
        ...


@dataclass(frozen=True, slots=True)
class HttpApp:
    """An app behind an address; `headers` are filled already."""

    connector: Connector
    headers: Mapping[str, str]

    def ask(self, values: Mapping[str, Any]) -> Any:  # noqa: ANN401
        """One request; raises as `App.ask`."""
        made = self.connector
        try:
            url = fill(made.url, {k: _url_text(v) for k, v in values.items()})
            body = to_json(fill(made.body, values)) if made.method == "POST" else None
        except (TypeError, ValueError) as error:
            raise RowError(f"the row cannot be written: {type(error).__name__}") from None
        json_only = {"content-type": "application/json", "accept": "application/json"}
        return ask_http(
            url, method=made.method, headers={**json_only, **self.headers}, body=body,
            timeout_s=made.timeout_s,
        )  # fmt: skip


def _url_text(value: Any) -> str:  # noqa: ANN401
    text = value if isinstance(value, str) else "" if value is None else to_json(value).decode()
    return quote(text, safe="")


@dataclass(frozen=True, slots=True)
class CallableApp:
    """An app in this process: a function from the filled body to the answer."""

    connector: Connector
    function: Callable[[Any], Any]

    def ask(self, values: Mapping[str, Any]) -> Any:  # noqa: ANN401
        """One call; what it raises is named by its type only. Raises as `App.ask`."""
        try:
            answer = to_plain(self.function(fill(self.connector.body, values)))
        except Exception as error:
            raise RowError(f"{self.connector.call} raised {type(error).__name__}") from error
        try:
            return parse_answer(json.dumps(answer).encode())
        except (TypeError, ValueError, RecursionError):
            raise RowError(f"the answer of {self.connector.call} is not JSON data") from None


def open_app(
    connector: Connector,
    *,
    environ: Mapping[str, str],
    allowed_env: Collection[str] | None = None,
    local: bool = True,
) -> App:
    """The app a plan names.

    Args:
        connector: the plan's.
        environ: where header variables come from.
        allowed_env: variables that may be read; None allows all.
        local: False in a server, where a plan may not name code to import.

    Raises:
        InvalidInputError: a variable is missing, a path or template cannot be read, or the
            callable cannot be imported.
    """
    check_connector(connector)
    if connector.kind == "http":
        return HttpApp(connector, fill_headers(connector.headers, environ, allowed_env))
    if not local:
        raise InvalidInputError(
            "python connectors run from the command line only: use `stagewatch run`"
        )
    return CallableApp(connector, _import_callable(connector.call))


def check_connector(connector: Connector) -> None:
    """Raise InvalidInputError when a path, a template or the address can never work."""
    for path in connector.paths.model_dump().values():
        if path is not None:
            parse_path(path)
    places = ("question", "history", "context", "standalone_question", "row_id")
    url, _ = fill([connector.url, connector.body], dict.fromkeys(places, "x"))
    if connector.kind == "http":
        check_address(url)


def _import_callable(call: str) -> Callable[[Any], Any]:
    module, _, name = call.partition(":")
    here = os.getcwd()  # noqa: PTH109 - sys.path holds strings
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InvalidInputError(f"connector call {call!r}: {error}") from None
    if not callable(found):
        raise InvalidInputError(f"connector call {call!r} is not callable")
    return found  # type: ignore[no-any-return] # the user's own code


def values_of(row: DatasetRow, *, fixed: bool) -> dict[str, Any]:
    """What a template may hold of a row; `context` is the stored passages in fixed mode."""
    window = row.turn.window if fixed and row.turn is not None else ()
    passages = [
        {
            "id": chunk.chunk_id,
            "document_id": chunk.document_id,
            "version": chunk.version,
            "content": chunk.content,
        }
        for chunk in window
    ]
    return {
        "question": row.question,
        "history": [{"role": m.role, "content": m.content} for m in row.history],
        "context": passages,
        "standalone_question": row.standalone_question,
        "row_id": row.row_id,
    }


def read_turn(
    answer: Any,  # noqa: ANN401 - JSON has any type
    row: DatasetRow,
    plan: Plan,
    *,
    run_id: str,
    project: str,
    started_at: datetime,
    latency_ms: float,
) -> Turn:
    """The app's answer as a turn: ranked chunks, the window cut at `top_k`, versions, usage.

    Raises:
        RowError: the answer or the retrieved context is not where the paths say.
    """
    paths = plan.connector.paths
    text = _text_at(answer, paths.answer)
    if text is None:
        raise RowError(f"answer path {paths.answer} {FOUND_NOTHING}")
    retrievals, window = _context(answer, row, plan)
    trace_id = (_text_at(answer, paths.trace_id) or "").lower()
    span_id = f"row-{row.row_id}"
    return Turn(
        turn_id=f"{run_id}-{row.row_id}",
        trace_id=trace_id,
        span_id=span_id,
        project=project,
        service="",
        started_at=started_at,
        duration_ms=latency_ms,
        question=row.question,
        answer=text,
        history=row.history,
        release=_text_at(answer, paths.release) or plan.pipeline.release,
        index_version=_text_at(answer, paths.index_version) or plan.pipeline.index_version,
        prompt_version=_text_at(answer, paths.prompt_version) or plan.pipeline.prompt_version,
        rewritten_query=_text_at(answer, paths.rewritten_query),
        retrievals=retrievals,
        window=window,
        window_source="top_k" if plan.top_k else "retrieved",
        usage=_usage(answer, paths),
        conventions=("plan",),
        probe=True,
    )


def _context(
    answer: Any,  # noqa: ANN401
    row: DatasetRow,
    plan: Plan,
) -> tuple[tuple[Retrieval, ...], tuple[Chunk, ...]]:
    if plan.mode == "fixed_context":
        stored = row.turn.window if row.turn is not None else ()
        if not stored:
            raise RowError("the row has no stored passages")
        return (), stored
    paths = plan.connector.paths
    if paths.chunks is None:
        return (), ()
    found = find(answer, paths.chunks)
    if found is NOTHING or not isinstance(found, list):
        raise RowError(f"retrieval context path {paths.chunks} {FOUND_NOTHING}")
    chunks = tuple(_chunk(item, rank, paths) for rank, item in enumerate(found, start=1))
    if chunks and not any(chunk.content or chunk.chunk_id or chunk.document_id for chunk in chunks):
        raise RowError(
            f"chunk paths (content {paths.content}, id {paths.chunk_id}) {FOUND_NOTHING}"
        )
    query = _text_at(answer, paths.rewritten_query) or row.question
    return (Retrieval("", query, plan.top_k, chunks),), chunks[: plan.top_k]


def _chunk(item: Any, rank: int, paths: Paths) -> Chunk:  # noqa: ANN401
    if isinstance(item, str):
        return Chunk(rank=rank, content=item)
    return Chunk(
        rank=rank,
        chunk_id=_text_at(item, paths.chunk_id),
        document_id=_text_at(item, paths.document_id),
        version=_text_at(item, paths.version),
        content=_text_at(item, paths.content) or "",
        score=_number_at(item, paths.score),
    )


def _text_at(value: Any, path: str | None) -> str | None:  # noqa: ANN401
    found = find(value, path) if path else None
    if found is NOTHING or found is None or isinstance(found, dict | list):
        return None
    return found if isinstance(found, str) else json.dumps(found)


def _number_at(value: Any, path: str | None) -> float | None:  # noqa: ANN401
    found = find(value, path) if path else None
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    try:
        number = float(found)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _usage(answer: Any, paths: Paths) -> Usage:  # noqa: ANN401
    def whole(path: str | None) -> int | None:
        found = _number_at(answer, path)
        return None if found is None or not 0 <= found <= _MOST_TOKENS else int(found)

    return Usage(
        whole(paths.input_tokens), whole(paths.output_tokens), _number_at(answer, paths.cost_usd)
    )
