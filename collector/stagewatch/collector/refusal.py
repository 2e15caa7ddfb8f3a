"""A request that gets no yes: one class that both protocols turn into their own form."""

from __future__ import annotations

from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from stagewatch.core.errors import StagewatchError

# google.rpc.Code, the same numbers as gRPC status codes.
INVALID_ARGUMENT = 3
NOT_FOUND = 5
PERMISSION_DENIED = 7
RESOURCE_EXHAUSTED = 8
UNIMPLEMENTED = 12
INTERNAL = 13
UNAVAILABLE = 14
UNAUTHENTICATED = 16


class RefusedError(StagewatchError):
    """Why a request was refused.

    `http` is the HTTP status, `code` the gRPC one, `kind` a short constant for counting. Only with
    `retry_after_s` (1 to 3: exporters give up all their tries when it is longer than their
    10 s deadline) may the client send the same request again.
    """

    def __init__(
        self, http: int, code: int, kind: str, message: str, retry_after_s: int | None = None
    ) -> None:
        super().__init__(message)
        self.http = http
        self.code = code
        self.kind = kind
        self.message = message
        self.retry_after_s = retry_after_s

    def status(self) -> Status:
        """The google.rpc.Status of OTLP's error answers."""
        status = Status(code=self.code, message=self.message)
        if self.retry_after_s is not None:
            info = RetryInfo(retry_delay=Duration(seconds=self.retry_after_s))
            status.details.add().Pack(info)
        return status


def bad_request(message: str) -> RefusedError:
    """The body cannot be read; it never will be."""
    return RefusedError(400, INVALID_ARGUMENT, "undecodable", message)


def too_large(message: str) -> RefusedError:
    """The body is over the limit; without a retry hint, or clients would send it for ever."""
    return RefusedError(413, RESOURCE_EXHAUSTED, "too_large", message)


def unsupported(message: str) -> RefusedError:
    """A content type or encoding that is not known."""
    return RefusedError(415, INVALID_ARGUMENT, "unsupported_type", message)


def overloaded(message: str, retry_after_s: int = 2) -> RefusedError:
    """Not now: a bound was reached."""
    return RefusedError(503, UNAVAILABLE, "overloaded", message, retry_after_s)
