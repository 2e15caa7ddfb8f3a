"""A source named in the answer is not a claim about the world."""

from __future__ import annotations

import pytest

from stagewatch.scorer.judges.embedded import EmbeddedJudge
from stagewatch.scorer.judges.protocol import FaithfulnessReading
from stagewatch.scorer.text.claims import read_answer

WINDOW = [
    "Customers may request a refund within 30 days of delivery.",
    "Standard shipping costs 4.90 EUR.",
]


@pytest.mark.parametrize(
    "mark",
    ["[1]", "[1, 2]", "[^3]", "[refund-policy#v7#0]", "[kb/refund.md:12]", "[doc_4; doc_5]",
     "【4†policy】", "(source 2)"],
)  # fmt: skip
def test_marks_of_sources_are_left_out_of_what_is_judged(mark: str) -> None:
    answer = f"You can request a refund within 30 days of delivery {mark}."
    (claim,) = read_answer(answer).claims
    assert mark not in claim.judged
    assert answer[claim.start : claim.end] == claim.text
    reading = EmbeddedJudge().faithfulness("How long do I have?", answer, WINDOW)
    assert isinstance(reading, FaithfulnessReading)
    assert [found.label for found in reading.claims] == ["SUPPORTED"]


@pytest.mark.parametrize("text", ["[sic]", "[$30]", "[€4]", "[30 days]"])
def test_words_and_amounts_in_brackets_stay(text: str) -> None:
    (claim,) = read_answer(f"Shipping costs {text} for standard parcels.").claims
    assert text in claim.judged
