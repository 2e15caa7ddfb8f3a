"""Errors, clock, codec, logging, terminal output."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import pytest

from stagewatch.core.cli.common import printable, table
from stagewatch.core.clock import ManualClock, rfc3339
from stagewatch.core.codec import from_json, from_plain, to_json
from stagewatch.core.errors import (
    HTTP_STATUS,
    InvalidInputError,
    NotFoundError,
    StagewatchError,
    StoreUnavailableError,
    http_status,
)
from stagewatch.core.logs import setup_logging
from stagewatch.core.model import Chunk, Turn
from stagewatch.core.run import is_loopback

T0 = datetime(2026, 11, 30, tzinfo=UTC)


def test_each_error_has_the_status_of_its_nearest_class() -> None:
    class SpecialError(NotFoundError):
        pass

    assert http_status(SpecialError("x")) == 404
    assert http_status(StoreUnavailableError("x")) == 503
    assert http_status(StagewatchError("x")) == 500
    assert all(400 <= status < 600 for status in HTTP_STATUS.values())


def test_a_turn_survives_json() -> None:
    turn = Turn("t-s", "t", "s", "p", "svc", T0, 1.5, "q", None, window=(Chunk(1, "c", score=1),))
    assert from_json(Turn, to_json(turn)) == turn


def test_what_does_not_fit_is_named_without_its_value() -> None:
    with pytest.raises(InvalidInputError) as caught:
        from_plain(Chunk, {"rank": "SECRET"})
    assert "rank" in str(caught.value)
    assert "SECRET" not in str(caught.value)


def test_nan_leaves_as_null() -> None:
    assert to_json({"x": float("nan")}) == b'{"x":null}'


def test_rfc3339_is_utc_with_z() -> None:
    assert rfc3339(T0) == "2026-11-30T00:00:00Z"


def test_a_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock(T0)
    assert clock.now() == clock.now() == T0
    clock.advance(2.5)
    assert (clock.now() - T0).total_seconds() == clock.monotonic() == 2.5


@pytest.mark.parametrize(
    ("host", "yes"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("127.9.9.9", True),
     ("0.0.0.0", False), ("10.0.0.1", False), ("example.test", False)],
)  # fmt: skip
def test_loopback(host: str, yes: bool) -> None:
    assert is_loopback(host) is yes


def test_terminal_text_cannot_act_on_the_terminal() -> None:
    evil = "a\x1b[2Jb\x07"
    assert "\x1b" not in table([{"q": evil}], ["q"])
    assert printable(evil + "\n") == "a·[2Jb·\n"
    assert "…" in table([{"q": "x" * 500}], ["q"])


def test_logs_are_one_line_with_fields(capsys: pytest.CaptureFixture[str]) -> None:
    setup_logging(level="info", as_json=True)
    logging.getLogger("stagewatch.test").info("stored", extra={"spans": 3})
    setup_logging(level="info")
    logging.getLogger("stagewatch.test").info("stored", extra={"spans": 4})
    lines = capsys.readouterr().err.splitlines()
    assert '"spans": 3' in lines[0]
    assert lines[1].endswith("stored  spans=4")
