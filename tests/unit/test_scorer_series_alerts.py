"""Series points, breaks and the sentence of an alert."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from stagewatch.core.errors import InvalidInputError
from stagewatch.core.store.scores import Reading
from stagewatch.scorer.alerts import MONITORS, alerts_of, worst_first
from stagewatch.scorer.series import breaks, check_request, floor_time, pick_step, series

T0 = datetime(2026, 11, 30, 12, tzinfo=UTC)


def reading(
    n: int,
    *,
    value: float | None = 1.0,
    verdict: str = "pass",
    status: str = "scored",
    fingerprint: str = "f1",
    release: str = "1",
    index: str = "a",
    hard_fail: bool = False,
    reason: str = "",
    seconds: float = 1.0,
    stratum: str = "uniform",
) -> Reading:
    return Reading(
        turn_id=f"t{n}",
        at=T0 + timedelta(seconds=n * seconds),
        status=status,
        value=value,
        verdict=verdict,
        hard_fail=hard_fail,
        reason=reason,
        fingerprint=fingerprint,
        basis="judge",
        threshold=0.7,
        inclusion=1.0,
        stratum=stratum,
        conversation_id="",
        dimensions={"release": release, "index_version": index, "service": "bot"},
    )


def test_a_point_never_mixes_two_judges() -> None:
    rows = [reading(n, fingerprint="f1" if n < 30 else "f2") for n in range(60)]
    points = series(rows, stat="pass_rate", since=T0, step=timedelta(seconds=60))
    assert [(p.n, p.fingerprint) for p in points] == [(30, "f1"), (30, "f2")]
    assert [b.what for b in breaks(rows)] == ["judge f1 → f2"]


def test_a_hard_fail_counts_as_a_fail_whatever_the_value() -> None:
    rows = [reading(0), reading(1, value=0.9, verdict="pass", hard_fail=True)]
    (point,) = series(rows, stat="pass_rate", since=T0, step=timedelta(minutes=1))
    assert point.estimate == 0.5
    (hard,) = series(rows, stat="hard_fail_rate", since=T0, step=timedelta(minutes=1))
    assert hard.estimate == 0.5


def test_unscored_turns_are_counted_by_reason_and_bound_the_mean() -> None:
    rows = [reading(n) for n in range(10)]
    rows += [
        reading(n, status="unscored", value=None, verdict="", reason="judge_error: timeout")
        for n in range(10, 20)
    ]
    (point,) = series(rows, stat="pass_rate", since=T0, step=timedelta(minutes=1))
    assert point.n == 10
    assert point.unscored == {"judge_error": 10}
    assert (point.worst_low, point.worst_high) == (0.5, 1.0)


def test_a_step_with_nothing_scored_has_no_estimate() -> None:
    rows = [reading(0, status="unscored", value=None, verdict="", reason="not_captured")]
    (point,) = series(rows, stat="mean", since=T0, step=timedelta(minutes=1))
    assert (point.n, point.estimate, point.low) == (0, None, None)


def test_a_miss_is_in_the_rates_and_not_in_the_median() -> None:
    rows = [reading(n, value=2.0) for n in range(9)]
    rows.append(reading(9, value=None, verdict="fail", reason="missed at depth 10"))
    step = timedelta(minutes=1)
    assert series(rows, stat="median", since=T0, step=step)[0].n == 9
    assert series(rows, stat="miss_rate", since=T0, step=step)[0].estimate == pytest.approx(0.1)
    assert series(rows, stat="pass_rate", since=T0, step=step)[0].estimate == pytest.approx(0.9)


def test_groups_are_kept_apart() -> None:
    rows = [reading(n, release="1" if n % 2 else "2") for n in range(10)]
    points = series(rows, stat="pass_rate", since=T0, step=timedelta(minutes=1), group_by="release")
    assert [(p.group, p.n) for p in points] == [("1", 5), ("2", 5)]


def test_a_rollout_with_both_releases_side_by_side_is_one_break() -> None:
    rows = [reading(n, release="1" if n < 5 or n % 2 else "2") for n in range(20)]
    assert [b.what for b in breaks(rows)] == ["release 1 → 2"]


def test_steps_and_limits() -> None:
    assert pick_step(T0, T0 + timedelta(minutes=1)) == timedelta(seconds=5)
    assert pick_step(T0, T0 + timedelta(days=1)) == timedelta(hours=1)
    assert floor_time(T0 + timedelta(seconds=61), timedelta(minutes=1)) == T0 + timedelta(minutes=1)
    with pytest.raises(InvalidInputError, match="stat"):
        check_request("average", T0, T0 + timedelta(1), timedelta(1))
    with pytest.raises(InvalidInputError, match="until"):
        check_request("mean", T0, T0, timedelta(1))
    with pytest.raises(InvalidInputError, match="at most"):
        check_request("mean", T0, T0 + timedelta(30), timedelta(seconds=1))


def broken_at(position: int, total: int) -> list[Reading]:
    chance = np.random.default_rng(7)
    rows = []
    for n in range(total):
        bad = n >= position
        good = bool(chance.random() < (0.2 if bad else 0.98))
        rows.append(
            reading(n, verdict="pass" if good else "fail", index="b" if bad else "a", seconds=10)
        )
    return rows


def test_an_alert_says_stage_shift_since_when_and_what_changed() -> None:
    rows = broken_at(1200, 1400)
    stages = {r.turn_id: "retrieval" for r in rows if r.verdict == "fail"}
    monitor = MONITORS[0]
    (alert,) = alerts_of("p", monitor, rows, stages, calibrated=True, alpha=0.002)
    assert alert.stage == "retrieval"
    assert alert.near == ("index version a → b",)
    assert alert.before == pytest.approx(0.98, abs=0.02)
    assert alert.low < alert.after < alert.high < 0.4
    assert abs((alert.since - rows[1200].at).total_seconds()) < 200
    assert alert.sentence.startswith("retrieval: faithful answers fell from 9")
    assert "index version a → b" in alert.sentence
    assert alert.turn_ids
    assert set(alert.turn_ids) <= set(stages)
    again = alerts_of("p", monitor, [*rows, *[]], stages, calibrated=True, alpha=0.002)
    assert again[0].alert_id == alert.alert_id


def mended_at(broken: int, mended: int, total: int, rate: float) -> list[Reading]:
    rows = broken_at(broken, mended)
    chance = np.random.default_rng(11)
    for n in range(mended, total):
        good = bool(chance.random() < rate)
        rows.append(reading(n, verdict="pass" if good else "fail", index="c", seconds=10))
    return rows


def test_an_alert_says_when_the_next_change_mended_it() -> None:
    rows = mended_at(1200, 1400, 1600, rate=1.0)
    (alert,) = alerts_of("p", MONITORS[0], rows, {}, calibrated=True, alpha=0.002)
    assert 190 <= alert.n <= 200
    assert f"n {alert.n})" in alert.sentence
    found = alert.recovery
    assert found is not None
    assert (found.back, found.n, found.what) == (True, 200, "index version b → c")
    assert found.at == rows[1400].at
    assert found.value == 1.0


def test_a_change_that_mends_nothing_is_no_recovery() -> None:
    rows = mended_at(1200, 1400, 1600, rate=0.5)
    alert = alerts_of("p", MONITORS[0], rows, {}, calibrated=True, alpha=0.002)[0]
    assert alert.recovery is not None
    assert not alert.recovery.back
    assert alert.recovery.value < 0.7
    (still,) = alerts_of("p", MONITORS[0], rows[:1400], {}, calibrated=True, alpha=0.002)
    assert still.recovery is None


def test_a_few_good_turns_after_a_change_are_no_recovery() -> None:
    rows = mended_at(1200, 1400, 1410, rate=1.0)
    (alert,) = alerts_of("p", MONITORS[0], rows, {}, calibrated=True, alpha=0.002)
    assert alert.recovery is not None
    assert (alert.recovery.n, alert.recovery.back) == (10, False)


def test_the_worst_open_alert_stands_first() -> None:
    def stored(name: str, drop: float, at: int, state: str = "open", *, back: bool = False) -> Any:
        recovery = {"back": back} if back else None
        return {"alert_id": name, "from": 1.0, "to": 1.0 - drop, "opened_at": f"2026-11-0{at}",
                "state": state, "recovery": recovery}  # fmt: skip

    found = worst_first(
        [
            stored("closed new", 0.9, 9, "acked"),
            stored("small", 0.1, 8),
            stored("large", 0.9, 1),
            stored("mended", 1.0, 7, back=True),
            stored("closed old", 0.99, 2, "snoozed"),
        ]
    )
    assert [alert["alert_id"] for alert in found] == [
        "large", "small", "mended", "closed new", "closed old",
    ]  # fmt: skip


def test_a_step_ends_where_a_change_goes_live() -> None:
    rows = [reading(n, index="a" if n < 40 else "b", verdict="pass" if n < 40 else "fail")
            for n in range(120)]  # fmt: skip
    cuts = [item.at for item in breaks(rows)]
    points = series(rows, stat="pass_rate", since=T0, step=timedelta(minutes=1), cuts=cuts)
    ends = [((p.at - T0).seconds, (p.until - T0).seconds, p.n, p.estimate) for p in points]
    assert ends == [(0, 40, 40, 1.0), (40, 60, 20, 0.0), (60, 120, 60, 0.0)]


@pytest.mark.parametrize(
    ("stat", "n", "bad", "few"),
    [
        ("pass_rate", 14160, 0, "few failures"), ("pass_rate", 14160, 5, "few failures"),
        ("pass_rate", 14160, 14160, "few passes"), ("pass_rate", 14160, 400, ""),
        ("pass_rate", 12, 6, "few turns"), ("pass_rate", 100, 50, ""),
        ("hard_fail_rate", 14160, 14160, "few hard fails"), ("median", 14160, 0, ""),
        ("median", 12, 0, "few turns"), ("p90", 60, 0, "few turns"),
    ],
)  # fmt: skip
def test_few_is_said_of_what_there_are_few_of(stat: str, n: int, bad: int, few: str) -> None:
    rows = [reading(i, verdict="fail" if i < bad else "pass", seconds=0.001) for i in range(n)]
    (point,) = series(rows, stat=stat, since=T0, step=timedelta(minutes=1))
    assert point.few == few


def test_wide_because_one_conversation_speaks_is_not_few_failures() -> None:
    rows = [
        replace(reading(i, verdict="fail" if i % 2 else "pass", seconds=0.01),
                conversation_id="one")
        for i in range(400)
    ]  # fmt: skip
    (point,) = series(rows, stat="pass_rate", since=T0, step=timedelta(minutes=1))
    assert (point.wide, point.few) == (True, "few conversations")


def test_what_feedback_or_strata_added_does_not_drive_an_alert() -> None:
    rows = [
        Reading(**{**{f: getattr(r, f) for f in Reading.__slots__}, "stratum": "rare_release"})
        if r.verdict == "fail"
        else r
        for r in broken_at(1200, 1400)
    ]
    assert alerts_of("p", MONITORS[0], rows, {}, calibrated=True, alpha=0.002) == []


def judged_by_two(n: int, sampled: int) -> tuple[list[Reading], list[Reading]]:
    """A sample of a paid judge and the free judge's reading of every turn; they mostly agree."""
    chance = np.random.default_rng(3)
    truth = chance.random(n) < 0.8
    free = np.where(chance.random(n) < 0.9, truth, chance.random(n) < 0.8)
    words = {True: "pass", False: "fail"}
    paid = [
        replace(reading(i, verdict=words[bool(truth[i])], fingerprint="paid"), inclusion=0.1)
        for i in range(sampled)
    ]
    return paid, [
        reading(i, verdict=words[bool(free[i])], fingerprint="free", stratum="first_pass")
        for i in range(n)
    ]


def test_a_free_judges_readings_of_all_turns_narrow_a_sample() -> None:
    paid, free = judged_by_two(2000, 200)
    step = timedelta(hours=1)
    (alone,) = series(paid, stat="pass_rate", since=T0, step=step)
    (helped,) = series(paid, stat="pass_rate", since=T0, step=step, first_pass=free)
    assert alone.correction is None
    assert helped.correction is not None
    assert helped.n == alone.n == 200
    assert (helped.correction.low, helped.correction.high) == (alone.low, alone.high)
    assert helped.correction.covered == 2000
    assert helped.correction.narrower > 0.3
    assert helped.low is not None
    assert helped.high is not None
    assert helped.low < 0.8 < helped.high
    # A median is not a mean of ones and zeros: it stays that of the sample.
    (median,) = series(paid, stat="median", since=T0, step=step, first_pass=free)
    assert median.correction is None


def test_a_free_judge_that_read_too_few_of_the_sampled_turns_is_not_used() -> None:
    paid, free = judged_by_two(2000, 200)
    (point,) = series(
        paid, stat="pass_rate", since=T0, step=timedelta(hours=1), first_pass=free[20:]
    )
    assert point.correction is None


def test_the_free_judges_readings_make_no_points_of_their_own() -> None:
    _, free = judged_by_two(100, 0)
    assert series([], stat="pass_rate", since=T0, step=timedelta(hours=1), first_pass=free) == []
