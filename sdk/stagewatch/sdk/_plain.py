"""The app's values as plain ones: exact strings and numbers, whatever their methods do."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

_PLAIN = frozenset({int, float, bool})


def plain_text(value: object) -> str:
    """`value` as an exact `str`; the name of its type when it refuses to be one.

    Methods of the app's may raise, or answer with a string of a class of its own.
    """
    if isinstance(value, str):
        # Not str(value): a subclass may have another idea of it.
        return str.__str__(value)
    try:
        return str.__str__(str(value))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # noqa: BLE001 - anything at all may be in there
        return type(value).__qualname__


def plain_value(value: object) -> Any:  # noqa: ANN401 - any kind that OpenTelemetry takes
    """A tuple of texts for a list, the number for a number of any make, else the text."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, (list, tuple)):
        return tuple([plain_text(item) for item in value])
    if not isinstance(value, str):
        converting: tuple[Callable[[Any], Any], ...] = (operator.index, float)
        for convert in converting:
            try:
                return convert(value)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException:  # noqa: BLE001, S112 - not that kind of value
                continue
    return plain_text(value)
