"""Retrieval and ranking of one turn: marks for every chunk, then recall, precision and rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from stagewatch.core.model import Basis, Chunk, Need, Retrieval, Turn
from stagewatch.scorer.judges.protocol import Judge
from stagewatch.scorer.metrics.hygiene import VersionOrder, superseded_flags
from stagewatch.scorer.metrics.precision import context_precision, context_precision_at_k
from stagewatch.scorer.metrics.rank import (
    Miss,
    Rank,
    best_rank,
    first_relevant_rank,
    reciprocal_rank,
)
from stagewatch.scorer.metrics.recall import recall_of_needs, retrieved_any
from stagewatch.scorer.metrics.relevance import (
    Mark,
    gold_marks,
    judged_marks,
    meets,
    needs_met,
    same_text,
)
from stagewatch.scorer.results import Result, Scored, Unscored
from stagewatch.scorer.stages.book import Book
from stagewatch.scorer.stages.gaps import content_gap, lists_gap, window_gap


@dataclass(frozen=True, slots=True)
class Freshness:
    """Which chunks are superseded: one flag a chunk of each list, and of the window."""

    lists: tuple[tuple[bool, ...], ...]
    window: tuple[bool, ...]


def freshness(turn: Turn, order: VersionOrder | None, newest: dict[str, str] | None) -> Freshness:
    """Superseded flags for everything the turn fetched; versions are compared across it all."""
    at: datetime = turn.started_at
    seen = [chunk for item in turn.retrievals for chunk in item.chunks] + list(turn.window)
    lists = tuple(
        tuple(superseded_flags(item.chunks, at, among=seen, order=order, newest=newest))
        for item in turn.retrievals
    )
    window = superseded_flags(turn.window, at, among=seen, order=order, newest=newest)
    return Freshness(lists, tuple(window))


@dataclass(frozen=True, slots=True)
class Marks:
    """Relevance of each chunk of each list and of the window; `gap` when nothing could be read.

    `outdated` has one mark a window chunk: whether a superseded version of what was asked for
    stands there, one that would have been relevant were it current.
    """

    lists: tuple[tuple[Mark, ...], ...] = ()
    window: tuple[Mark, ...] = ()
    outdated: tuple[Mark, ...] = ()
    gap: Unscored | None = None


def mark_by_gold(turn: Turn, needs: Sequence[Need], fresh: Freshness) -> Marks:
    """Marks from the labels of a row."""
    return Marks(
        tuple(
            tuple(gold_marks(needs, item.chunks, old))
            for item, old in zip(turn.retrievals, fresh.lists, strict=True)
        ),
        tuple(gold_marks(needs, turn.window, fresh.window)),
        tuple(outdated_by_gold(needs, turn, fresh.window)),
    )


def mark_by_judge(turn: Turn, question: str, judge: Judge, fresh: Freshness, depth: int) -> Marks:
    """Marks from a judge, asked once for all distinct texts down to `depth` of each list.

    Chunks beyond the depth are cut from the lists, so a miss is a miss at that depth.
    """
    lists = [item.chunks[:depth] for item in turn.retrievals]
    everything = [chunk for chunks in lists for chunk in chunks] + list(turn.window)
    gap = content_gap(turn, everything, *(["window"] if turn.window else []))
    if gap is not None:
        return Marks(gap=gap)
    texts = list(dict.fromkeys(same_text(chunk.content) for chunk in everything))
    shown = {same_text(chunk.content): chunk.content for chunk in everything}
    if not texts:
        return Marks(tuple(() for _ in lists))
    reading = judge.relevance(question, [shown[text] for text in texts])
    if isinstance(reading, Unscored):
        return Marks(gap=reading)
    known = dict(zip(texts, reading.marks, strict=True))
    return Marks(
        tuple(
            tuple(judged_marks(chunks, _marks(chunks, known), old[: len(chunks)]))
            for chunks, old in zip(lists, fresh.lists, strict=True)
        ),
        tuple(judged_marks(turn.window, _marks(turn.window, known), fresh.window)),
        tuple(
            mark if old else False
            for mark, old in zip(_marks(turn.window, known), fresh.window, strict=True)
        ),
    )


def outdated_by_gold(needs: Sequence[Need], turn: Turn, superseded: Sequence[bool]) -> list[bool]:
    """For each window chunk whether it is an old version of a document that a need names.

    A label that names only a chunk names that chunk's document. A version that a need itself
    asks for is what the row wants, however old.
    """
    passages = [passage for need in needs for passage in need.any_of]
    labelled = {passage.chunk_id for passage in passages if passage.chunk_id}
    seen = [chunk for item in turn.retrievals for chunk in item.chunks] + list(turn.window)
    documents = {passage.document_id for passage in passages if passage.document_id}
    documents |= {c.document_id for c in seen if c.chunk_id in labelled and c.document_id}
    return [
        old
        and chunk.document_id in documents
        and not any(meets(passage, chunk, superseded=True) for passage in passages)
        for chunk, old in zip(turn.window, superseded, strict=True)
    ]


def _marks(chunks: Sequence[Chunk], known: dict[str, Mark]) -> list[Mark]:
    return [known[same_text(chunk.content)] for chunk in chunks]


def _identity(chunk: Chunk) -> str:
    return chunk.chunk_id or same_text(chunk.content)


def feeding_lists(turn: Turn) -> list[int]:
    """Indexes of the retrievals whose chunks stand in the window; else the last one."""
    window = {_identity(chunk) for chunk in turn.window}
    fed = [
        index
        for index, item in enumerate(turn.retrievals)
        if any(_identity(chunk) in window for chunk in item.chunks)
    ]
    return fed or ([len(turn.retrievals) - 1] if turn.retrievals else [])


@dataclass(slots=True)
class RetrievalOutcome:
    """What the diagnosis needs to know of retrieval besides the scores."""

    rank: Rank = field(default_factory=lambda: Unscored("not_captured"))
    depth: int = 0
    relevant_in_window: int | None = None
    relevant_chunks: int | None = None


def score_marks(turn: Turn, marks: Marks, book: Book, *, gold: bool) -> RetrievalOutcome:
    """Rank, precision and, on a judge's word, whether anything relevant was fetched."""
    basis: Basis = "gold" if gold else "judge"
    outcome = RetrievalOutcome()
    if not gold:
        book.add("retrieved_recall", _fetched(turn, marks), "judge")
    outcome.rank = _rank(turn, marks)
    outcome.depth = (
        max((len(marks.lists[i]) for i in feeding_lists(turn)), default=0) if (marks.lists) else 0
    )
    book.add_rank(outcome.rank, basis)
    book.add("reciprocal_rank", reciprocal_rank(outcome.rank), basis)
    gap = marks.gap or window_gap(turn)
    if gap is not None and gap.reason != "not_captured" and gold:
        gap = None
    relevant = [i for i, mark in enumerate(marks.window, start=1) if mark]
    if gap is None:
        outcome.relevant_chunks = len(relevant)
        outcome.relevant_in_window = relevant[0] if relevant else None
    precision: Result = gap or context_precision(marks.window)
    ordered = turn.reranked is not None or all(item.ordered for item in turn.retrievals)
    at_k: Result = gap or context_precision_at_k(marks.window, ordered=ordered)
    book.add("context_precision", precision, basis)
    # With one relevant chunk precision@k only repeats the rank, with none it repeats recall.
    book.add("context_precision_at_k", at_k, basis, decides=len(relevant) > 1 or gap is not None)
    return outcome


def _fetched(turn: Turn, marks: Marks) -> Result:
    if marks.gap is not None:
        return marks.gap
    if turn.retrievals:
        found = retrieved_any(marks.lists)
        # A list that was not captured cannot prove a miss.
        missed = isinstance(found, Scored) and found.value == 0
        return (lists_gap(turn) or found) if missed else found
    if any(marks.window):
        return retrieved_any([marks.window])
    return Unscored("not_captured", "retrievals")


def _rank(turn: Turn, marks: Marks) -> Rank:
    if marks.gap is not None:
        return marks.gap
    fed = feeding_lists(turn)
    rank = best_rank([_list_rank(turn.retrievals[i], marks.lists[i]) for i in fed])
    return (lists_gap(turn) or rank) if isinstance(rank, Miss) else rank


def _list_rank(retrieval: Retrieval, marks: Sequence[Mark]) -> Rank:
    return first_relevant_rank(marks, ordered=retrieval.ordered)


def score_recalls(
    turn: Turn, needs: Sequence[Need], fresh: Freshness, book: Book, *, multi_hop: bool
) -> None:
    """Both recalls with gold: over the union of the lists, and over the window."""
    chunks = [chunk for item in turn.retrievals for chunk in item.chunks]
    old = [flag for flags in fresh.lists for flag in flags]
    met = needs_met(needs, chunks, old)
    gap = lists_gap(turn) if turn.retrievals else Unscored("not_captured", "retrievals")
    fetched = recall_of_needs(met, all_or_nothing=multi_hop)
    # What was seen to be fetched stays fetched, whatever other lists may have held.
    book.add("retrieved_recall", fetched if gap is None or (met and all(met)) else gap, "gold")
    if not turn.window and (unseen := window_gap(turn)) is not None:
        book.add("context_recall", unseen, "gold")
        return
    met = needs_met(needs, turn.window, fresh.window)
    book.add("context_recall", recall_of_needs(met, all_or_nothing=multi_hop), "gold")
