"""Errors of the product: the class says whether trying again helps, one table speaks HTTP."""

from __future__ import annotations

from collections.abc import Mapping


class StagewatchError(Exception):
    """Root of every error raised on purpose; its text says what was tried and what to do."""


class SettingsError(StagewatchError):
    """A setting is unknown or has a bad value; the process does not start."""


class NotFoundError(StagewatchError):
    """The thing named in the request does not exist (any more)."""


class InvalidInputError(StagewatchError):
    """The request can never succeed as it is; sending it again will not help."""


class ConflictError(StagewatchError):
    """The request contradicts what is stored (a name taken, a version that is immutable)."""


class ForbiddenError(StagewatchError):
    """The key is known but its role or project does not allow this."""


class UnauthorizedError(StagewatchError):
    """No key, or one that is not known."""


class OverloadedError(StagewatchError):
    """A bound was reached; the same request may work after `retry_after_s` seconds."""

    def __init__(self, message: str, retry_after_s: int = 2) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class StoreError(StagewatchError):
    """ClickHouse refused the statement; sending it again will not help."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


class StoreUnavailableError(StoreError):
    """ClickHouse could not be reached or is overloaded; the same statement may work later."""


class EngineBusyError(StagewatchError):
    """Another process has the embedded engine's folder open."""


class PortInUseError(StagewatchError):
    """A listener could not take its port."""


HTTP_STATUS: Mapping[type[StagewatchError], int] = {
    InvalidInputError: 400,
    UnauthorizedError: 401,
    ForbiddenError: 403,
    NotFoundError: 404,
    ConflictError: 409,
    OverloadedError: 429,
    StoreUnavailableError: 503,
    StoreError: 500,
}


def http_status(error: StagewatchError) -> int:
    """HTTP status for `error`: the entry of its nearest class in `HTTP_STATUS`, else 500."""
    for kind in type(error).__mro__:
        status = HTTP_STATUS.get(kind)
        if status is not None:
            return status
    return 500
