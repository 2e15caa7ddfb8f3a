"""The worked values and edge cases of the metric definitions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from stagewatch.core.model import Chunk, ClaimLabel, Need, Passage
from stagewatch.scorer.metrics.answer import answer_precision, answer_relevancy
from stagewatch.scorer.metrics.faithfulness import faithfulness
from stagewatch.scorer.metrics.hygiene import (
    answered_from_superseded,
    compare_versions,
    expired,
    stale_context,
    superseded_flags,
    version_conflict,
)
from stagewatch.scorer.metrics.precision import (
    context_precision,
    context_precision_at_k,
    context_relevancy,
)
from stagewatch.scorer.metrics.rank import (
    Miss,
    best_rank,
    first_relevant_rank,
    rank_summary,
    reciprocal_rank,
    top_k_curve,
)
from stagewatch.scorer.metrics.recall import (
    context_recall_claims,
    recall_of_needs,
    retrieved_any,
)
from stagewatch.scorer.metrics.refusal import refusal_kind, refusal_on_unanswerable
from stagewatch.scorer.metrics.relevance import gold_marks, judged_marks, needs_met
from stagewatch.scorer.metrics.rewrite import ConstraintState, rewrite_fidelity, rewrite_gain
from stagewatch.scorer.metrics.sufficiency import context_sufficiency
from stagewatch.scorer.results import NotApplicable, Scored, Unscored, value_of
from stagewatch.scorer.thresholds import Thresholds

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


def at(*positions: int, of: int = 5) -> list[bool]:
    return [i in positions for i in range(1, of + 1)]


@pytest.mark.parametrize(
    ("positions", "expected"),
    [((1, 2, 5), 0.8667), ((1, 4, 5), 0.7), ((3, 4, 5), 0.4778)],
)
def test_precision_at_k_of_three_relevant_chunks(
    positions: tuple[int, ...], expected: float
) -> None:
    marks = at(*positions)
    assert value_of(context_precision_at_k(marks)) == pytest.approx(expected, abs=5e-5)
    assert value_of(context_precision(marks)) == pytest.approx(0.6)
    assert value_of(recall_of_needs([True, True, True])) == 1.0


def test_one_four_five_passes_the_default_threshold() -> None:
    result = context_precision_at_k(at(1, 4, 5))
    assert Thresholds().verdict("context_precision_at_k", result) == "pass"


def test_perfect_is_exactly_one() -> None:
    assert context_precision_at_k([True] * 7) == Scored(1.0)
    assert context_precision_at_k(at(1, 2, of=9)) == Scored(1.0)


def test_recall_stays_flat_while_the_rank_shows_the_slide() -> None:
    for position in (1, 8):
        marks = at(position, of=10)
        assert value_of(retrieved_any([marks])) == 1.0
        assert first_relevant_rank(marks) == position
    assert value_of(reciprocal_rank(8)) == 0.125


def test_precision_without_a_window_or_with_a_gap_has_no_value() -> None:
    for metric in (context_precision, context_precision_at_k, context_relevancy):
        assert metric([]) == Unscored("empty_window")
        assert metric([True, None]) == Unscored("judge_incomplete")
    assert context_precision_at_k([True], ordered=False) == Unscored("unordered")
    assert value_of(context_precision_at_k([False, False])) == 0.0


def test_a_miss_has_no_rank_and_never_enters_a_mean() -> None:
    assert first_relevant_rank([False] * 20) == Miss(20)
    assert reciprocal_rank(Miss(20)) == Scored(0.0, note="missed at depth 20")
    summary = rank_summary([1, 4, Miss(20), Unscored("unordered")])
    assert (summary.median, summary.p90) == (2.5, 4.0)
    assert summary.miss_rate == pytest.approx(1 / 3)
    assert summary.mrr == pytest.approx((1 + 0.25) / 3)
    assert summary.unscored == 1


def test_rank_is_unknown_behind_an_unjudged_chunk_and_in_a_set() -> None:
    assert first_relevant_rank([False, None, True]) == Unscored("judge_incomplete")
    assert first_relevant_rank([True, None]) == 1
    assert first_relevant_rank([True], ordered=False) == Unscored("unordered")


def test_best_rank_over_the_lists_that_fed_the_window() -> None:
    assert best_rank([4, 2]) == 2
    assert best_rank([Miss(10), 3]) == 3
    assert best_rank([Miss(10), Miss(5)]) == Miss(10)
    assert best_rank([2, Unscored("unordered")]) == Unscored("unordered")
    assert best_rank([1, Unscored("unordered")]) == 1


def test_rank_verdict_passes_to_three() -> None:
    thresholds = Thresholds()
    verdicts = [thresholds.rank_verdict(rank) for rank in (1, 3, 4, Miss(9))]
    assert verdicts == ["pass", "pass", "fail", "fail"]
    assert thresholds.rank_verdict(Unscored("unordered")) is None


def test_top_k_curve() -> None:
    curve = top_k_curve(at(2, 4, of=4))
    assert [(p.top_k, p.recall, p.precision) for p in curve] == [
        (1, 0.0, 0.0),
        (2, 0.5, 0.5),
        (3, 0.5, pytest.approx(1 / 3)),
        (4, 1.0, 0.5),
    ]


def test_multi_hop_recall_is_all_or_nothing() -> None:
    assert value_of(recall_of_needs([True, False], all_or_nothing=True)) == 0.0
    assert value_of(recall_of_needs([True, True], all_or_nothing=True)) == 1.0
    assert value_of(recall_of_needs([True, False])) == 0.5


def test_recall_edges() -> None:
    assert recall_of_needs([]) == NotApplicable("no_gold")
    assert recall_of_needs([True], unanswerable=True) == NotApplicable("no_gold")
    assert value_of(recall_of_needs([False])) == 0.0
    assert value_of(retrieved_any([[]])) == 0.0
    assert retrieved_any([[False, None]]) == Unscored("judge_incomplete")


def test_two_of_three_expected_claims_fail_the_default() -> None:
    result = context_recall_claims(["SUPPORTED", "SUPPORTED", "ABSENT"])
    assert value_of(result) == pytest.approx(0.667, abs=5e-4)
    assert Thresholds().verdict("context_recall_claims", result) == "fail"
    assert context_recall_claims([]) == NotApplicable("no_expected_output")


def test_one_contradicted_claim_fails_the_turn() -> None:
    result = faithfulness(["SUPPORTED", "CONTRADICTED", "SUPPORTED"])
    assert isinstance(result, Scored)
    assert result.value == pytest.approx(0.667, abs=5e-4)
    assert result.hard_fail
    labels: list[ClaimLabel | None] = ["SUPPORTED"] * 99
    many = faithfulness([*labels, "CONTRADICTED"])
    assert Thresholds().verdict("faithfulness", many) == "fail"


def test_faithfulness_edges() -> None:
    assert faithfulness([], refused=True) == Scored(1.0, note="refused")
    assert faithfulness([], empty_answer=True) == NotApplicable("empty_answer")
    assert faithfulness(["SUPPORTED", None]) == Unscored("judge_incomplete")
    invented = faithfulness(["SUPPORTED"], unanswerable=True)
    assert isinstance(invented, Scored)
    assert invented.hard_fail
    refused = faithfulness([], refused=True, unanswerable=True)
    assert isinstance(refused, Scored)
    assert not refused.hard_fail


def test_answer_metrics() -> None:
    assert value_of(answer_relevancy(2, 1)) == 0.5
    assert answer_relevancy(1, 0, refused=True) == NotApplicable("refusal")
    assert answer_relevancy(1, 1, empty_answer=True) == NotApplicable("empty_answer")
    with pytest.raises(ValueError, match="within"):
        answer_relevancy(1, 2)
    against = answer_precision(["SUPPORTED", "CONTRADICTED"])
    assert isinstance(against, Scored)
    assert against.hard_fail
    assert answer_precision(None) == NotApplicable("no_expected_output")


def test_refusals() -> None:
    assert refusal_kind(refused=True, sufficiency="insufficient") == "correct_refusal"
    assert refusal_kind(refused=True, sufficiency="sufficient") == "wrong_refusal"
    assert refusal_kind(refused=True, sufficiency="partial") == "unjudged_refusal"
    assert refusal_kind(refused=False, sufficiency="sufficient") == "none"
    assert Thresholds().verdict("refusal", refusal_on_unanswerable(refused=False)) == "fail"
    assert Thresholds().verdict("refusal", refusal_on_unanswerable(refused=True)) == "pass"


def test_sufficiency_levels() -> None:
    assert value_of(context_sufficiency("sufficient")) == 1.0
    assert value_of(context_sufficiency("partial")) == 0.5
    assert value_of(context_sufficiency("insufficient")) == 0.0


def test_rewrite_metrics() -> None:
    assert value_of(rewrite_fidelity(["kept", "dropped"])) == 0.5
    kept: list[ConstraintState | None] = ["kept"] * 9
    changed = rewrite_fidelity([*kept, "changed"])
    assert Thresholds().verdict("rewrite_fidelity", changed) == "fail"
    assert rewrite_fidelity(None) == NotApplicable("no_rewrite")
    assert rewrite_fidelity(["kept", None]) == Unscored("judge_incomplete")
    assert value_of(rewrite_gain(1, 4)) == 0.75
    assert value_of(rewrite_gain(Miss(10), 2)) == -0.5


def chunk(document: str, version: str | None = None, **more: Any) -> Chunk:
    return Chunk(
        rank=1, document_id=document, version=version, content=f"{document}{version}", **more
    )


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("v6", "v7"),
        ("v9", "v10"),
        ("1.9", "1.10"),
        ("1.10", "1.10.1"),
        ("2024-09-01", "2025-01-15"),
        ("policy-2023.pdf", "policy-2024.pdf"),
    ],
)
def test_natural_version_order(older: str, newer: str) -> None:
    assert compare_versions(older, newer) == -1
    assert compare_versions(newer, older) == 1


def test_versions_without_an_order() -> None:
    assert compare_versions("draft", "final") is None
    assert compare_versions("v6", "2024-09-01") is None
    assert compare_versions("1.2", "1.2.0") == 0


def test_superseded_by_order_dates_rule_and_catalogue() -> None:
    six, seven = chunk("refund", "v6"), chunk("refund", "v7")
    assert superseded_flags([six, seven], NOW) == [True, False]
    assert superseded_flags([six], NOW) == [False]
    assert superseded_flags([six], NOW, among=[seven]) == [True]
    assert superseded_flags([six], NOW, newest={"refund": "v7"}) == [True]
    # Dates come before the order of version names.
    dated = chunk("refund", "v6", valid_to="2026-12-31")
    assert superseded_flags([dated, seven], NOW) == [False, False]
    # A project's rule comes before both.
    upside_down = superseded_flags([six, seven], NOW, order=lambda a, b: -1 if a > b else 1)
    assert upside_down == [False, True]
    assert superseded_flags([chunk("d", "draft"), chunk("d", "final")], NOW) == [False, False]
    assert superseded_flags([chunk("d", "v9", superseded=True)], NOW) == [True]


def test_validity_dates() -> None:
    assert expired(chunk("d", valid_to="2026-03-02"), NOW) is False
    assert expired(chunk("d", valid_to="2026-03-01"), NOW) is True
    assert expired(chunk("d", valid_to="2026-03-02T11:00:00Z"), NOW) is True
    assert expired(chunk("d", valid_from="2026-04-01"), NOW) is True
    assert expired(chunk("d"), NOW) is None
    assert expired(chunk("d", valid_to="soon"), NOW) is None


def test_hygiene_metrics() -> None:
    assert value_of(version_conflict([chunk("a", "v1"), chunk("a", "v2")])) == 1.0
    assert value_of(version_conflict([chunk("a", "v1"), chunk("b", "v2")])) == 0.0
    assert value_of(stale_context([False, True])) == 1.0
    assert value_of(answered_from_superseded([[1]], [True, False])) == 1.0
    assert value_of(answered_from_superseded([[1, 2]], [True, False])) == 0.0
    assert value_of(answered_from_superseded([[]], [True])) == 0.0


def test_a_need_is_met_by_any_of_its_passages_and_never_by_an_old_version() -> None:
    need = Need((Passage(document_id="refund"), Passage(chunk_id="faq-3")))
    old = chunk("refund", "v6")
    assert needs_met([need], [old], [False]) == [True]
    assert needs_met([need], [old], [True]) == [False]
    named = Need((Passage(document_id="refund", version="v6"),))
    assert needs_met([named], [old], [True]) == [True]
    assert needs_met([need], [Chunk(rank=1, chunk_id="faq-3")], [False]) == [True]
    assert needs_met([need], [], []) == [False]


def test_second_copies_are_noise() -> None:
    need = Need((Passage(document_id="a"),))
    twice = [chunk("a"), chunk("a"), chunk("b")]
    assert gold_marks([need], twice, [False] * 3) == [True, False, False]
    assert judged_marks(twice, [True, True, False], [False] * 3) == [True, False, False]
    assert judged_marks([chunk("a")], [True], [True]) == [False]
