"""The guard: what it must catch, and the false alarms it must not give."""

from __future__ import annotations

import pytest

from stagewatch.scorer.judges.embedded import EmbeddedJudge
from stagewatch.scorer.judges.guard import check_text
from stagewatch.scorer.judges.protocol import ClaimReading
from stagewatch.scorer.stages.generation import guarded
from stagewatch.scorer.text.claims import read_answer
from stagewatch.scorer.text.passages import read_passages

SOURCE = (
    "Refund requests must reach us within 30 days of delivery. The return label costs EUR 4.90. "
    "Opened software cannot be returned. The warranty lasts 3 years. "
    "Our line is open from 9:00 to 17:00. Berlin customers may use the Mitte shop. "
    "At least 2 photos are required. The fee rose by 10 percent on 1 March 2024. "
    "Shipping to Norway takes about 7 days."
)


def found(claim: str, *passages: str) -> tuple[str, str] | None:
    finding = check_text(claim, read_passages(passages or (SOURCE,)))
    return None if finding is None else (finding.label, finding.kind)


@pytest.mark.parametrize(
    ("claim", "kind"),
    [
        ("Refund requests must reach us within 14 days of delivery.", "unit"),
        ("Refund requests must reach us within fourteen days of delivery.", "unit"),
        ("Refund requests must reach us within 30 hours of delivery.", "unit"),
        ("Refund requests must reach us within 30 working days of delivery.", "unit"),
        ("The return label costs EUR 9.40.", "money"),
        ("Opened software can be returned.", "negation"),
        ("The warranty does not last 3 years.", "negation"),
        ("The warranty lasts 5 years.", "unit"),
        ("Our line is open from 9:00 to 19:00.", "time"),
        ("At most 2 photos are required.", "number"),
        ("At least 2 photos are optional.", "opposite"),
        ("The fee fell by 10 percent on 1 March 2024.", "opposite"),
        ("The fee rose by 10 percentage points on 1 March 2024.", "points"),
        ("The fee rose by 10 percent on 1 March 2023.", "date"),
        ("The fee rose by 10 percent on 2 March 2024.", "date"),
        ("Hamburg customers may use the Mitte shop.", "name"),
        ("Shipping to Sweden takes about 7 days.", "name"),
    ],
)
def test_a_change_in_a_near_copy_is_a_contradiction(claim: str, kind: str) -> None:
    assert found(claim) == ("CONTRADICTED", kind)


@pytest.mark.parametrize(
    "claim",
    [
        "Refund requests must reach us within 30 days of delivery.",
        "Refund requests must reach us within thirty days of delivery.",
        "Refund requests must reach us within 720 hours of delivery.",
        "The warranty lasts 36 months.",
        "The warranty lasts three years.",
        "The return label costs 4.90 euros.",
        "The return label costs about EUR 5.",
        "Opened software can't be returned.",
        "Opened software can not be returned.",
        "Our line is open from 9 am to 5 pm.",
        "A minimum of 2 photos is required.",
        "The fee rose by 10 % on 1 March 2024.",
        "The fee rose in March 2024 by 10 %.",
    ],
)
def test_the_same_in_other_words_is_left_alone(claim: str) -> None:
    assert found(claim) is None


def test_a_value_the_window_never_holds_is_absent() -> None:
    assert found("Vouchers expire after 77 weeks.") == ("ABSENT", "unit")


def test_a_paraphrase_with_another_value_of_that_kind_is_a_contradiction() -> None:
    assert found("For a refund, send the request 14 days after delivery at most.") == (
        "CONTRADICTED",
        "unit",
    )


def test_a_clean_passage_anywhere_wins_over_a_conflict_elsewhere() -> None:
    old = "Refund requests must reach us within 14 days of delivery."
    new = "Refund requests must reach us within 30 days of delivery."
    assert found(new, old, new) is None
    assert found(new, new, old) is None
    assert found(new, old) == ("CONTRADICTED", "unit")


@pytest.mark.parametrize(
    ("answer", "passage"),
    [
        # An answer's particle is no negation.
        ("No, you can return opened books.", "You can return opened books."),
        ("No. Food isn't permitted here.", "No. Food is not permitted here."),
        # "not only" is an emphasis.
        (
            "The pass covers not only buses but also trams.",
            "The pass covers buses and also trams.",
        ),
        # "without" and a rephrased negation.
        ("You can pay without a card.", "You can pay even if you do not have a card."),
        ("Avoid putting names in the title.", "Do not put names in the title."),
        (
            "If you are uncomfortable with the terms, don't sign.",
            "If you are not comfortable with the terms, do not sign.",
        ),
        # Contraction against "not".
        ("It isn't possible to extend the loan.", "It is not possible to extend the loan."),
        # "no longer" negates where "no longer than" bounds.
        (
            "You can no longer reach the console images.",
            "You can't reach the console images anymore.",
        ),
        # Counting words.
        ("Two fighters were seen over the bay.", "2 fighters were seen over the bay."),
        # Hyphens, possessives and spaced punctuation.
        ("A single-camera comedy by NBC.", "A single - camera comedy by NBC ."),
        ("The shop's owner is Ms Lee.", "The owner of the shop is Ms Lee."),
        # A heading is no name in the statement.
        (
            "**Metered Charges**: you pay for what you use.",
            "Metered Usage: you pay for what you use.",
        ),
        # A small amount of overlap is no slot.
        ("It is often around $2000.", "The minimum for mutual funds is often around $2500."),
    ],
)
def test_pinned_false_alarms(answer: str, passage: str) -> None:
    passages = read_passages([passage])
    for claim in read_answer(answer).claims:
        finding = check_text(claim.judged, passages)
        assert finding is None or finding.label != "CONTRADICTED", finding


def test_years_ids_and_versions_are_exact() -> None:
    assert found("It opened in 1999.", "It opened in 2000.") == ("CONTRADICTED", "year")
    assert found("Use form 8502F for this.", "Use form 8501F for this.") == (
        "CONTRADICTED",
        "ident",
    )


def test_the_guard_never_supports() -> None:
    reading = ClaimReading("Pigs fly.", 0, 9, "Pigs fly.", "ABSENT")
    assert guarded([reading], ["Pigs fly."])[0].label == "ABSENT"
    supported = ClaimReading("It took 5 days.", 0, 15, "It took 5 days.", "SUPPORTED")
    claim = guarded([supported], ["It took 6 days."])[0]
    assert (claim.label, claim.judge_label) == ("CONTRADICTED", "SUPPORTED")
    assert claim.guard == "unit: 5 days against 6 days in the source"


def test_tone_does_not_move_the_label() -> None:
    judge = EmbeddedJudge()
    passage = ["The warranty lasts 3 years for all devices."]
    plain = "The warranty lasts 3 years for all devices."
    toned = "Definitely, the warranty clearly lasts 3 years for all devices [1]."
    hedged = "I think the warranty probably lasts 3 years for all devices."
    labels = set()
    for answer in (plain, toned, hedged):
        reading = judge.statements([answer], passage)
        assert isinstance(reading, tuple)
        labels.add(guarded(reading, passage)[0].label)
    assert labels == {"SUPPORTED"}
