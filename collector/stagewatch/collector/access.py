"""Who may send, and for which project."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stagewatch.collector.refusal import (
    INTERNAL,
    INVALID_ARGUMENT,
    PERMISSION_DENIED,
    UNAUTHENTICATED,
    RefusedError,
    overloaded,
)
from stagewatch.core.auth import presented_key
from stagewatch.core.errors import (
    ForbiddenError,
    InvalidInputError,
    StagewatchError,
    StoreUnavailableError,
    UnauthorizedError,
)

PROJECT_HEADER = "x-stagewatch-project"


@dataclass(frozen=True, slots=True)
class Sender:
    """Into which project a request goes, and by whose allowance: `who` names a key, or nobody."""

    project: str
    who: str


def _refusal(error: StagewatchError) -> RefusedError:
    if isinstance(error, UnauthorizedError):
        return RefusedError(401, UNAUTHENTICATED, "unauthorized", str(error))
    if isinstance(error, ForbiddenError):
        return RefusedError(403, PERMISSION_DENIED, "forbidden", str(error))
    if isinstance(error, InvalidInputError):
        return RefusedError(400, INVALID_ARGUMENT, "bad_project", str(error))
    if isinstance(error, StoreUnavailableError):
        return overloaded("the key cannot be looked up now")
    return RefusedError(500, INTERNAL, "internal", "the key cannot be looked up")


class Access:
    """Asks the process's `auth` (None: everybody may send, all into project "default")."""

    def __init__(self, auth: Any) -> None:  # noqa: ANN401 - stagewatch.core.auth.Auth or None
        self._auth = auth

    def _look_up(self, headers: Mapping[str, str]) -> Sender:
        try:
            principal = self._auth.principal(headers)
            principal.need("ingest")
            project = str(principal.pick_project(headers.get(PROJECT_HEADER)))
        except StagewatchError as error:
            raise _refusal(error) from None
        # Only keys that are known get here, so there are no more names than keys.
        return Sender(project, presented_key(headers) or "")

    async def sender(self, headers: Mapping[str, str]) -> Sender:
        """Who sends these headers (lower-case names), and into which project.

        Raises:
            RefusedError: 401, 403, or 400 for something that is no project name.
        """
        if self._auth is None:
            return Sender("default", "")
        if "authorization" in headers or "x-api-key" in headers:
            # Looking up a key may read the store, which is no work for the receivers' loop.
            return await asyncio.to_thread(self._look_up, headers)
        return self._look_up(headers)
