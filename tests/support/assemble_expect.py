"""Comparing assembled turns with a capture's expected.json (whose ranks count from 0)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest import approx

from stagewatch.core.model import Chunk, Turn


def expected_of(folder: Path) -> list[dict[str, Any]]:
    """The expected turns of a capture, in order."""
    turns = json.loads((folder / "expected.json").read_bytes())["turns"]
    return sorted(turns, key=lambda turn: int(turn["turn"]))


def _documents(chunks: Sequence[Chunk] | None) -> list[dict[str, Any]] | None:
    if chunks is None:
        return None
    return [
        {
            "rank": chunk.rank - 1,
            "id": chunk.chunk_id,
            "document_id": chunk.document_id,
            "version": chunk.version,
            "score": chunk.score,
            "content": chunk.content,
        }
        for chunk in chunks
    ]


def _expected_documents(rows: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
    if rows is None:
        return None
    found = []
    for row in rows:
        score = row["score"] if row["score"] is not None else row.get("distance")
        found.append(
            {
                "rank": row["rank"],
                "id": row["id"],
                "document_id": row["document_id"],
                "version": row["version"],
                # Some stores keep 32-bit floats and round in the file.
                "score": None if score is None else approx(score, abs=1e-5),
                "content": row["content"] or "",
            }
        )
    return found


def _tokens(expected: dict[str, Any], side: str) -> int | None:
    """Our usage sums every model call of the turn; the file tells the rewrite's tokens apart."""
    answer = (expected.get("tokens") or {}).get(side)
    rewrite = (expected.get("rewrite_tokens") or {}).get(side)
    return None if answer is None and rewrite is None else (answer or 0) + (rewrite or 0)


def differences(turns: Sequence[Turn], expected: Sequence[dict[str, Any]]) -> list[str]:
    """One line for each field that is not as expected; empty when all are."""
    if len(turns) != len(expected):
        return [f"{len(turns)} turns instead of {len(expected)}"]
    found: list[str] = []
    for turn, wanted in zip(turns, expected, strict=True):
        found += _turn_differences(turn, wanted)
    return found


def _turn_differences(turn: Turn, wanted: dict[str, Any]) -> list[str]:
    retrieved = [chunk for retrieval in turn.retrievals for chunk in retrieval.chunks]
    queries = [retrieval.query for retrieval in turn.retrievals]
    window = [chunk.chunk_id for chunk in turn.window]
    texts = [chunk.content for chunk in turn.window]
    if "passed_texts" in wanted and wanted["passed_to_model"] is None:
        # Passages without ids are known by their words.
        window = []
    pairs = {
        "trace": (turn.trace_id in wanted["trace_ids"], True),
        "turn_index": (turn.turn_index, wanted.get("turn_index", wanted["turn"])),
        "conversation_id": (turn.conversation_id, wanted["conversation_id"]),
        "question": (turn.question, wanted["user_question"]),
        "rewritten_query": (turn.rewritten_query, wanted["rewritten_query"]),
        "answer": (turn.answer, wanted["answer"]),
        "request_model": (turn.request_model, wanted["request_model"]),
        "response_model": (turn.response_model, wanted["response_model"]),
        "input_tokens": (turn.usage.input_tokens, _tokens(wanted, "input")),
        "output_tokens": (turn.usage.output_tokens, _tokens(wanted, "output")),
        "release": (turn.release, wanted["tags"]["release"]),
        "index_version": (turn.index_version, wanted["tags"]["index_version"]),
        "prompt_version": (turn.prompt_version, wanted["tags"]["prompt_version"]),
        "retrieved": (_documents(retrieved) or None, _expected_documents(wanted["retrieved"])),
        "reranked": (_documents(turn.reranked), _expected_documents(wanted["reranked"])),
        "window": (window or None, wanted["passed_to_model"]),
        "window texts": (texts, wanted.get("passed_texts", texts)),
        "incomplete": (
            not turn.complete,
            bool(wanted.get("incomplete", wanted.get("retrieved_incomplete"))),
        ),
    }
    if turn.retrievals and wanted["retrieval_query"] is not None:
        pairs["query"] = (queries[0] or None, wanted["retrieval_query"])
    lines = [
        f"turn {wanted['turn']} {name}: got {got!r}, want {want!r}"
        for name, (got, want) in pairs.items()
        if got != want
    ]
    why = {missing.field: missing.why for missing in turn.missing}
    lines += [
        f"turn {wanted['turn']} missing {name}: {why.get(name)}, want {reason}"
        for name, reason in wanted.get("missing", {}).items()
        if why.get(name) != reason
    ]
    kind = wanted.get("score_kind")
    if kind and {chunk.score_kind for chunk in retrieved} != {kind}:
        lines.append(f"turn {wanted['turn']} score_kind: want {kind}")
    return lines
