"""Times and texts of requests: what is clamped, what is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from stagewatch.api.checks import Moment, holds_lone_surrogate
from stagewatch.core.cli.evaluate import read_labels
from stagewatch.core.clock import EARLIEST, LATEST, clamped
from stagewatch.core.errors import InvalidInputError

ADAPTER: TypeAdapter[datetime] = TypeAdapter(Moment)


@given(
    st.datetimes(min_value=datetime(1, 1, 1), max_value=datetime(9999, 12, 31)),  # noqa: DTZ001
    st.integers(-23 * 60, 23 * 60),
)
def test_every_time_with_an_offset_becomes_one_that_can_be_stored(
    naive: datetime, minutes: int
) -> None:
    at = naive.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    found = clamped(at)
    assert EARLIEST <= found <= LATEST
    assert found.tzinfo is UTC
    if 1971 <= naive.year < 2199:
        assert found == at


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0001-01-01T00:00:00+14:00", EARLIEST),
        ("9999-12-31T23:59:59-14:00", LATEST),
        ("1970-01-01T00:00:00+14:00", EARLIEST),
        ("2026-11-30T12:00:00+02:00", datetime(2026, 11, 30, 10, tzinfo=UTC)),
    ],
)
def test_times_are_moved_into_range(text: str, expected: datetime) -> None:
    assert ADAPTER.validate_python(text) == expected


def test_a_time_without_an_offset_is_refused() -> None:
    with pytest.raises(ValidationError, match="give a UTC offset"):
        ADAPTER.validate_python("2026-11-30T12:00:00")


@given(st.text(st.characters(codec="utf-8")))
def test_valid_text_is_never_refused(text: str) -> None:
    assert not holds_lone_surrogate(json.dumps([text]).encode())
    assert not holds_lone_surrogate(json.dumps([text], ensure_ascii=False).encode())


@given(st.text(), st.characters(categories=["Cs"]), st.text(st.characters(codec="ascii")))
def test_half_a_pair_is_always_seen(before: str, half: str, after: str) -> None:
    plain = "".join(c for c in before if not 0xD800 <= ord(c) <= 0xDFFF)
    assert holds_lone_surrogate(json.dumps({"tags": [plain + half + after]}).encode())


def test_an_escaped_backslash_before_the_same_letters_is_text() -> None:
    assert not holds_lone_surrogate(json.dumps(r"a path \ud800").encode())


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"metric": "faithfulness", "label": "ABSENT"}', "line 2: turn_id missing"),
        ('{"turn_id": "t"}', "line 2: metric and label missing"),
        ("[1]", "line 2: not a JSON object"),
        ("{", "line 2: not JSON"),
    ],
)
def test_a_file_of_labels_says_which_key_is_missing(tmp_path: Path, line: str, says: str) -> None:
    path = tmp_path / "labels.jsonl"
    good = '{"turn_id": "t", "metric": "faithfulness", "item": "c", "label": "ABSENT"}'
    path.write_text(f"{good}\n{line}\n")
    with pytest.raises(InvalidInputError) as refused:
        read_labels(path)
    assert says in str(refused.value)
