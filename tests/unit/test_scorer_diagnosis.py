"""The diagnosis table: row by row, and over every combination of signals."""

from __future__ import annotations

import itertools

import pytest

from stagewatch.scorer.diagnosis import TABLE, Facts, Signals, diagnose, matching_line

HIGH = Signals(
    rewrite="high",
    answered_from_superseded="no",
    stale_context="no",
    retrieved="high",
    recall="high",
    rank="high",
    precision_at_k="high",
    faithfulness="high",
    wrong_refusal="no",
    answer_relevancy="high",
    answer="unknown",
)


def with_(**changes: str) -> Signals:
    values = {name: getattr(HIGH, name) for name in Signals.__dataclass_fields__}
    return Signals(**(values | changes))


@pytest.mark.parametrize(
    ("signals", "number", "stage"),
    [
        (with_(rewrite="low", faithfulness="low"), 1, "rewrite"),
        (with_(answered_from_superseded="yes", answer="high"), 2, "stale_source"),
        (with_(stale_context="yes", answer="low"), 2, "stale_source"),
        (with_(stale_context="yes"), 2, "stale_source"),
        (with_(stale_context="yes", answer="high"), 10, "ok"),
        (with_(retrieved="low", answer="high"), 3, "memory"),
        (with_(retrieved="low", faithfulness="low"), 4, "retrieval_and_generation"),
        (with_(retrieved="low"), 5, "retrieval"),
        (with_(retrieved="low", faithfulness="unknown"), 5, "retrieval"),
        (with_(rank="low"), 6, "ranking"),
        (with_(recall="low", faithfulness="low"), 6, "ranking"),
        (with_(precision_at_k="low", answer="low"), 6, "ranking"),
        (with_(rank="low", answer="high"), 11, "unknown"),
        (with_(faithfulness="low"), 7, "generation"),
        (with_(wrong_refusal="yes"), 7, "generation"),
        (with_(faithfulness="low", retrieved="unknown"), 7, "generation"),
        (with_(answer_relevancy="low"), 8, "evasion"),
        (with_(answer="low"), 9, "label_or_corpus"),
        (with_(answer="low", rank="unknown", answer_relevancy="unknown"), 9, "label_or_corpus"),
        (HIGH, 10, "ok"),
        (with_(answer="high", rank="unknown", retrieved="unknown"), 10, "ok"),
        (with_(recall="unknown"), 11, "unknown"),
        (Signals(), 11, "unknown"),
        (Signals(answer="low"), 11, "unknown"),
    ],
)
def test_each_line(signals: Signals, number: int, stage: str) -> None:
    line = matching_line(signals)
    assert (line.number, line.stage) == (number, stage)


def test_every_combination_has_exactly_one_diagnosis_with_words() -> None:
    levels = ("high", "low", "unknown")
    flags = ("yes", "no", "unknown")
    fields = Signals.__dataclass_fields__
    choices = [
        flags if name in {"answered_from_superseded", "stale_context", "wrong_refusal"} else levels
        for name in fields
    ]
    seen = set()
    for values in itertools.product(*choices):
        signals = Signals(*values)  # type: ignore[arg-type]
        line = matching_line(signals)
        # First match: no earlier line may match as well.
        assert not any(other.matches(signals) for other in TABLE[: line.number - 1])
        seen.add(line.number)
    assert seen == set(range(1, 12))


def test_an_unknown_signal_never_triggers_a_line_that_does_not_say_so() -> None:
    """Turning one input unknown may only move the diagnosis down the table or leave it."""
    named_unknown = {"answer", "rank", "precision_at_k"}
    for line in TABLE[:8]:
        for case in line.any_of:
            for name, allowed in case.items():
                assert ("unknown" not in allowed) or name in named_unknown


def test_the_sentences_a_person_reads() -> None:
    ranking = diagnose(with_(rank="low", recall="low"), Facts(relevant_at=9, window_size=5))
    assert ranking.why == (
        "The right passage was fetched but stood at position 9; the model saw 5."
    )
    wrong = diagnose(
        with_(faithfulness="low"),
        Facts(claims=3, contradicted=1, unsupported=0, finding="14 days against 30 days"),
    )
    assert wrong.why == (
        "The window held what was needed, but 1 of 3 statements contradicts it: "
        "14 days against 30 days."
    )
    refused = diagnose(with_(retrieved="low"), Facts(depth=20, refused=True))
    assert refused.why == "No relevant passage was fetched (20 looked at), and the model said so."
    lost = diagnose(with_(recall="unknown", faithfulness="unknown"))
    assert lost.missing == ("recall", "faithfulness")
    assert diagnose(HIGH).missing == ()


def test_every_stage_has_a_sentence_for_bare_facts() -> None:
    for line in TABLE:
        signals = next(
            Signals(**{name: min(allowed) for name, allowed in case.items()})  # type: ignore[arg-type]
            for case in line.any_of
        )
        assert diagnose(signals).why.endswith(".")
