"""A probe's readings as a stream: rounds of the same rows, in an order of chance."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from stagewatch.core.store.scores import Reading
from stagewatch.scorer.alerts import Alert, alerts_of
from stagewatch.scorer.probes.rounds import CHOSEN_BY, watched
from stagewatch.scorer.probes.watch import PROBE_MONITORS

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
ROWS = 100


def reading(row: int, at: datetime, *, ok: bool) -> Reading:
    return Reading(
        turn_id=f"r{row}", at=at, status="scored", value=float(ok),
        verdict="pass" if ok else "fail", hard_fail=False, reason="", fingerprint="",
        basis="gold", threshold=0.8, inclusion=1.0, stratum="probe", conversation_id=f"r{row}",
        dimensions={},
    )  # fmt: skip


def passes(n: int, ok: Callable[[int, int], bool]) -> list[Reading]:
    return [
        reading(row, BEGIN + timedelta(hours=number, seconds=row), ok=ok(number, row))
        for number in range(n)
        for row in range(ROWS)
    ]


def found(stream: list[Reading]) -> list[Alert]:
    return alerts_of("p", PROBE_MONITORS[0], stream, {}, calibrated=True, alpha=0.005)


@pytest.mark.parametrize("seed", range(3))
def test_rows_that_always_fail_side_by_side_are_no_drift(seed: int) -> None:
    """Ten rows fail every time, ten others every other time, as they always did."""
    chance = random.Random(seed)

    def ok(_: int, row: int) -> bool:
        return not 40 <= row < 50 and (not 50 <= row < 60 or chance.random() < 0.5)

    as_they_come = passes(40, ok)
    assert found(watched(as_they_come, [1] * len(as_they_come))) == []
    # In the order in which they are asked they would be taken for one.
    assert found([replace(item, stratum="uniform") for item in as_they_come]) != []


def test_a_fall_is_seen_in_the_pass_that_has_it() -> None:
    """Ten rows fail every time; from pass 20 on a fifth of the others does too."""
    everything = passes(21, lambda number, row: row >= 10 and (number < 20 or row % 5 != 0))
    (alarm,) = found(watched(everything, [1] * len(everything)))
    assert alarm.opened_at == alarm.since == BEGIN + timedelta(hours=20)
    # Shares are of the rows in which something can get worse.
    assert (alarm.before, round(alarm.after, 2)) == (1.0, 0.8)


def test_a_stream_has_every_chosen_row_once_a_round_and_the_same_beginning_when_it_grows() -> None:
    everything = passes(6, lambda number, row: row != 7 and (row != 8 or number > 0))
    stream = watched(everything, [1] * len(everything))
    assert Counter(item.turn_id for item in stream) == {
        f"r{row}": 6 - CHOSEN_BY for row in range(ROWS) if row != 7
    }
    assert [item.turn_id for item in stream[: ROWS - 1]] != [
        item.turn_id for item in everything[:ROWS] if item.turn_id != "r7"
    ]
    assert {item.at for item in stream} == {
        BEGIN + timedelta(hours=number) for number in range(CHOSEN_BY, 6)
    }
    shorter = watched(everything[: 4 * ROWS], [1] * 4 * ROWS)
    assert stream[: len(shorter)] == shorter


def test_a_part_of_a_round_waits_for_the_rest() -> None:
    everything = passes(4, lambda _number, _row: True)
    part = everything[: 3 * ROWS + 50]
    assert len(watched(part, [1] * len(part))) == ROWS
    nearly = everything[: 3 * ROWS + 97]
    assert len(watched(nearly, [1] * len(nearly))) == ROWS + 97


def test_another_dataset_version_and_other_bases_are_another_yardstick() -> None:
    everything = passes(8, lambda _number, _row: True)
    versions = [1] * 4 * ROWS + [2] * 4 * ROWS
    assert watched(everything, versions) == watched(everything[4 * ROWS :], versions[4 * ROWS :])
    judged = [replace(item, basis="judge") for item in everything]
    assert watched(judged, [1] * len(judged)) == []
    assert watched([], []) == []
