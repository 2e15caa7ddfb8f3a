"""What templates show, shaped from turns and spans. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import orjson

from stagewatch.api.promote import all_chunks
from stagewatch.api.views import TurnView
from stagewatch.core.codec import to_text
from stagewatch.core.model import Claim, DatasetRow, Need, Passage, RowKind, Score, SpanRow, Turn

FEWEST_ROWS = 5
"""Below this many rows of a kind, its pass rate says next to nothing."""


@dataclass(frozen=True, slots=True)
class Step:
    """One stage in the rail: `state` is pass, fail, warn or none."""

    name: str
    state: str
    says: str


def _state(score: Score | None) -> str:
    if score is None or score.status != "scored":
        return "none"
    return score.verdict or "none"


def stage_rail(view: TurnView) -> list[Step]:
    """The stages of a turn in order, each with one line of what happened there."""
    scores = {score.metric: score for score in view.scores}
    turn = view.turn
    failing = view.diagnosis.stage if view.diagnosis else "unknown"
    steps = [_rewrite_step(turn, scores)]
    chunks = sum(len(item.chunks) for item in turn.retrievals)
    recall = scores.get("retrieved_recall")
    steps.append(Step("Retrieval", _state(recall), _fetched(chunks, len(turn.retrievals))))
    rank = scores.get("first_relevant_rank")
    steps.append(Step("Ranking", _state(rank), _rank_words(rank, len(turn.window))))
    stale = sum(bool(chunk.superseded) for chunk in turn.window)
    hygiene = "warn" if stale else ("pass" if turn.window else "none")
    says = f"{stale} superseded in the window" if stale else "no superseded version seen"
    steps.append(Step("Source", "fail" if failing == "stale_source" else hygiene, says))
    steps.append(_generation_step(view, scores))
    return steps


def _fetched(chunks: int, retrievals: int) -> str:
    if not retrievals:
        return "no retrieval seen"
    said = f"{chunks} chunk{'' if chunks == 1 else 's'}"
    return said if retrievals == 1 else f"{said} from {retrievals} retrievals"


def _rewrite_step(turn: Turn, scores: dict[str, Score]) -> Step:
    if not turn.rewritten_query:
        return Step("Rewrite", "none", "asked as it was")
    return Step("Rewrite", _state(scores.get("rewrite_fidelity")), turn.rewritten_query)


def _rank_words(rank: Score | None, window: int) -> str:
    if rank is None or rank.status != "scored":
        return rank.reason if rank and rank.reason else f"window of {window}"
    if rank.value is None:
        return rank.reason or "no relevant passage"
    return f"first relevant at {rank.value:g}; the model saw {window}"


def _generation_step(view: TurnView, scores: dict[str, Score]) -> Step:
    found = scores.get("faithfulness")
    labels = Counter(claim.label for claim in view.claims)
    if view.turn.refused:
        return Step("Generation", _state(found), "declined to answer")
    if not labels:
        return Step(
            "Generation", _state(found), (found.reason if found else "") or "no claims read"
        )
    says = ", ".join(f"{n} {name.lower()}" for name, n in labels.items())
    return Step("Generation", _state(found), says)


_WINDOW_WORDS = {
    "ids": "named by the app",
    "prompt": "found in the prompt by their text",
    "documents": "listed by the app",
    "reranked": "taken to be the reranked list",
    "top_k": "taken to be the first top k",
    "retrieved": "taken to be all that was retrieved",
}


def window_words(source: str | None) -> str:
    """How the window was known, for people."""
    return _WINDOW_WORDS.get(source or "", (source or "").replace("_", " "))


def answer_segments(answer: str, claims: Sequence[Claim]) -> list[tuple[str, int | None, str]]:
    """The answer cut at its claims: (text, claim number from 1 or None, label)."""
    segments: list[tuple[str, int | None, str]] = []
    at = 0
    numbered = sorted(enumerate(claims, 1), key=lambda pair: (pair[1].start, pair[1].end))
    for number, claim in numbered:
        if claim.start < at or claim.end > len(answer) or claim.end <= claim.start:
            continue
        if claim.start > at:
            segments.append((answer[at : claim.start], None, ""))
        segments.append((answer[claim.start : claim.end], number, claim.label))
        at = claim.end
    if at < len(answer):
        segments.append((answer[at:], None, ""))
    return segments


@dataclass(frozen=True, slots=True)
class Evidence:
    """A passage to judge an answer by: `claim` is what it was held against, "" for none."""

    label: str
    text: str
    claim: str


_WORST_FIRST = {"CONTRADICTED": 0, "ABSENT": 1, "SUPPORTED": 2}


def evidence_of(view: TurnView) -> Evidence | None:
    """The passage a reviewer needs most: of the worst claim, else the first relevant chunk."""
    shown = [claim for claim in view.claims if claim.evidence]
    if shown:
        claim = min(shown, key=lambda item: _WORST_FIRST[item.label])
        at = (claim.chunk_rank or 0) - 1
        window = view.turn.window
        chunk = window[at].chunk_id if 0 <= at < len(window) else None
        return Evidence(chunk or "passage", claim.evidence, claim.text)
    relevant = next((chunk for chunk in all_chunks(view.turn) if chunk.relevant), None)
    if relevant is None:
        return None
    return Evidence(relevant.chunk_id or "passage", relevant.content, "")


def passage_names(needs: Sequence[Need]) -> list[str]:
    """What each need names, its interchangeable passages joined by "or"."""
    return [
        " or ".join(
            (p.chunk_id or p.document_id or "?") + (f" ({p.version})" if p.version else "")
            for p in need.any_of
        )
        for need in needs
    ]


def shown_needs(turn: Turn, needs: Sequence[Need]) -> list[tuple[str, str]]:
    """(names, text) of what each need asks for: the text of the first passage that the turn
    holds, "" when it fetched none of them.
    """
    texts = {chunk.chunk_id: chunk.content for chunk in all_chunks(turn) if chunk.chunk_id}
    held = [
        next((texts[p.chunk_id] for p in need.any_of if p.chunk_id in texts), "") for need in needs
    ]
    return list(zip(passage_names(needs), held, strict=True))


@dataclass(frozen=True, slots=True)
class NeedOption:
    """A chunk to tick as what the answer needs; `value` is the passage as JSON."""

    value: str
    label: str
    content: str
    ticked: bool
    superseded: bool


def need_options(turn: Turn, suggested: Sequence[Need]) -> list[NeedOption]:
    """Every named chunk of the turn, the suggested ones ticked."""
    ticked = {passage for need in suggested for passage in need.any_of}
    options = []
    for chunk in all_chunks(turn):
        passage = Passage(chunk.chunk_id, chunk.document_id, chunk.version)
        if passage == Passage():
            continue
        options.append(
            NeedOption(
                value=to_text(passage),
                label=chunk.chunk_id or f"{chunk.document_id} {chunk.version or ''}".strip(),
                content=chunk.content,
                ticked=passage in ticked,
                superseded=bool(chunk.superseded),
            )
        )
    return options


def kind_quota(rows: Sequence[DatasetRow]) -> list[tuple[str, int, str]]:
    """(kind, rows, advice) for every kind: how many there are and whether that tells anything."""
    counted = Counter(row.kind for row in rows)
    table = []
    for kind in get_args(RowKind):
        n = counted.get(kind, 0)
        advice = ""
        if n < FEWEST_ROWS:
            advice = f"{FEWEST_ROWS} is the least that tells you something"
        elif kind == "happy_path" and rows and n / len(rows) > 0.5:
            advice = "about a third is enough; add traps"
        table.append((kind, n, advice))
    return table


@dataclass(frozen=True, slots=True)
class SpanBar:
    """A span in the waterfall: offset and width in per cent of the trace."""

    depth: int
    span: SpanRow
    offset: float
    width: float
    duration_ms: float
    attributes: list[tuple[str, str]]


def _shown(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, (dict, list, tuple)):
        return orjson.dumps(
            value, default=str, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS
        ).decode()
    return str(value)


def waterfall(ordered: Sequence[tuple[int, SpanRow]]) -> list[SpanBar]:
    """The spans of a trace placed on one time axis."""
    if not ordered:
        return []
    begin = min(span.start_ns for _, span in ordered)
    length = max(max(span.end_ns for _, span in ordered) - begin, 1)
    return [
        SpanBar(
            depth=min(depth, 8),
            span=span,
            offset=100 * (span.start_ns - begin) / length,
            width=max(0.4, 100 * max(0, span.end_ns - span.start_ns) / length),
            duration_ms=max(0, span.end_ns - span.start_ns) / 1e6,
            attributes=sorted((key, _shown(value)) for key, value in span.attributes.items()),
        )
        for depth, span in ordered
    ]
