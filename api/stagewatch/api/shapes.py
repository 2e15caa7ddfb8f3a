"""Dataset rows in the shapes of ragas, deepeval, Phoenix, Langfuse and OpenAI evals. Pure.

JSON lines, or one JSON list. What a shape has no field for (kind, needs, tags …) travels under
the key `stagewatch` in its metadata, so that a round trip gives the same labels back.

Field names: ragas `SingleTurnSample` and the older question/ground_truth columns; deepeval
`Golden`; Phoenix dataset examples; Langfuse `DatasetItem`; OpenAI evals `input`/`ideal`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

import orjson

from stagewatch.core.codec import to_json, to_plain
from stagewatch.core.errors import InvalidInputError
from stagewatch.core.model import DatasetRow

Shape = Literal["ragas", "deepeval", "phoenix", "langfuse", "openai"]
SHAPES: tuple[str, ...] = get_args(Shape)

_OWN = "stagewatch"
_KEPT = ("row_id", "kind", "failure", "status", "needs", "standalone_question", "tags")
_QUESTION_KEYS = ("question", "query", "user_input", "input", "prompt", "text")
_ANSWER_KEYS = ("answer", "expected_output", "reference", "output", "ideal", "ground_truth", "text")
_HUMAN = frozenset({"user", "human"})

Item = dict[str, Any]


def read_shape(body: bytes, shape: str) -> list[Item]:
    """Plain rows (fields of `DatasetRow`) from a file of another tool.

    Raises:
        InvalidInputError: naming the item and what is missing.
    """
    rows = []
    for number, item in enumerate(_items(body), start=1):
        if not isinstance(item, dict):
            raise InvalidInputError(f"row {number}: not a JSON object")
        row = _READ[shape](item)
        if not row.get("question"):
            raise InvalidInputError(f"row {number}: no question found in the {shape} shape")
        rows.append({key: value for key, value in row.items() if value is not None})
    return rows


def _items(body: bytes) -> list[Any]:
    try:
        if body.lstrip()[:1] == b"[":
            return list(orjson.loads(body))
        return [orjson.loads(line) for line in body.splitlines() if line.strip()]
    except orjson.JSONDecodeError as error:
        raise InvalidInputError(f"not JSON or JSON lines: {error.msg}") from None


def write_shape(rows: Sequence[DatasetRow], shape: str) -> bytes:
    """`rows` as JSON lines (deepeval: one JSON list, which is what it reads)."""
    items = [_WRITE[shape](row) for row in rows]
    if shape == "deepeval":
        return to_json(items) + b"\n"
    return b"".join(to_json(item) + b"\n" for item in items)


def _own(row: DatasetRow) -> Item:
    body = to_plain(row)
    return {key: body[key] for key in _KEPT}


def _text(value: Any, keys: Sequence[str]) -> str | None:  # noqa: ANN401 - other tools' JSON
    """A text from a text, or from the first of `keys` that holds one, or the only value."""
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        return None
    found = next((value[key] for key in keys if isinstance(value.get(key), str)), None)
    if found is None and len(value) == 1:
        found = next(iter(value.values()))
    return found if isinstance(found, str) else None


def _facts(value: Any) -> list[str] | None:  # noqa: ANN401
    """Expected facts: a list as it is, a text line by line."""
    if isinstance(value, list):
        return [str(item) for item in value if str(item).strip()]
    text = _text(value, _ANSWER_KEYS)
    return [line.strip() for line in text.splitlines() if line.strip()] if text else None


def _dialogue(messages: Any) -> tuple[str | None, list[Item]]:  # noqa: ANN401
    """(last user message, what came before it) of a list of messages; system ones are left out."""
    said = [
        {"role": "user" if m.get("role", m.get("type")) in _HUMAN else "assistant",
         "content": str(m.get("content", ""))}
        for m in messages
        if isinstance(m, dict) and m.get("role", m.get("type")) not in {"system", "developer"}
    ]  # fmt: skip
    last = next((n for n in range(len(said) - 1, -1, -1) if said[n]["role"] == "user"), None)
    return (said[last]["content"], said[:last]) if last is not None else (None, [])


def _asked(value: Any) -> Item:  # noqa: ANN401
    """Question and history from a text, a list of messages, or an object with either."""
    if isinstance(value, list):
        question, history = _dialogue(value)
        return {"question": question, "history": history}
    if isinstance(value, dict) and isinstance(value.get("messages"), list):
        return _asked(value["messages"])
    earlier = value.get("history") if isinstance(value, dict) else None
    found: Item = {"question": _text(value, _QUESTION_KEYS)}
    return {**found, "history": earlier} if isinstance(earlier, list) else found


def _needs(ids: Any) -> list[Item] | None:  # noqa: ANN401
    if not isinstance(ids, list) or not ids:
        return None
    return [{"any_of": [{"chunk_id": str(item)}]} for item in ids]


def _kept(metadata: Any) -> Item:  # noqa: ANN401
    own = metadata.get(_OWN) if isinstance(metadata, dict) else None
    return {key: own[key] for key in _KEPT if key in own} if isinstance(own, dict) else {}


def _read_ragas(item: Item) -> Item:
    reference = item.get("reference", item.get("ground_truth", item.get("ground_truths")))
    return {
        **_asked(item.get("user_input", item.get("question"))),
        "expected_output": _facts(reference),
        "needs": _needs(item.get("reference_context_ids")),
        **_kept(item),
    }


def _write_ragas(row: DatasetRow) -> Item:
    ids = [p.chunk_id for need in row.needs for p in need.any_of if p.chunk_id]
    turns = [{"type": "human" if m.role == "user" else "ai", "content": m.content}
             for m in row.history]  # fmt: skip
    asked = [*turns, {"type": "human", "content": row.question}] if turns else row.question
    window = row.turn.window if row.turn else ()
    return {
        "user_input": asked,
        "reference": "\n".join(row.expected_output) or None,
        "reference_context_ids": ids,
        "retrieved_contexts": [chunk.content for chunk in window],
        "response": row.turn.answer if row.turn else None,
        _OWN: _own(row),
    }


def _read_deepeval(item: Item) -> Item:
    metadata = item.get("additional_metadata", item.get("additionalMetadata"))
    expected = item.get("expected_output", item.get("expectedOutput"))
    history = metadata.get("history") if isinstance(metadata, dict) else None
    return {
        **_asked(item.get("input")),
        "expected_output": _facts(expected),
        "history": history,
        **_kept(metadata),
    }


def _write_deepeval(row: DatasetRow) -> Item:
    window = row.turn.window if row.turn else ()
    return {
        "input": row.question,
        "actual_output": row.turn.answer if row.turn else None,
        "expected_output": "\n".join(row.expected_output) or None,
        "context": None,
        "retrieval_context": [chunk.content for chunk in window] or None,
        "additional_metadata": {"history": to_plain(row.history), _OWN: _own(row)},
    }


def _read_phoenix(item: Item) -> Item:
    return {
        **_asked(item.get("input", item.get("inputs"))),
        "expected_output": _facts(item.get("output", item.get("outputs"))),
        **_kept(item.get("metadata")),
    }


def _write_phoenix(row: DatasetRow) -> Item:
    return {
        "id": row.row_id,
        "input": {"question": row.question, "history": to_plain(row.history)},
        "output": {"answer": "\n".join(row.expected_output)},
        "metadata": {"kind": row.kind, _OWN: _own(row)},
    }


def _read_langfuse(item: Item) -> Item:
    trace = item.get("sourceTraceId", item.get("source_trace_id"))
    return {
        **_asked(item.get("input")),
        "expected_output": _facts(item.get("expectedOutput", item.get("expected_output"))),
        "provenance": {"trace_id": trace} if isinstance(trace, str) else None,
        **_kept(item.get("metadata")),
    }


def _write_langfuse(row: DatasetRow) -> Item:
    return {
        "datasetName": row.dataset,
        "id": row.row_id,
        "input": {"question": row.question, "history": to_plain(row.history)},
        "expectedOutput": "\n".join(row.expected_output) or None,
        "metadata": {"kind": row.kind, _OWN: _own(row)},
        "sourceTraceId": row.provenance.trace_id,
        "status": "ARCHIVED" if row.status == "retired" else "ACTIVE",
    }


def _read_openai(item: Item) -> Item:
    body = item["item"] if isinstance(item.get("item"), dict) else item
    ideal = body.get("ideal", body.get("expected_output", body.get("reference")))
    asked = _asked(body["input"]) if "input" in body else _asked(body)
    return {**asked, "expected_output": _facts(ideal), **_kept(body.get("metadata"))}


def _write_openai(row: DatasetRow) -> Item:
    messages = [*to_plain(row.history), {"role": "user", "content": row.question}]
    return {
        "input": messages,
        "ideal": list(row.expected_output),
        "metadata": {"kind": row.kind, _OWN: _own(row)},
    }


_READ: Mapping[str, Callable[[Item], Item]] = {
    "ragas": _read_ragas,
    "deepeval": _read_deepeval,
    "phoenix": _read_phoenix,
    "langfuse": _read_langfuse,
    "openai": _read_openai,
}
_WRITE: Mapping[str, Callable[[DatasetRow], Item]] = {
    "ragas": _write_ragas,
    "deepeval": _write_deepeval,
    "phoenix": _write_phoenix,
    "langfuse": _write_langfuse,
    "openai": _write_openai,
}
