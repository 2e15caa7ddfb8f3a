"""Whole turns of the refund bot: each broken stage is named, a good turn is ok."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.scorer_turns import chunk, turn

from stagewatch.core.model import Chunk, Message, Missing, Need, Passage, Score
from stagewatch.scorer.evaluate import Evaluation, Gold, evaluate_turn
from stagewatch.scorer.judges.embedded import EmbeddedJudge

JUDGE = EmbeddedJudge()
REFUND_QUESTION = "Within how many days can I return an item for a refund?"
REFUND_ANSWER = "You can return any item within 30 days from delivery for a full refund."
GOOD = ["refund", "shipping", "warranty", "giftcard", "damaged"]
LATE = ["shipping", "warranty", "hours", "giftcard", "account", "stores", "damaged", "refund"]


def score(found: Evaluation, metric: str) -> Score:
    return next(score for score in found.scores if score.metric == metric)


@pytest.mark.parametrize(
    ("question", "answer", "names"),
    [
        (REFUND_QUESTION, REFUND_ANSWER, GOOD),
        (
            "How much does standard shipping cost?",
            "Standard shipping costs EUR 4.90, and orders over EUR 50 ship free.",
            ["shipping", "refund", "giftcard", "stores", "hours"],
        ),
        (
            "How long is the warranty on electronic devices?",
            "Electronic devices carry a warranty of 2 years from the date of purchase.",
            ["warranty", "giftcard", "refund", "hours", "damaged"],
        ),
        (
            "When is the phone support open?",
            "Our phone support is open Monday to Friday from 9:00 to 17:00.",
            ["hours", "stores", "account", "refund", "shipping"],
        ),
    ],
)
def test_a_healthy_turn_is_ok(question: str, answer: str, names: list[str]) -> None:
    found = evaluate_turn(turn(question, answer, names), JUDGE)
    assert found.diagnosis.stage == "ok", (found.diagnosis, found.scores)
    assert found.passed is True
    assert found.relevance[0][0] is True
    assert all(claim.label == "SUPPORTED" for claim in found.claims)


def test_a_relevant_passage_ranked_behind_the_window_is_ranking() -> None:
    answer = "I do not have information about returns."
    found = evaluate_turn(turn(REFUND_QUESTION, answer, LATE), JUDGE)
    assert found.diagnosis.stage == "ranking"
    assert "position 8; the model saw 5" in found.diagnosis.why
    assert score(found, "first_relevant_rank").value == 8
    assert score(found, "faithfulness").value == 1.0
    assert found.refused is True


def test_a_lost_passage_is_retrieval() -> None:
    names = [name for name in LATE if name != "refund"]
    found = evaluate_turn(turn(REFUND_QUESTION, "I could not find that.", names), JUDGE)
    assert found.diagnosis.stage == "retrieval"
    rank = score(found, "first_relevant_rank")
    assert (rank.status, rank.value, rank.verdict) == ("scored", None, "fail")
    assert rank.reason == "missed at depth 7"


def test_a_lost_passage_and_an_invented_answer_is_both() -> None:
    names = [name for name in LATE if name != "refund"]
    answer = "Refunds are credited to a blue voucher wallet."
    found = evaluate_turn(turn(REFUND_QUESTION, answer, names), JUDGE)
    assert found.diagnosis.stage == "retrieval_and_generation"


def test_a_changed_number_is_generation_and_a_hard_fail() -> None:
    answer = REFUND_ANSWER.replace("30", "14")
    found = evaluate_turn(turn(REFUND_QUESTION, answer, GOOD), JUDGE)
    assert found.diagnosis.stage == "generation"
    assert "14 days against 30 days" in found.diagnosis.why
    faithfulness = score(found, "faithfulness")
    assert faithfulness.hard_fail
    assert faithfulness.verdict == "fail"
    claim = found.claims[0]
    assert (claim.label, claim.judge_label) == ("CONTRADICTED", "SUPPORTED")
    assert claim.guard is not None
    assert claim.chunk_rank == 1
    assert answer[claim.start : claim.end] == claim.text


def stale_turn(answer: str) -> Evaluation:
    old = chunk("refund", 1, version="v6", chunk_id="r6")
    old = replace(old, content=old.content.replace("30 days", "14 days"))
    new = chunk("refund", 2, version="v7", chunk_id="r7")
    base = turn(REFUND_QUESTION, answer, GOOD)
    chunks = (old, new, *base.window[1:4])
    retrieval = replace(base.retrievals[0], chunks=chunks)
    return evaluate_turn(replace(base, retrievals=(retrieval,), window=chunks), JUDGE)


def test_an_answer_from_a_superseded_version_is_stale_source() -> None:
    found = stale_turn(REFUND_ANSWER.replace("30", "14"))
    assert found.diagnosis.stage == "stale_source"
    assert "rests on a superseded version" in found.diagnosis.why
    assert score(found, "answered_from_superseded").value == 1.0
    assert score(found, "version_conflict").value == 1.0
    assert found.window_superseded[0]
    assert found.window_marks[0] is False


def test_an_answer_from_the_current_version_beside_an_old_one_is_not_answered_from_it() -> None:
    found = stale_turn(REFUND_ANSWER)
    assert score(found, "answered_from_superseded").value == 0.0
    assert score(found, "stale_context").value == 1.0


def beside_unrelated_old(answer: str, gold: Gold | None = None) -> Evaluation:
    """The refund turn with a superseded price list in its window, which nothing rests on."""
    base = turn(REFUND_QUESTION, answer, GOOD)
    old = chunk("giftcard", 4, version="v1", chunk_id="g1", superseded=True)
    chunks = (*base.window[:3], old, base.window[4])
    retrieval = replace(base.retrievals[0], chunks=chunks)
    return evaluate_turn(replace(base, retrievals=(retrieval,), window=chunks), JUDGE, gold=gold)


@pytest.mark.parametrize("gold", [None, Gold(needs=(Need((Passage(document_id="refund"),)),))])
def test_an_old_passage_about_something_else_is_no_stale_source(gold: Gold | None) -> None:
    right = beside_unrelated_old(REFUND_ANSWER, gold)
    assert score(right, "stale_context").value == 1.0
    assert right.diagnosis.stage == "ok"
    wrong = beside_unrelated_old(REFUND_ANSWER.replace("30", "14"), gold)
    assert wrong.diagnosis.stage == "generation"


def test_an_answer_from_an_old_passage_about_something_else_is_stale_source() -> None:
    found = beside_unrelated_old("Gift cards are valid for three years.")
    assert score(found, "answered_from_superseded").value == 1.0
    assert found.diagnosis.stage == "stale_source"
    assert found.diagnosis.why.endswith("at position 4.")


def old_refund_only(gold: Gold | None) -> Evaluation:
    base = turn(REFUND_QUESTION, "I could not find that.", GOOD)
    old = chunk("refund", 1, version="v6", chunk_id="r6", superseded=True)
    chunks = (old, *base.window[1:])
    retrieval = replace(base.retrievals[0], chunks=chunks)
    return evaluate_turn(replace(base, retrievals=(retrieval,), window=chunks), JUDGE, gold=gold)


@pytest.mark.parametrize(
    ("gold", "stage"),
    [
        (None, "stale_source"),
        (Gold(needs=(Need((Passage(document_id="refund"),)),)), "stale_source"),
        (Gold(needs=(Need((Passage(document_id="refund", version="v7"),)),)), "stale_source"),
        (Gold(needs=(Need((Passage(document_id="refund", version="v6"),)),)), "generation"),
        (Gold(needs=(Need((Passage(document_id="warranty"),)),)), "generation"),
    ],
)
def test_an_old_version_of_what_was_asked_for_is_stale_source(
    gold: Gold | None, stage: str
) -> None:
    found = old_refund_only(gold)
    assert found.diagnosis.stage == stage
    if stage == "stale_source":
        assert found.diagnosis.why == (
            "A superseded version of what was asked about stood in the window at position 1."
        )


def test_hygiene_says_why_also_when_nothing_is_wrong() -> None:
    clean = evaluate_turn(turn(REFUND_QUESTION, REFUND_ANSWER, GOOD), JUDGE)
    beside = beside_unrelated_old(REFUND_ANSWER)
    for found in (clean, beside):
        for metric in ("version_conflict", "stale_context", "answered_from_superseded"):
            assert score(found, metric).reason, metric
    assert score(clean, "stale_context").reason == "no superseded version in the window"
    assert score(beside, "answered_from_superseded").reason == (
        "none of 1 supported claim(s) rests on one"
    )


def test_a_refusal_before_a_sufficient_window_is_generation() -> None:
    found = evaluate_turn(
        turn(REFUND_QUESTION, "Sorry, I don't have that information.", GOOD), JUDGE
    )
    assert found.diagnosis.stage == "generation"
    assert "refused" in found.diagnosis.why
    assert score(found, "refusal").value == 0.0
    assert score(found, "answer_relevancy").status == "not_applicable"


def test_a_dispute_over_a_clean_turn_points_at_label_or_corpus() -> None:
    found = evaluate_turn(turn(REFUND_QUESTION, REFUND_ANSWER, GOOD), JUDGE, feedback_low=True)
    assert found.diagnosis.stage == "label_or_corpus"
    assert "a person said it was wrong" in found.diagnosis.why


def test_a_rewrite_that_loses_the_number_fails_first() -> None:
    asked = turn(
        "And within 60 days for the Model 7?",
        REFUND_ANSWER,
        GOOD,
        history=(Message("user", "Can I return a kettle?"), Message("assistant", "Yes.")),
        rewritten_query="Can I return the kettle within 90 days for the Model 7?",
    )
    found = evaluate_turn(asked, JUDGE)
    assert found.diagnosis.stage == "rewrite"
    assert score(found, "rewrite_fidelity").hard_fail


def test_what_was_not_captured_is_said_and_never_scored() -> None:
    bare = turn(REFUND_QUESTION, REFUND_ANSWER, [], retrievals=(), window=0)
    found = evaluate_turn(replace(bare, window=()), JUDGE)
    assert found.diagnosis.stage == "unknown"
    assert {"retrieved", "recall", "faithfulness"} <= set(found.diagnosis.missing)
    assert score(found, "faithfulness").status == "unscored"
    assert score(found, "faithfulness").reason.startswith("not_captured")
    assert found.passed is None


UNSEEN = (Missing("window", "not_captured"),)


@pytest.mark.parametrize("answer", [REFUND_ANSWER, REFUND_ANSWER.replace("30", "14")])
def test_a_window_nobody_saw_is_unscored_and_blames_no_stage(answer: str) -> None:
    base = replace(turn(REFUND_QUESTION, answer, GOOD), window=(), missing=UNSEEN)
    found = evaluate_turn(base, JUDGE)
    for metric in ("faithfulness", "context_sufficiency", "context_precision", "stale_context"):
        result = score(found, metric)
        assert (result.status, result.value) == ("unscored", None), metric
        assert result.reason.startswith("not_captured"), metric
    assert score(found, "retrieved_recall").value == 1.0
    assert score(found, "first_relevant_rank").value == 1.0
    assert found.diagnosis.stage == "unknown"
    assert set(found.diagnosis.missing) == {"recall", "faithfulness"}
    assert found.claims == ()


def test_a_window_nobody_saw_still_lets_the_known_stages_speak() -> None:
    late = replace(turn(REFUND_QUESTION, REFUND_ANSWER, LATE), window=(), missing=UNSEEN)
    assert evaluate_turn(late, JUDGE).diagnosis.stage == "ranking"
    names = [name for name in LATE if name != "refund"]
    lost = replace(turn(REFUND_QUESTION, REFUND_ANSWER, names), window=(), missing=UNSEEN)
    assert evaluate_turn(lost, JUDGE).diagnosis.stage == "retrieval"


def test_gold_does_not_turn_an_unseen_window_into_a_miss() -> None:
    base = replace(turn(REFUND_QUESTION, REFUND_ANSWER, GOOD), window=(), missing=UNSEEN)
    found = evaluate_turn(base, JUDGE, gold=Gold(needs=(NEED,), expected_output=("30 days.",)))
    assert score(found, "retrieved_recall").value == 1.0
    for metric in ("context_recall", "context_recall_claims"):
        assert score(found, metric).reason.startswith("not_captured"), metric


@pytest.mark.parametrize("gold", [None, Gold(needs=(Need((Passage(document_id="refund"),)),))])
def test_a_list_nobody_saw_is_no_miss(gold: Gold | None) -> None:
    unseen = (
        Missing("retrievals[0].chunks", "not_captured"),
        Missing("window", "not_captured"),
    )
    base = replace(turn(REFUND_QUESTION, REFUND_ANSWER, []), missing=unseen)
    found = evaluate_turn(base, JUDGE, gold=gold)
    for metric in ("retrieved_recall", "first_relevant_rank", "reciprocal_rank", "faithfulness"):
        result = score(found, metric)
        assert (result.status, result.value) == ("unscored", None), metric
        assert result.reason.startswith("not_captured"), metric
    assert found.diagnosis.stage == "unknown"


def test_a_redacted_prompt_leaves_the_retrieved_list_readable() -> None:
    base = turn(REFUND_QUESTION, REFUND_ANSWER, GOOD)
    found = evaluate_turn(replace(base, window=(), missing=(Missing("window", "redacted"),)), JUDGE)
    assert score(found, "faithfulness").reason.startswith("redacted")
    assert score(found, "retrieved_recall").value == 1.0


def test_a_window_the_app_says_is_empty_is_known() -> None:
    base = replace(turn(REFUND_QUESTION, REFUND_ANSWER, GOOD), window=(), window_source="ids")
    found = evaluate_turn(base, JUDGE)
    assert score(found, "faithfulness").value == 0.0
    assert score(found, "context_sufficiency").value == 0.0
    assert found.diagnosis.stage == "ranking"


def test_redacted_chunks_leave_their_reason() -> None:
    base = turn(REFUND_QUESTION, REFUND_ANSWER, GOOD, missing=(Missing("retrievals", "redacted"),))
    blank = tuple(replace(c, content="") for c in base.window)
    retrieval = replace(base.retrievals[0], chunks=blank)
    found = evaluate_turn(replace(base, window=blank, retrievals=(retrieval,)), JUDGE)
    assert score(found, "context_precision").reason.startswith("redacted")


def test_an_empty_window_leaves_every_claim_absent() -> None:
    base = turn(REFUND_QUESTION, REFUND_ANSWER, [])
    found = evaluate_turn(base, JUDGE)
    assert [claim.label for claim in found.claims] == ["ABSENT"]
    assert found.diagnosis.stage == "retrieval_and_generation"
    assert score(found, "context_precision").reason == "empty_window"


def test_an_empty_answer_is_not_a_refusal() -> None:
    found = evaluate_turn(turn(REFUND_QUESTION, "  ", GOOD), JUDGE)
    assert score(found, "faithfulness").reason == "empty_answer"
    assert score(found, "faithfulness").status == "not_applicable"


def test_context_as_a_set_has_no_ranks() -> None:
    base = turn(REFUND_QUESTION, REFUND_ANSWER, GOOD)
    unordered = replace(base, retrievals=(replace(base.retrievals[0], ordered=False),))
    found = evaluate_turn(unordered, JUDGE)
    assert score(found, "first_relevant_rank").reason == "unordered"
    assert score(found, "retrieved_recall").value == 1.0


def test_reused_chunks_leave_the_retrieval_scores_to_the_earlier_turn() -> None:
    found = evaluate_turn(turn(REFUND_QUESTION, REFUND_ANSWER, GOOD, reused_from="t0-s0"), JUDGE)
    metrics = {item.metric for item in found.scores}
    assert "retrieval_reuse" in metrics
    assert "first_relevant_rank" not in metrics
    assert "faithfulness" in metrics


NEED = Need((Passage(document_id="refund"),))


def test_gold_decides_retrieval_and_the_answer() -> None:
    gold = Gold(
        needs=(NEED,), expected_output=("Items can be returned within 30 days from delivery.",)
    )
    good = evaluate_turn(turn(REFUND_QUESTION, REFUND_ANSWER, GOOD), JUDGE, gold=gold)
    assert good.verdict == "pass"
    assert good.diagnosis.stage == "ok"
    assert score(good, "context_recall").basis == "gold"
    assert score(good, "answer_precision").value == 1.0
    late = evaluate_turn(turn(REFUND_QUESTION, "I could not find that.", LATE), JUDGE, gold=gold)
    assert (score(late, "retrieved_recall").value, score(late, "context_recall").value) == (
        1.0,
        0.0,
    )
    assert late.diagnosis.stage == "ranking"


def test_memory_is_a_right_answer_without_its_passage() -> None:
    gold = Gold(
        needs=(NEED,), expected_output=("Items can be returned within 30 days from delivery.",)
    )
    names = [name for name in LATE if name != "refund"]
    found = evaluate_turn(turn(REFUND_QUESTION, REFUND_ANSWER, names), JUDGE, gold=gold)
    assert found.diagnosis.stage == "memory"


def test_multi_hop_rows_need_everything() -> None:
    needs = (NEED, Need((Passage(document_id="hours"),)))
    gold = Gold(kind="multi_hop", needs=needs)
    found = evaluate_turn(turn(REFUND_QUESTION, REFUND_ANSWER, GOOD), JUDGE, gold=gold)
    assert score(found, "context_recall").value == 0.0


def test_unanswerable_rows_pass_only_with_a_refusal() -> None:
    gold = Gold(kind="unanswerable")
    question = "Do you sell concert tickets?"
    refused = evaluate_turn(
        turn(question, "I do not have information about that.", GOOD), JUDGE, gold=gold
    )
    assert score(refused, "refusal").value == 1.0
    assert refused.verdict == "pass"
    hedged = evaluate_turn(
        turn(question, "I am not sure, but items can be returned within 30 days.", GOOD),
        JUDGE,
        gold=gold,
    )
    assert score(hedged, "refusal").verdict == "fail"
    assert score(hedged, "faithfulness").hard_fail
    assert score(hedged, "context_recall").reason == "no_gold"


def test_evaluation_is_deterministic() -> None:
    asked = turn(REFUND_QUESTION, REFUND_ANSWER, GOOD)
    assert evaluate_turn(asked, JUDGE) == evaluate_turn(asked, EmbeddedJudge())


def test_judge_scores_carry_the_fingerprint_and_rules_their_own() -> None:
    found = evaluate_turn(turn(REFUND_QUESTION, REFUND_ANSWER, GOOD), JUDGE)
    for item in found.scores:
        if item.basis == "judge":
            assert (item.judge, item.fingerprint) == ("embedded", JUDGE.fingerprint)
        else:
            assert item.judge is None
            assert item.fingerprint == "rule-1"
    assert isinstance(found.claims[0].chunk_rank, int)
    assert Chunk(rank=1).relevant is None
