"""One turn, all its stages: scores, claims, relevance marks, verdict and diagnosis. Pure but for
what the judge does: the same turn, judge and configuration give the same evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from stagewatch.core.model import Claim, DatasetRow, Diagnosis, Need, RowKind, Score, Turn
from stagewatch.scorer.diagnosis import Facts, Flag, Level, Signals, diagnose
from stagewatch.scorer.judges.protocol import Judge
from stagewatch.scorer.metrics.hygiene import VersionOrder
from stagewatch.scorer.metrics.refusal import RefusalKind, refusal_kind, refusal_on_unanswerable
from stagewatch.scorer.metrics.relevance import Mark
from stagewatch.scorer.metrics.rewrite import rewrite_fidelity
from stagewatch.scorer.metrics.sufficiency import SufficiencyLevel, context_sufficiency
from stagewatch.scorer.results import NotApplicable, Scored, Unscored
from stagewatch.scorer.stages.book import Book
from stagewatch.scorer.stages.gaps import question_gap, window_gap
from stagewatch.scorer.stages.generation import (
    GenerationOutcome,
    score_answer,
    score_expectation,
    score_hygiene,
)
from stagewatch.scorer.stages.outdated import StalePositions, stale_positions
from stagewatch.scorer.stages.retrieval import (
    Freshness,
    Marks,
    RetrievalOutcome,
    freshness,
    mark_by_gold,
    mark_by_judge,
    score_marks,
    score_recalls,
)
from stagewatch.scorer.thresholds import RowVerdict, Thresholds, row_verdict


@dataclass(frozen=True, slots=True)
class ScoreConfig:
    """What may differ from project to project.

    `judge_depth` is how many chunks of each retrieved list are judged; `newest` maps a document
    to its current version; `version_order` is a project's own rule for version strings.
    """

    thresholds: Thresholds = field(default_factory=Thresholds)
    judge_depth: int = 20
    version_order: VersionOrder | None = None
    newest: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Gold:
    """The labels of a dataset row."""

    kind: RowKind = "happy_path"
    needs: tuple[Need, ...] = ()
    expected_output: tuple[str, ...] = ()
    standalone_question: str | None = None


def gold_of(row: DatasetRow) -> Gold:
    """The labels of `row`."""
    return Gold(row.kind, row.needs, row.expected_output, row.standalone_question)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Everything there is to say of one turn.

    `relevance` has one list a retrieval, in rank order down to the judged depth; `window_marks`
    one mark a window chunk. `passed` is None when nothing failed and a deciding metric has no
    value (`verdict` is then `errored`).
    """

    scores: tuple[Score, ...]
    claims: tuple[Claim, ...]
    diagnosis: Diagnosis
    relevance: tuple[tuple[Mark, ...], ...]
    window_marks: tuple[Mark, ...]
    window_superseded: tuple[bool, ...]
    refused: bool | None
    verdict: RowVerdict
    passed: bool | None
    fingerprint: str


def evaluate_turn(
    turn: Turn,
    judge: Judge,
    *,
    feedback_low: bool | None = None,
    gold: Gold | None = None,
    config: ScoreConfig | None = None,
    at: datetime | None = None,
) -> Evaluation:
    """Score every stage of `turn` and name the first that failed.

    Args:
        turn: the assembled turn; nothing outside it is read.
        judge: who reads the texts; the guard goes over its SUPPORTED labels.
        feedback_low: True when a person disputed or corrected the answer, None when nobody spoke.
        gold: the labels of a dataset row; retrieval is then scored by them, the answer against
            the expected facts. Without it a judge marks the chunks.
        config: thresholds and version rules.
        at: the time to write on the scores.
    """
    settings = config or ScoreConfig()
    labels = gold or Gold()
    book = Book(judge, settings.thresholds, at)
    fresh = freshness(
        turn, settings.version_order, dict(settings.newest) if settings.newest else None
    )
    gap = question_gap(turn)
    asked = labels.standalone_question or turn.rewritten_query or turn.question or ""
    unanswerable = gold is not None and labels.kind == "unanswerable"
    marks, found = _retrieval(turn, asked, judge, fresh, labels, book, settings, unanswerable)
    level = _sufficiency(turn, asked, judge, labels, book, unanswerable=unanswerable, gap=gap)
    said = score_answer(
        turn, asked or (turn.question or ""), judge, book, unanswerable=unanswerable
    )
    score_hygiene(turn, said.claims, fresh.window, book)
    _rewrite(turn, judge, labels, book)
    refusal = _refusal(said, level, book, unanswerable=unanswerable)
    if gold is not None:
        score_expectation(turn, labels.expected_output, judge, book)
    stale = stale_positions(turn, said.claims, fresh.window, marks.outdated)
    scores = _attributed(turn, book.scores)
    verdict = row_verdict(scores, settings.thresholds)
    return Evaluation(
        scores=tuple(scores),
        claims=said.claims,
        diagnosis=_diagnosis(turn, book, stale, found, said, refusal, feedback_low=feedback_low),
        relevance=marks.lists,
        window_marks=marks.window,
        window_superseded=fresh.window,
        refused=said.refused,
        verdict=verdict,
        passed={"pass": True, "fail": False}.get(verdict),
        fingerprint=judge.fingerprint,
    )


def _retrieval(
    turn: Turn,
    asked: str,
    judge: Judge,
    fresh: Freshness,
    labels: Gold,
    book: Book,
    settings: ScoreConfig,
    unanswerable: bool,  # noqa: FBT001
) -> tuple[Marks, RetrievalOutcome]:
    if unanswerable:
        for metric in ("retrieved_recall", "context_recall"):
            book.add(metric, NotApplicable("no_gold"), "gold")
        return mark_by_gold(turn, (), fresh), RetrievalOutcome()
    if labels.needs:
        score_recalls(turn, labels.needs, fresh, book, multi_hop=labels.kind == "multi_hop")
        marks = mark_by_gold(turn, labels.needs, fresh)
        return marks, score_marks(turn, marks, book, gold=True)
    gap = question_gap(turn)
    marks = (
        Marks(gap=gap)
        if gap is not None
        else mark_by_judge(turn, asked, judge, fresh, settings.judge_depth)
    )
    return marks, score_marks(turn, marks, book, gold=False)


def _sufficiency(
    turn: Turn,
    asked: str,
    judge: Judge,
    labels: Gold,
    book: Book,
    *,
    unanswerable: bool,
    gap: Unscored | None,
) -> SufficiencyLevel | None:
    """The window's sufficiency: from gold recall where a row has needs, else from the judge."""
    if unanswerable:
        return "insufficient"
    if labels.needs:
        recall = next((s.value for s in book.scores if s.metric == "context_recall"), None)
        if recall is None:
            return None
        return "sufficient" if recall >= 1.0 else "partial" if recall > 0 else "insufficient"
    missing = gap or window_gap(turn)
    if missing is not None:
        book.add("context_sufficiency", missing, "judge")
        return None
    texts = [chunk.content for chunk in turn.window]
    if not texts:
        book.add("context_sufficiency", context_sufficiency("insufficient"), "judge")
        return "insufficient"
    reading = judge.sufficiency(asked, texts)
    if isinstance(reading, Unscored):
        book.add("context_sufficiency", reading, "judge")
        return None
    book.add("context_sufficiency", context_sufficiency(reading.level), "judge")
    return reading.level


def _rewrite(turn: Turn, judge: Judge, labels: Gold, book: Book) -> None:
    rewritten, question = turn.rewritten_query, turn.question
    if not rewritten or not question:
        book.add("rewrite_fidelity", NotApplicable("no_rewrite"), "judge")
        return
    reading = judge.rewrite(turn.history, question, rewritten, labels.standalone_question)
    if isinstance(reading, Unscored):
        book.add("rewrite_fidelity", reading, "judge")
        return
    result = rewrite_fidelity([constraint.state for constraint in reading.constraints])
    lost = [c.text for c in reading.constraints if c.state != "kept"]
    parts = [result.note if isinstance(result, Scored) else ""]
    if lost:
        parts.append("lost or changed: " + ", ".join(lost))
    if reading.hints:
        parts.append("hints: " + ", ".join(reading.hints))
    book.add("rewrite_fidelity", result, "judge", note="; ".join(part for part in parts if part))


def _refusal(
    said: GenerationOutcome, level: SufficiencyLevel | None, book: Book, *, unanswerable: bool
) -> RefusalKind:
    if unanswerable:
        if said.refused is None:
            book.add("refusal", Unscored("judge_incomplete"), "gold")
            return "none"
        book.add("refusal", refusal_on_unanswerable(refused=said.refused), "gold")
        return "correct_refusal" if said.refused else "none"
    kind = refusal_kind(refused=bool(said.refused), sufficiency=level)
    if kind in {"correct_refusal", "wrong_refusal"}:
        right = kind == "correct_refusal"
        book.add("refusal", Scored(1.0 if right else 0.0, note=kind.replace("_", " ")), "judge")
    return kind


_RETRIEVAL_METRICS = frozenset(
    {
        "retrieved_recall",
        "context_recall",
        "context_precision",
        "context_precision_at_k",
        "first_relevant_rank",
        "reciprocal_rank",
    }
)


def _attributed(turn: Turn, scores: Sequence[Score]) -> list[Score]:
    """A turn that answered from chunks fetched earlier leaves retrieval scores to that turn."""
    if turn.reused_from is None:
        return list(scores)
    kept = [score for score in scores if score.metric not in _RETRIEVAL_METRICS]
    at = scores[0].at if scores else None
    reuse = Score("retrieval_reuse", "scored", 1.0, basis="rule", fingerprint="rule-1", at=at,
                  reason=f"answered from chunks of {turn.reused_from}")  # fmt: skip
    return [*kept, reuse]


def _answer_level(book: Book, *, feedback_low: bool | None) -> Level:
    if feedback_low is not None:
        return "low" if feedback_low else "high"
    return book.level("answer_precision")


def _recall_level(book: Book) -> Level:
    level = book.level("context_recall")
    return level if level != "unknown" else book.level("context_sufficiency")


def _flag(book: Book, metric: str) -> Flag:
    for score in book.scores:
        if score.metric == metric and score.status == "scored" and score.value is not None:
            return "yes" if score.value > 0 else "no"
    return "unknown"


def _diagnosis(
    turn: Turn,
    book: Book,
    stale: StalePositions,
    found: RetrievalOutcome,
    said: GenerationOutcome,
    refusal: RefusalKind,
    *,
    feedback_low: bool | None,
) -> Diagnosis:
    signals = Signals(
        rewrite=book.level("rewrite_fidelity"),
        answered_from_superseded=_flag(book, "answered_from_superseded"),
        stale_context=stale.flag,
        retrieved=book.level("retrieved_recall"),
        recall=_recall_level(book),
        rank=book.level("first_relevant_rank"),
        precision_at_k=book.level("context_precision_at_k"),
        faithfulness=book.level("faithfulness"),
        wrong_refusal="yes" if refusal == "wrong_refusal" else "no",
        answer_relevancy=book.level("answer_relevancy"),
        answer=_answer_level(book, feedback_low=feedback_low),
    )
    return diagnose(signals, _facts(turn, book, stale, found, said, feedback_low is not None))


def _facts(
    turn: Turn,
    book: Book,
    stale: StalePositions,
    found: RetrievalOutcome,
    said: GenerationOutcome,
    person_said: bool,  # noqa: FBT001
) -> Facts:
    guard = next((claim.guard for claim in said.claims if claim.guard), None)
    lost = next((s.reason for s in book.scores if s.metric == "rewrite_fidelity"), "")
    rewrite_failed = book.level("rewrite_fidelity") == "low"
    return Facts(
        relevant_at=found.rank if isinstance(found.rank, int) else None,
        depth=found.depth or None,
        window_size=len(turn.window) or None,
        relevant_in_window=found.relevant_in_window,
        relevant_chunks=found.relevant_chunks,
        claims=len(said.claims) or None,
        unsupported=sum(claim.label == "ABSENT" for claim in said.claims),
        contradicted=sum(claim.label == "CONTRADICTED" for claim in said.claims),
        finding=lost if rewrite_failed else (guard or "").partition(": ")[2],
        stale_positions=stale.positions,
        refused=bool(said.refused),
        person_said=person_said,
    )
