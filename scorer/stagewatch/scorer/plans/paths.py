"""Reading a JSON answer by path: `$.a.b[0].c`, `[*]` for every item, `["odd key"]`. Pure.

A small part of RFC 9535, enough for answers of apps and with nothing that could be expensive.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from stagewatch.core.errors import InvalidInputError

_STEP = re.compile(r"""\.?([A-Za-z_][\w-]*)|\[(\d+)\]|\[(\*)\]|\[(?:"([^"]*)"|'([^']*)')\]""")

EVERY = "*"


class _Nothing:
    """The type of `NOTHING`."""

    def __bool__(self) -> bool:
        return False


NOTHING = _Nothing()
"""What a path gives that leads nowhere; `null` in the answer is None and not this."""


@lru_cache(maxsize=256)
def parse_path(path: str) -> tuple[str | int, ...]:
    """The steps of a path: names, indexes from 0, and `*`.

    Raises:
        InvalidInputError: naming the place where it cannot be read.
    """
    at = 1 if path.startswith("$") else 0
    steps: list[str | int] = []
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            raise InvalidInputError(
                f'path {path!r}: cannot read {path[at:]!r}; use $.name, [0], [*] or ["name"]'
            )
        name, index, every, quoted, single = found.groups()
        if index is not None:
            steps.append(int(index))
        else:
            steps.append(next(s for s in (name, every, quoted, single) if s is not None))
        at = found.end()
    return tuple(steps)


def find(value: Any, path: str) -> Any:  # noqa: ANN401 - JSON has any type
    """What `path` leads to in `value`, `NOTHING` when it leads nowhere; `[*]` gives a list."""
    return _follow(value, parse_path(path))


def _follow(value: Any, steps: tuple[str | int, ...]) -> Any:  # noqa: ANN401
    for number, step in enumerate(steps):
        if step == EVERY and isinstance(value, list):
            found = [_follow(item, steps[number + 1 :]) for item in value]
            return [item for item in found if item is not NOTHING]
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) and step < len(value) else NOTHING
        else:
            value = value.get(step, NOTHING) if isinstance(value, dict) else NOTHING
        if value is NOTHING:
            return NOTHING
    return value
