"""Reading quantities, dates, negation, and comparing them."""

from __future__ import annotations

import pytest

from stagewatch.scorer.facts.compare import compare
from stagewatch.scorer.facts.numbers import read_digits
from stagewatch.scorer.facts.opposites import negations, opposite
from stagewatch.scorer.facts.quantities import Quantity, read_quantities
from stagewatch.scorer.text.words import read_words


def one(text: str) -> Quantity:
    found = read_quantities(read_words(text))
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize(
    ("text", "kind", "value", "unit"),
    [
        ("within 30 days", "measure", 30 * 86400, "time"),
        ("five working days", "measure", 5, "working days"),
        ("twenty-five years", "measure", 300, "months"),
        ("two and a half years", "measure", 30, "months"),
        ("EUR 14.99", "money", 14.99, "EUR"),
        ("14,99 €", "money", 14.99, "EUR"),
        ("$5 million", "money", 5e6, "USD"),
        ("50 cents", "money", 0.5, ""),
        ("10 %", "percent", 10, "percent"),
        ("ten percent", "percent", 10, "percent"),
        ("5 percentage points", "points", 5, "points"),
        ("1,234,567 people", "number", 1234567, ""),
        ("a hundred people", "number", 100, ""),
        ("three hundred and five people", "number", 305, ""),
        ("in 1999", "year", 1999, ""),
        ("20 °C", "measure", 20, "celsius"),
        ("2nd", "number", 2, "ordinal"),
        ("9:30 am", "time", 570, ""),
        ("5 p.m.", "time", 1020, ""),
    ],
)
def test_reading(text: str, kind: str, value: float, unit: str) -> None:
    found = one(text)
    assert (found.kind, found.unit) == (kind, unit)
    assert found.value == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("November 6, 1869", (1869, 11, 6)),
        ("6 November 1869", (1869, 11, 6)),
        ("the 6th November", (None, 11, 6)),
        ("November 2018", (2018, 11, None)),
        ("2024-09-01", (2024, 9, 1)),
        ("in November", (None, 11, None)),
    ],
)
def test_dates(text: str, parts: tuple[int | None, int | None, int | None]) -> None:
    assert one(text).parts == parts


@pytest.mark.parametrize("text", ["you may return it", "we march on", "one of them", "no one", "v"])
def test_words_that_are_no_quantities(text: str) -> None:
    assert read_quantities(read_words(text)) == []


def test_ranges_share_their_unit() -> None:
    low, high = read_quantities(read_words("10 to 20 mg a day"))
    assert (low.unit, high.unit) == ("mass", "mass")
    assert low.inferred


def test_identifiers_are_no_sizes() -> None:
    assert [q.kind for q in read_quantities(read_words("CYP1A2, v6, 1.2.3 and 8501F"))] == [
        "ident"
    ] * 4


def test_digits() -> None:
    number = read_digits("226,000")
    assert number is not None
    assert (number.value, number.digits, number.step) == (226000, 3, 1000)
    assert read_digits("1.2.3") is None
    assert (read_digits("1.234,5") or number).value == 1234.5


@pytest.mark.parametrize(
    ("claim", "source", "relation"),
    [
        ("30 days", "30 days", "same"),
        ("14 days", "30 days", "different"),
        ("30 hours", "30 days", "different"),
        ("24 hours", "1 day", "same"),
        ("1440 minutes", "24 hours", "same"),
        ("36 months", "3 years", "same"),
        ("19.3 km", "12 miles", "same"),
        ("25 km", "12 miles", "different"),
        ("30 working days", "30 days", "different"),
        ("one month", "30 days", "incomparable"),
        ("about 4,400", "4353", "same"),
        ("4,400", "4353", "different"),
        ("about 5,400", "4353", "different"),
        ("1999", "2000", "different"),
        ("2018", "November 2018", "same"),
        ("November 2018", "2018", "incomparable"),
        ("November 2019", "2018", "different"),
        ("5 billion", "5 million", "different"),
        ("$12.5 million", "$12.5 million", "same"),
        ("$10", "€10", "incomparable"),
        ("$2,000", "$2,005", "different"),
        ("10 %", "10 percent", "same"),
        ("10 percentage points", "10 percent", "different"),
        ("68 °F", "20 °C", "same"),
        ("at least 30 days", "at most 30 days", "different"),
        ("no more than 30 days", "at most 30 days", "same"),
        ("at least 18", "at most 18", "different"),
        ("14", "14 days", "same"),
        ("8,500F", "8501F", "different"),
        ("v6", "v7", "different"),
        ("twelve", "12", "same"),
        ("9:00 am", "9 am", "same"),
        ("100,002", "100,000", "different"),
    ],
)
def test_comparing(claim: str, source: str, relation: str) -> None:
    assert compare(one(claim), one(source)) == relation


def test_negations_and_what_only_looks_like_one() -> None:
    assert negations(read_words("You can't return it").words)
    for text in ("not only refunds", "no later than May", "not just a shop", "no more than 5"):
        assert negations(read_words(text).words) == [], text


def test_opposites() -> None:
    assert opposite("mandatory", "optional")
    assert opposite("refundable", "nonrefundable")
    assert opposite("careless", "careful")
    assert opposite("comfortable", "uncomfortable")
    assert not opposite("large", "big")
    assert not opposite("open", "open")
