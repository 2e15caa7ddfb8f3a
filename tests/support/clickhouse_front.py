"""ClickHouse's HTTP interface over one embedded engine: what a server answers, without a server.

Enough of it for clickhouse-connect: queries with bound parameters (`param_x`), settings in the
address, inserts with their data in the body, errors with their code in a header. The engine runs
in a process of its own, so several stagewatch processes can share it, as they share a server.

    python -m tests.support.clickhouse_front FOLDER    # prints the port on the first line
"""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import chdb
import zstandard
from tests.support.child_server import child_server, serve_until_closed

_OF_THE_TRANSPORT = frozenset(
    {
        "query", "database", "session_id", "session_timeout", "session_check", "query_id",
        "quota_key", "compress", "decompress", "wait_end_of_query", "client_protocol_version",
        "role", "send_progress_in_http_headers", "http_headers_progress_interval_ms",
        "enable_http_compression", "buffer_size",
    }
)  # fmt: skip
_CODE = re.compile(r"Code: (\d+)")
_INSERT = re.compile(
    r"\A(\s*INSERT\s+INTO\s+.*?)\s+FORMAT\s+(\w+)\s*;?\s*\Z", re.IGNORECASE | re.DOTALL
)
_WITH_DATA = re.compile(rb"\A\s*INSERT\s+INTO\s[^\n]*?\sFORMAT\s+\w+\s*?\n", re.IGNORECASE)
_RETURNS = re.compile(
    r"\A(?:--[^\n]*\n|[\s(])*(SELECT|WITH|SHOW|DESC|DESCRIBE|EXISTS|EXPLAIN)\b", re.IGNORECASE
)


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


# Two distributions bring this module, one with types and one without; the last one installed stays.
_ENGINE: Any = chdb


class Engine:
    """One handle a request: settings of one must not reach another."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        # Keeps the engine open between requests.
        self._anchor = self.connect()

    def connect(self) -> Any:
        return _ENGINE.connect(self.folder)

    def run(self, sql: str, data: bytes, settings: dict[str, str], params: dict[str, str]) -> bytes:
        handle = self.connect()
        try:
            if settings:
                pairs = ", ".join(f"{name} = {quoted(value)}" for name, value in settings.items())
                handle.query(f"SET {pairs}", "TabSeparated")
            if data:
                return self.insert(handle, sql, data)
            found = handle.query(sql, "TabSeparated", params=params)
            return bytes(found.bytes()) if _RETURNS.match(sql) else b""
        finally:
            handle.close()

    def insert(self, handle: Any, sql: str, data: bytes) -> bytes:
        made = _INSERT.match(sql)
        if made is None:
            raise ValueError(f"Code: 62. not an insert with data: {sql[:80]}")
        with tempfile.NamedTemporaryFile(suffix=".data") as file:
            file.write(data)
            file.flush()
            handle.query(f"{made[1]} FROM INFILE {quoted(file.name)} FORMAT {made[2]}")
        return b""


def statement(body: bytes) -> tuple[str, bytes]:
    """SQL and data of a body that holds both, or SQL alone."""
    made = _WITH_DATA.match(body)
    if made is None:
        return body.decode(), b""
    return made[0].decode(), body[made.end() :]


def fields(kind: str, body: bytes) -> dict[str, str]:
    """Fields of a multipart body: how many or long parameters are sent."""
    whole = BytesParser().parsebytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body)
    found = {}
    for part in whole.walk():
        name = part.get_param("name", header="content-disposition")
        if isinstance(name, str):
            text = part.get_payload(decode=True)
            found[name] = text.decode() if isinstance(text, bytes) else ""
    return found


def inflate(body: bytes, encoding: str) -> bytes:
    if encoding == "gzip":
        return gzip.decompress(body)
    if encoding == "zstd":
        return zstandard.ZstdDecompressor().decompressobj().decompress(body)
    if encoding not in {"", "identity"}:
        raise ValueError(f"Code: 48. encoding {encoding} is not spoken here")
    return body


def serve(folder: str) -> None:
    engine = Engine(folder)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def reply(self, status: int, body: bytes, code: str = "") -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("X-ClickHouse-Summary", "{}")
            if code:
                self.send_header("X-ClickHouse-Exception-Code", code)
            self.end_headers()
            self.wfile.write(body)

        def body(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

        def answer(self) -> None:
            address = urlsplit(self.path)
            sent = self.body()
            if address.path == "/ping":
                self.reply(200, b"Ok.\n")
                return
            asked = dict(parse_qsl(address.query, keep_blank_values=True))
            kind = self.headers.get("Content-Type", "")
            if kind.startswith("multipart/form-data"):
                asked |= fields(kind, sent)
                sent = b""
            try:
                data = inflate(sent, self.headers.get("Content-Encoding", ""))
                sql = asked.get("query", "")
                if not sql:
                    sql, data = statement(data)
                params = {k[6:]: v for k, v in asked.items() if k.startswith("param_")}
                settings = {
                    k: v
                    for k, v in asked.items()
                    if k not in _OF_THE_TRANSPORT and not k.startswith("param_")
                }
                self.reply(200, engine.run(sql, data, settings, params))
            except Exception as error:  # noqa: BLE001
                text = str(error)
                code = _CODE.search(text)
                self.reply(500, text.encode(), code[1] if code else "1002")

        do_GET = do_POST = answer  # noqa: N815

        def log_message(self, *args: object) -> None:
            """Quiet."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 256

        def handle_error(self, *args: object) -> None:
            """Clients are killed here on purpose."""

    server = Server(("127.0.0.1", 0), Handler)
    serve_until_closed(server)
    # The engine's own threads may outlive the interpreter's teardown.
    os._exit(0)


@contextlib.contextmanager
def clickhouse_front(folder: Path) -> Iterator[str]:
    """Address of a running front on `folder`, for STAGEWATCH_CLICKHOUSE_URL."""
    # The engine keeps a copy of a schema that is sent as text in the folder it was started from.
    with child_server(__name__, str(folder), cwd=folder.parent) as port:
        yield f"http://default:@127.0.0.1:{port}/default"


if __name__ == "__main__":
    serve(sys.argv[1])
