"""Properties of the metrics that hold for any marks: bounds, order, copies, monotonicity."""

from __future__ import annotations

import itertools
import math

from hypothesis import given
from hypothesis import strategies as st

from stagewatch.core.model import Chunk, Need, Passage
from stagewatch.scorer.metrics.faithfulness import faithfulness
from stagewatch.scorer.metrics.precision import context_precision, context_precision_at_k
from stagewatch.scorer.metrics.rank import Miss, first_relevant_rank, reciprocal_rank, top_k_curve
from stagewatch.scorer.metrics.recall import recall_of_needs, retrieved_any
from stagewatch.scorer.metrics.relevance import gold_marks, needs_met, without_copies
from stagewatch.scorer.results import Scored, value_of

MARKS = st.lists(st.booleans(), min_size=1, max_size=12)
LABELS = st.lists(st.sampled_from(["SUPPORTED", "ABSENT", "CONTRADICTED"]), min_size=1, max_size=9)


def brute_force_at_k(marks: list[bool]) -> float:
    hits = [i for i, mark in enumerate(marks, start=1) if mark]
    if not hits:
        return 0.0
    return math.fsum(sum(marks[:i]) / i for i in hits) / len(hits)


@given(MARKS)
def test_precision_at_k_is_average_precision(marks: list[bool]) -> None:
    value = value_of(context_precision_at_k(marks))
    assert value is not None
    assert math.isclose(value, brute_force_at_k(marks), abs_tol=1e-12)
    assert 0.0 <= value <= 1.0


@given(MARKS)
def test_precision_at_k_is_one_only_when_the_relevant_stand_first(marks: list[bool]) -> None:
    sorted_well = any(marks) and marks == sorted(marks, reverse=True)
    assert (value_of(context_precision_at_k(marks)) == 1.0) == sorted_well


@given(MARKS, st.randoms(use_true_random=False))
def test_set_metrics_do_not_mind_the_order(marks: list[bool], random: object) -> None:
    shuffled = list(marks)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert context_precision(marks) == context_precision(shuffled)
    assert retrieved_any([marks]) == retrieved_any([shuffled])


@given(MARKS, st.data())
def test_moving_a_relevant_chunk_up_never_hurts(marks: list[bool], data: st.DataObject) -> None:
    swaps = [i for i in range(1, len(marks)) if marks[i] and not marks[i - 1]]
    if not swaps:
        return
    i = data.draw(st.sampled_from(swaps))
    better = list(marks)
    better[i - 1], better[i] = better[i], better[i - 1]
    before, after = (
        value_of(context_precision_at_k(marks)),
        value_of(context_precision_at_k(better)),
    )
    assert before is not None
    assert after is not None
    assert after > before
    old, new = first_relevant_rank(marks), first_relevant_rank(better)
    assert isinstance(old, int)
    assert isinstance(new, int)
    assert new <= old


@given(MARKS)
def test_rank_and_its_reciprocal(marks: list[bool]) -> None:
    rank = first_relevant_rank(marks)
    value = value_of(reciprocal_rank(rank))
    assert value is not None
    if isinstance(rank, Miss):
        assert not any(marks)
        assert value == 0.0
    else:
        assert isinstance(rank, int)
        assert marks[rank - 1]
        assert not any(marks[: rank - 1])
        assert 0.0 < value <= 1.0


@given(MARKS)
def test_top_k_recall_never_falls(marks: list[bool]) -> None:
    curve = top_k_curve(marks)
    assert all(a.recall <= b.recall for a, b in itertools.pairwise(curve))
    assert curve[-1].recall == (1.0 if any(marks) else 0.0)


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=8), st.sets(st.sampled_from("abcd")))
def test_copies_never_raise_recall_or_precision(ids: list[str], wanted: set[str]) -> None:
    chunks = [Chunk(rank=i, chunk_id=c, content=f"text {c}") for i, c in enumerate(ids, start=1)]
    needs = [Need((Passage(chunk_id=c),)) for c in sorted(wanted)]
    old = [False] * len(chunks)
    marks = gold_marks(needs, chunks, old)
    assert sum(mark is True for mark in marks) == len(set(ids) & wanted)
    doubled = chunks + chunks
    assert needs_met(needs, chunks, old) == needs_met(needs, doubled, old * 2)
    more = gold_marks(needs, doubled, old * 2)
    assert (value_of(context_precision(more)) or 0.0) <= (value_of(context_precision(marks)) or 0.0)


@given(st.lists(st.booleans(), min_size=1, max_size=8), st.data())
def test_recall_is_monotone_in_met_needs(met: list[bool], data: st.DataObject) -> None:
    i = data.draw(st.integers(0, len(met) - 1))
    more = [*met[:i], True, *met[i + 1 :]]
    for strict in (False, True):
        low = value_of(recall_of_needs(met, all_or_nothing=strict))
        high = value_of(recall_of_needs(more, all_or_nothing=strict))
        assert low is not None
        assert high is not None
        assert 0.0 <= low <= high <= 1.0


@given(LABELS)
def test_faithfulness_bounds_and_hard_fail(labels: list[str]) -> None:
    result = faithfulness(labels)  # type: ignore[arg-type]
    assert isinstance(result, Scored)
    assert 0.0 <= result.value <= 1.0
    assert result.hard_fail == ("CONTRADICTED" in labels)
    assert (result.value == 1.0) == (set(labels) == {"SUPPORTED"})


@given(st.lists(st.sampled_from("abc"), max_size=6))
def test_without_copies_keeps_length_and_first(ids: list[str]) -> None:
    chunks = [Chunk(rank=i, content=c) for i, c in enumerate(ids, start=1)]
    marks = without_copies(chunks, [True] * len(ids))
    assert len(marks) == len(ids)
    assert sum(mark is True for mark in marks) == len(set(ids))
