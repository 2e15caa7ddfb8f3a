"""Agreement between judge and people: hand-computed tables and the state machine."""

from __future__ import annotations

import pytest

from stagewatch.scorer.calibrate import (
    ENOUGH_LABELS,
    Labels,
    Pair,
    bootstrap,
    calibrate,
    cohens_kappa,
    compare_judges,
    gwets_ac1,
    labels_still_needed,
    observed_agreement,
    wilson,
)


def table(yes_yes: int, yes_no: int, no_yes: int, no_no: int) -> list[Labels]:
    """(person, judge) pairs of a two by two table."""
    return [
        *[("yes", "yes")] * yes_yes,
        *[("yes", "no")] * yes_no,
        *[("no", "yes")] * no_yes,
        *[("no", "no")] * no_no,
    ]


@pytest.mark.parametrize(
    ("cells", "kappa"),
    [
        # Agreement 35/50 = 0.7; chance 0.5*0.6 + 0.5*0.4 = 0.5.
        ((20, 5, 10, 15), 0.4),
        # Agreement 0.6; chance 0.6*0.7 + 0.4*0.3 = 0.54; 0.06 / 0.46.
        ((45, 15, 25, 15), 0.06 / 0.46),
        # Never agree: 0; chance 0.5; (0 - 0.5) / 0.5.
        ((0, 10, 10, 0), -1.0),
        ((10, 0, 0, 10), 1.0),
        # The judge says yes to all: no better than chance.
        ((18, 0, 2, 0), 0.0),
    ],
)
def test_kappa_by_hand(cells: tuple[int, int, int, int], kappa: float) -> None:
    assert cohens_kappa(table(*cells)) == pytest.approx(kappa)


def test_kappa_of_three_labels_by_hand() -> None:
    pairs = [
        *[("S", "S")] * 4,
        ("S", "A"),
        *[("A", "A")] * 2,
        ("A", "C"),
        ("C", "C"),
        ("C", "C"),
    ]
    assert observed_agreement(pairs) == 0.8
    # Judges: S 4, A 3, C 3; people: S 5, A 3, C 2: chance 0.35; (0.8 - 0.35) / 0.65.
    assert cohens_kappa(pairs) == pytest.approx(0.45 / 0.65)


def test_kappa_without_anything_to_measure() -> None:
    assert cohens_kappa([]) is None
    assert cohens_kappa([("yes", "yes")] * 9) is None
    assert gwets_ac1([("yes", "yes")] * 9) is None


def test_ac1_by_hand() -> None:
    # q(yes) = (19 + 19) / 40 = 0.95; chance 2 * 0.95 * 0.05 = 0.095; agreement 0.9.
    assert gwets_ac1(table(18, 1, 1, 0)) == pytest.approx((0.9 - 0.095) / 0.905)


def test_wilson_by_hand() -> None:
    found = wilson(8, 10)
    assert found is not None
    assert found.value == 0.8
    assert found.low == pytest.approx(0.4902, abs=1e-4)
    assert found.high == pytest.approx(0.9433, abs=1e-4)
    assert wilson(0, 0) is None


def test_the_interval_is_the_same_for_a_seed_and_holds_the_value() -> None:
    pairs = table(20, 5, 10, 15)
    one, two = bootstrap(pairs, cohens_kappa, seed=3), bootstrap(pairs, cohens_kappa, seed=3)
    assert one == two
    assert one is not None
    assert one.low < 0.4 < one.high
    wide = bootstrap(table(2, 1, 1, 1), cohens_kappa, seed=3)
    assert wide is not None
    assert wide.high - wide.low > one.high - one.low
    assert bootstrap([], cohens_kappa) is None


def labelled(pairs: list[Labels]) -> list[Pair]:
    return [Pair(f"item {i}", person, judge, f"t{i}") for i, (person, judge) in enumerate(pairs)]


def test_confusion_and_rates_by_label() -> None:
    found = calibrate("faithfulness", labelled(table(20, 5, 10, 15)), fingerprint="f1")
    assert found.n == 50
    assert found.labels == ("no", "yes")
    assert found.matrix == ((15, 10), (5, 20))
    yes = found.by_label[1]
    assert (yes.label, yes.prevalence, yes.recall) == ("yes", 0.5, 0.8)
    assert yes.precision == pytest.approx(2 / 3)
    assert found.agreement is not None
    assert found.agreement.value == 0.7


def test_how_many_labels_are_still_needed() -> None:
    # Wilson's interval at one half is 0.1985 wide at 92 items and 0.2005 at 90.
    assert labels_still_needed(0.5, 0) == pytest.approx(92, abs=2)
    assert labels_still_needed(0.5, 50) == labels_still_needed(0.5, 0) - 50
    assert labels_still_needed(0.9, 500) == 0
    assert labels_still_needed(1.0, 0) == ENOUGH_LABELS


def state_of(pairs: list[Labels], by: str = "f1") -> str:
    found = calibrate("faithfulness", labelled(pairs), fingerprint="f1", labelled_fingerprint=by)
    return found.state


def test_uncalibrated_calibrated_expired() -> None:
    good = table(20, 1, 1, 18)
    assert state_of([]) == "uncalibrated"
    assert state_of(good[:10]) == "uncalibrated"
    assert state_of(good) == "calibrated"
    assert state_of(good, by="f0") == "expired"
    assert state_of(good[:10], by="f0") == "uncalibrated"


def test_the_advice_says_what_is_missing() -> None:
    few = calibrate("faithfulness", labelled(table(5, 1, 1, 5)), fingerprint="f1")
    assert "12 hand labels, 30 are needed" in few.advice
    assert f"{few.labels_needed} more labels" in few.advice
    weak = calibrate("faithfulness", labelled(table(12, 8, 8, 12)), fingerprint="f1")
    assert weak.state == "uncalibrated"
    assert "lower end must reach" in weak.advice
    one_sided = calibrate("faithfulness", labelled(table(40, 0, 0, 0)), fingerprint="f1")
    assert one_sided.state == "uncalibrated"
    assert "all of one kind" in one_sided.advice
    assert one_sided.kappa is None


def test_disagreements_keep_their_order() -> None:
    found = calibrate("faithfulness", labelled(table(1, 1, 1, 1)), fingerprint="f1")
    assert [pair.turn_id for pair in found.disagreements] == ["t1", "t2"]


def test_the_same_labels_give_the_same_calibration() -> None:
    pairs = labelled(table(20, 5, 10, 15))
    assert calibrate("m", pairs, fingerprint="f") == calibrate("m", pairs, fingerprint="f")


def test_comparing_two_judges_by_hand() -> None:
    triples = [
        *[("yes", "yes", "yes")] * 10,
        *[("yes", "yes", "no")] * 8,
        *[("yes", "no", "yes")] * 2,
        *[("yes", "no", "no")] * 3,
    ]
    found = compare_judges(triples)
    assert (found.both_right, found.only_first, found.only_second, found.both_wrong) == (
        10,
        8,
        2,
        3,
    )
    # Two-sided exact: 2 * (1 + 10 + 45) / 1024.
    assert found.p_value == pytest.approx(112 / 1024)
    assert compare_judges([("yes", "yes", "yes")]).p_value is None
