"""The one sentence that says what two runs come to. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stagewatch.scorer.plans.results import RowSummary, ScoreLine

_SPOKEN: tuple[tuple[str, str], ...] = (
    ("context_recall", "recall"),
    ("context_sufficiency", "sufficiency"),
    ("first_relevant_rank", "rank"),
    ("context_precision_at_k", "precision"),
    ("faithfulness", "faithfulness"),
    ("answer_relevancy", "relevancy"),
    ("answer_precision", "answers"),
    ("rewrite_fidelity", "rewriting"),
    ("answered_from_superseded", "sources"),
)
"""Metrics that the sentence speaks of, in the order of the stages, and what it calls them."""

_FALLS = frozenset({"first_relevant_rank", "answered_from_superseded"})
_NO_RANK = 1e9
_TOLERANCE = 1e-9

Pair = tuple[RowSummary, RowSummary]


def improvement(metric: str, before: ScoreLine, after: ScoreLine) -> float:
    """How much better `after` is; ranks and flags count downwards, a miss is the worst rank."""
    sign = -1.0 if metric in _FALLS else 1.0
    return sign * (_value(after) - _value(before))


def _value(line: ScoreLine) -> float:
    return _NO_RANK if line.value is None else line.value


def summary_sentence(pairs: Sequence[Pair], metrics: Sequence[str]) -> str:
    """Such as "recall up on multi hop (2 of 5 rows), precision down across the board,
    faithfulness held; near miss rows worse: 2 of 5 now fail". Counts rows, not significance.
    """
    if not pairs:
        return "no row is in both runs"
    parts = [
        said
        for metric, name in _SPOKEN
        if metric in metrics and (said := _metric_words(metric, name, pairs))
    ]
    verdicts = list(_kind_words(pairs))
    whole = ", ".join(parts) or "no metric is in both runs"
    return "; ".join([whole, *verdicts])


def _metric_words(metric: str, name: str, pairs: Sequence[Pair]) -> str:
    moved: dict[str, list[float]] = {}
    for a, b in pairs:
        x, y = a.scores.get(metric), b.scores.get(metric)
        if x is None or y is None or x.status != "scored" or y.status != "scored":
            continue
        moved.setdefault(b.kind, []).append(improvement(metric, x, y))
    if not moved:
        return ""
    signs = {kind: _sign(sum(map(_sign, values))) for kind, values in moved.items()}
    directions = {sign for sign in signs.values() if sign}
    if not directions:
        return f"{name} held"
    if len(directions) == 1 and len(signs) > 1 and 0 not in signs.values():
        return f"{name} {_way(directions.pop())} across the board"
    said = [
        f"{_way(sign)} on {kind.replace('_', ' ')} ({_share(sign, moved[kind])})"
        for kind, sign in sorted(signs.items())
        if sign
    ]
    return f"{name} {' and '.join(said)}"


def _sign(value: float) -> int:
    return (value > _TOLERANCE) - (value < -_TOLERANCE)


def _way(sign: int) -> str:
    return "up" if sign > 0 else "down"


def _share(sign: int, values: Sequence[float]) -> str:
    return f"{sum(_sign(value) == sign for value in values)} of {len(values)} rows"


def _kind_words(pairs: Sequence[Pair]) -> Iterable[str]:
    kinds: dict[str, list[tuple[str, str]]] = {}
    for a, b in pairs:
        kinds.setdefault(b.kind, []).append((a.verdict, b.verdict))
    for kind, verdicts in sorted(kinds.items()):
        broken = sum(old == "pass" and new == "fail" for old, new in verdicts)
        mended = sum(old == "fail" and new == "pass" for old, new in verdicts)
        if broken > mended:
            yield f"{kind.replace('_', ' ')} rows worse: {broken} of {len(verdicts)} now fail"
        elif mended > broken:
            yield f"{kind.replace('_', ' ')} rows better: {mended} of {len(verdicts)} now pass"
