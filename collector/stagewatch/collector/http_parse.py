"""Reading HTTP/1.1 by httptools: heads, and bodies in chunks."""

from __future__ import annotations

from dataclasses import dataclass, field

import httptools

from stagewatch.collector.refusal import bad_request


@dataclass(slots=True)
class Head:
    """The head of a request; header names in lower case. `length` is None for a chunked body."""

    method: str = ""
    path: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    keep_alive: bool = True
    length: int | None = 0


class _HeadReader:
    """Callbacks of the parser while it reads a head; httptools calls them by these names."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._url = b""

    def on_url(self, part: bytes) -> None:
        self._url += part

    def on_header(self, name: bytes, value: bytes) -> None:
        key = name.decode("latin-1").lower()
        self._head.headers[key] = value.decode("latin-1").strip()

    def on_headers_complete(self) -> None:
        self._head.path = self._url.decode("latin-1").partition("?")[0]


def parse_head(raw: bytes) -> Head:
    """The head in `raw`, which ends with the empty line.

    Raises:
        RefusedError: 400, not HTTP.
    """
    head = Head()
    parser = httptools.HttpRequestParser(_HeadReader(head))
    try:
        parser.feed_data(raw)
        head.method = parser.get_method().decode("latin-1")
        head.keep_alive = parser.should_keep_alive()
        if "chunked" in head.headers.get("transfer-encoding", "").lower():
            head.length = None
        else:
            head.length = int(head.headers.get("content-length", "0"))
    except (httptools.HttpParserError, httptools.HttpParserUpgrade, ValueError):
        raise bad_request("this is not an HTTP/1.1 request") from None
    return head


class ChunkReader:
    """Gathers a chunked body, at most `limit` bytes."""

    def __init__(self, raw_head: bytes, limit: int) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self.body = bytearray()
        self.done = False
        self.too_much = False
        self.more_follows = False
        self.limit = limit
        self._parser.feed_data(raw_head)

    def on_message_begin(self) -> None:
        """Called by the parser."""
        self.more_follows = self.done

    def on_body(self, part: bytes) -> None:
        """Called by the parser."""
        if len(self.body) + len(part) > self.limit:
            self.too_much = True
        else:
            self.body += part

    def on_message_complete(self) -> None:
        """Called by the parser."""
        self.done = True

    def feed(self, data: bytes) -> None:
        """Take more bytes; raises HttpParserError for what is no chunked body."""
        self._parser.feed_data(data)
