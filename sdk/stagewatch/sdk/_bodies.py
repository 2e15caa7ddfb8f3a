"""Answers that the app reads itself, as the bytes of an HTTP response: read along as they pass.

Clients made like openai's hand such a response out unread (`with_streaming_response`, raw streams).
Whichever of its methods the app then calls, the bytes come from the response's own `stream`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from stagewatch.sdk._guard import guarded
from stagewatch.sdk._mirror import mirrored
from stagewatch.sdk._responses import Reply, field_of, read_reply
from stagewatch.sdk._streams import Answer, Reading, StreamProxy, stream_proxy

_MAX_HELD = 8 << 20
"""Bytes that are kept until they can be understood: of a body, or of one event of a stream."""

_PLAIN = frozenset({"", "identity"})


class Body(Answer):
    """The answer in the bytes of a response: one JSON document, or events that a server sends."""

    def __init__(self, cap: int, response: Any) -> None:  # noqa: ANN401 - httpx's, or shaped like it
        super().__init__(cap)
        headers = response.headers
        self._is_stream = "event-stream" in headers.get("content-type", "")
        self._is_plain = headers.get("content-encoding", "").strip().lower() in _PLAIN
        # Not the response: its stream leads here, and it must not wait for the cycle collector.
        self._decoded = _decoder(type(response), headers)
        self._held = bytearray()
        self._data: list[bytes] = []
        self._is_over = False

    def add(self, item: object) -> None:
        """Take a few bytes; more than are worth keeping make the rest unreadable."""
        if not isinstance(item, bytes) or self._is_over:
            return
        self._held += item
        if self._is_stream and self._is_plain:
            *lines, rest = self._held.split(b"\n")
            self._held = rest
            for line in lines:
                self._line(bytes(line))
        self._is_over = len(self._held) > _MAX_HELD

    def reply(self) -> Reply:
        """What was said in all."""
        if self._is_over:
            # What was understood before is not the answer, and how long that is, nobody knows.
            return Reply()
        held = bytes(self._held)
        whole = held if self._is_plain else self._decoded(held)
        if not self._is_stream:
            return _read(whole) or Reply()
        for line in (*whole.split(b"\n"), b""):
            self._line(line)
        return super().reply()

    def _line(self, line: bytes) -> None:
        name, _, value = line.rstrip(b"\r").partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
        elif not name and not value and self._data:
            data, self._data = b"\n".join(self._data), []
            if data.startswith(b"[DONE]"):
                # Readers stop here and close the response.
                self.complete = True
            else:
                self._add_reply(_read(data))


def _read(data: bytes) -> Reply | None:
    try:
        parsed = json.loads(data)
    except ValueError:
        return None
    return read_reply(parsed) if isinstance(parsed, dict) else None


def _decoder(kind: Any, headers: Any) -> Callable[[bytes], bytes]:  # noqa: ANN401
    def decoded(data: bytes) -> bytes:
        # With the app's own library, which knows what it asked the server for.
        try:
            content = kind(200, headers=headers, content=data).content
        except Exception:  # noqa: BLE001 - a body that broke off, or a response of another make
            return b""
        return content if isinstance(content, bytes) else b""

    return decoded


class _Tapped(StreamProxy):
    """Stands for a response's stream of bytes. The way to go through it is read along."""

    __slots__ = ()


def _through(self: _Tapped) -> Any:  # noqa: ANN401
    return stream_proxy(iter(self._stagewatch_inner), self._stagewatch_reading)


def _through_later(self: _Tapped) -> Any:  # noqa: ANN401
    return stream_proxy(aiter(self._stagewatch_inner), self._stagewatch_reading)


_SPECIAL: dict[str, Callable[..., Any]] = {"__iter__": _through, "__aiter__": _through_later}


def unread_response(result: object) -> Any:  # noqa: ANN401
    """The HTTP response in what an openai client returned, when its body is still to be read."""
    response = field_of(result, "http_response")
    if response is None or field_of(response, "headers") is None:
        return None
    held = getattr(response, "__dict__", {})
    is_unread = "_content" not in held and held.get("is_stream_consumed") is False
    return response if is_unread and held.get("stream") is not None else None


@guarded("read a response along")
def read_along(response: Any, reading: Reading) -> bool:  # noqa: ANN401
    """Have `reading` told of every byte of `response` that the app reads, and of its end."""
    stream = response.stream
    proxy = object.__new__(mirrored(_Tapped, type(stream), _SPECIAL))
    object.__setattr__(proxy, "_stagewatch_inner", stream)
    object.__setattr__(proxy, "_stagewatch_reading", reading)
    response.stream = proxy
    return True
