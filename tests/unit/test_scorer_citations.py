"""A source named in the answer is not a claim about the world."""

from __future__ import annotations

import pytest

from stagewatch.scorer.judges.embedded import EmbeddedJudge
from stagewatch.scorer.judges.protocol import FaithfulnessReading
from stagewatch.scorer.stages.generation import guarded
from stagewatch.scorer.text.claims import read_answer

WINDOW = [
    "Customers may request a refund within 30 days of delivery.",
    "Standard shipping costs 4.90 EUR.",
]


@pytest.mark.parametrize(
    "mark",
    ["[1]", "[1, 2]", "[^3]", "[refund-policy#v7#0]", "[kb/refund.md:12]", "[doc_4; doc_5]",
     "【4†policy】", "(source 2)", "(source: parcels-v2.pdf, page 4)", "(see policy v7, p. 3)",
     "[Source: handbook]", "[Source: Refund Policy 2025, section 2.1]", "(sources: 1, 2; 3)",
     "(cf. terms.md#refunds)", "(per Handbook, pp. 3-4)", "(Reference: the refund page; §4)",
     "(source: https://shop.example/policy?v=7)", "[ref: returns_faq]"],
)  # fmt: skip
def test_marks_of_sources_are_left_out_of_what_is_judged(mark: str) -> None:
    answer = f"You can request a refund within 30 days of delivery {mark}."
    (claim,) = read_answer(answer).claims
    assert mark not in claim.judged
    assert answer[claim.start : claim.end] == claim.text
    reading = EmbeddedJudge().faithfulness("How long do I have?", answer, WINDOW)
    assert isinstance(reading, FaithfulnessReading)
    assert [found.label for found in reading.claims] == ["SUPPORTED"]


@pytest.mark.parametrize(
    "line",
    ["Source: refund-policy.pdf, page 4", "Sources: [1], [2]", "**Sources:** handbook; parcels.md",
     "References: the returns page, section 3."],
)  # fmt: skip
def test_a_line_of_sources_is_no_claim(line: str) -> None:
    answer = f"You can request a refund within 30 days of delivery.\n\n{line}"
    assert [claim.text for claim in read_answer(answer).claims] == [
        answer.split("\n", maxsplit=1)[0]
    ]


@pytest.mark.parametrize(
    "words",
    ["(see a doctor within 2 days)", "(source: 14 days from delivery)", "(from 9 to 17)",
     "(see below for gift cards)", "(see policy v7: within 14 days)", "(no sale items)",
     "[final sale items excluded]"],
)  # fmt: skip
def test_words_in_brackets_that_state_something_are_judged(words: str) -> None:
    (claim,) = read_answer(f"You can request a refund of an item {words}.").claims
    assert words in claim.judged


def test_a_source_named_in_words_hides_no_contradiction() -> None:
    answer = (
        "You can request a refund within 14 days of delivery (source: refund-policy.pdf, p. 3)."
    )
    reading = EmbeddedJudge().faithfulness("How long do I have?", answer, WINDOW)
    assert isinstance(reading, FaithfulnessReading)
    (claim,) = guarded(reading.claims, WINDOW)
    assert claim.label == "CONTRADICTED"


@pytest.mark.parametrize("text", ["[sic]", "[$30]", "[€4]", "[30 days]"])
def test_words_and_amounts_in_brackets_stay(text: str) -> None:
    (claim,) = read_answer(f"Shipping costs {text} for standard parcels.").claims
    assert text in claim.judged
