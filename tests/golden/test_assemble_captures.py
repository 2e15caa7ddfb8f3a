"""Every capture assembles to what its expected.json says is obtainable, field by field."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.assemble_decode import GOLDEN, assemble_capture
from tests.support.assemble_expect import differences, expected_of

CAPTURES = sorted(path.name for path in GOLDEN.iterdir() if (path / "expected.json").exists())


@pytest.mark.parametrize("name", CAPTURES)
def test_a_capture_assembles_to_what_it_holds(name: str) -> None:
    folder: Path = GOLDEN / name
    assert differences(assemble_capture(folder), expected_of(folder)) == []


def test_no_capture_was_left_out() -> None:
    assert len(CAPTURES) == 40
