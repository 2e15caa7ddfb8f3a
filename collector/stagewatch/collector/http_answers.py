"""Bytes of OTLP/HTTP answers: the request's own encoding for yes and for no."""

from __future__ import annotations

from functools import cache
from http import HTTPStatus
from typing import Literal

import orjson
from google.protobuf.descriptor_pool import Default
from google.protobuf.json_format import MessageToDict

from stagewatch.collector.check import Checked
from stagewatch.collector.refusal import RefusedError
from stagewatch.collector.signals import Signal

Form = Literal["protobuf", "json"]

_POOL = Default()

_TYPES: dict[Form, str] = {"protobuf": "application/x-protobuf", "json": "application/json"}


def content_form(content_type: str) -> Form | None:
    """The encoding that a Content-Type names; case and parameters do not matter."""
    name = content_type.partition(";")[0].strip().lower()
    if name in {"application/x-protobuf", "application/protobuf"}:
        return "protobuf"
    return "json" if name == "application/json" else None


def answer(status: int, body: bytes, form: Form, *, close: bool = False, extra: str = "") -> bytes:
    """A whole HTTP/1.1 response."""
    return (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
        f"Content-Type: {_TYPES[form]}\r\nContent-Length: {len(body)}\r\n{extra}"
        f"{'Connection: close' if close else 'Connection: keep-alive'}\r\n\r\n"
    ).encode() + body


@cache
def _plain_yes(form: Form, *, close: bool) -> bytes:
    return answer(200, b"{}" if form == "json" else b"", form, close=close)


def success(signal: Signal, checked: Checked, form: Form, *, close: bool) -> bytes:
    """200, with partial_success when items were left out."""
    if not checked.rejected:
        return _plain_yes(form, close=close)
    return answer(200, success_body(signal, checked, form), form, close=close)


def success_body(signal: Signal, checked: Checked, form: Form) -> bytes:
    """The Export…ServiceResponse: empty unless items were left out."""
    n = checked.rejected.total()
    if form == "json":
        if not n:
            return b"{}"
        camel = "".join(
            word if i == 0 else word.title() for i, word in enumerate(signal.rejected.split("_"))
        )
        partial = {camel: str(n), "errorMessage": checked.message}
        return orjson.dumps({"partialSuccess": partial})
    response = signal.response()
    if n:
        setattr(response.partial_success, signal.rejected, n)  # type: ignore[attr-defined] # all three have it
        response.partial_success.error_message = checked.message  # type: ignore[attr-defined]
    return response.SerializeToString()


def refusal(refused: RefusedError, form: Form, *, close: bool) -> bytes:
    """The google.rpc.Status of a refusal, with Retry-After when trying again may help."""
    extra = ""
    if refused.retry_after_s is not None:
        extra = f"Retry-After: {refused.retry_after_s}\r\n"
    if refused.http == 405:
        extra += "Allow: POST\r\n"
    if form == "json":
        body = orjson.dumps(MessageToDict(refused.status(), descriptor_pool=_POOL))
    else:
        body = refused.status().SerializeToString()
    return answer(refused.http, body, form, close=close, extra=extra)
