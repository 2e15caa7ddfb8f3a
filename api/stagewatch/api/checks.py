"""What every route asks of times and texts, in one place."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Annotated

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from stagewatch.core.clock import clamped

LONGEST_STEP_S = 10 * 366 * 86_400.0
"""Seconds: a point of a series covers at most about ten years."""

NOT_UNICODE = (
    "the body holds half of a surrogate pair (an escape from \\ud800 to \\udfff alone), "
    "which is not valid Unicode text"
)


def _moment(at: datetime) -> datetime:
    if at.tzinfo is None:
        raise PydanticCustomError("offset", "give a UTC offset, e.g. 2026-11-30T12:00:00Z")
    return clamped(at)


Moment = Annotated[datetime, AfterValidator(_moment)]
"""A time in a request: it must say its offset, and is moved into the range that can be stored."""

CLOCK_SLACK = timedelta(minutes=10)
"""Clocks of apps run ahead by this much at most; a turn beyond it carries a wrong time, and would
stand first on every list for ever.
"""

_MAYBE = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)


def holds_lone_surrogate(body: bytes) -> bool:
    """Whether JSON text escapes half of a surrogate pair, which no store can keep as text.

    JSON parsers differ: some give such a string on, and it fails wherever it is written first.
    """
    if _MAYBE.search(body) is None:
        return False
    expected = -1
    for found in _ESCAPE.finditer(body):
        unit = int(found.group(1), 16) if found.group(1) else 0
        if expected >= 0:
            if found.start() != expected or not 0xDC00 <= unit <= 0xDFFF:
                return True
            expected = -1
        elif 0xDC00 <= unit <= 0xDFFF:
            return True
        elif 0xD800 <= unit <= 0xDBFF:
            expected = found.end()
    return expected >= 0
