"""One class over clickhouse-connect: bound parameters in, dicts out, errors in our own tree.

A `Store` may be used from any thread: each thread gets a client of its own, because one client
serialises its calls (a long read would hold up every insert) and an open stream on a handle
makes other queries on that handle return nothing. See docs/adr/003-embedded-engine.md.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import clickhouse_connect
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import (
    ClickHouseError,
    DatabaseError,
    OperationalError,
    ProgrammingError,
)

from stagewatch.core.codec import to_json
from stagewatch.core.errors import (
    EngineBusyError,
    InvalidInputError,
    StoreError,
    StoreUnavailableError,
)
from stagewatch.core.settings import Settings

# Timed out, too many queries, network, memory, read-only replica, no quorum, not enough disk …:
# https://github.com/ClickHouse/ClickHouse/blob/master/src/Common/ErrorCodes.cpp
_TRANSIENT_CODES = frozenset(
    {159, 202, 203, 209, 210, 225, 241, 242, 243, 252, 285, 286, 319, 394, 999}
)
# A bound value that its declared type cannot hold: the caller's input, not a fault of the store.
_BAD_PARAMETER = 457
_CODE = re.compile(r"Code: (\d+)")
_COLUMN = re.compile(r"reading the value of key (\w+)")

_SESSION_SETTINGS: Mapping[str, Any] = {
    # On by default since 26.2: it would acknowledge rows that are not yet on disk.
    "async_insert": 0,
    # A backfill spans more days than the default of 100 partitions a block.
    "max_partitions_per_insert_block": 10_000,
    "deduplicate_blocks_in_dependent_materialized_views": 1,
    "date_time_input_format": "best_effort",
    "input_format_skip_unknown_fields": 0,
}


@cache
def query(name: str) -> str:
    """The text of `sql/queries/{name}.sql`."""
    folder = resources.files("stagewatch.core.store").joinpath("sql", "queries")
    return folder.joinpath(f"{name}.sql").read_text(encoding="utf-8")


def _translate(error: Exception, doing: str, *, quoting: bool) -> StoreError:
    """Our error for the library's. The engine's own text may quote values of an insert, which are
    trace content: with `quoting` False only the code, its name and the column go on.
    """
    text = str(error)
    found = _CODE.search(text)
    code = getattr(error, "code", None) or (int(found.group(1)) if found else None)
    away = isinstance(error, OperationalError) or not isinstance(error, DatabaseError)
    if code is None and away:
        return StoreUnavailableError(f"{doing}: ClickHouse cannot be reached", code)
    name = getattr(error, "name", None) or ""
    column = _COLUMN.search(text)
    at = f" at column {column.group(1)}" if column else ""
    message = f"{doing}: ClickHouse error {code or 'unknown'} {name}".rstrip() + at
    kind = StoreUnavailableError if code in _TRANSIENT_CODES else StoreError
    failure = kind(message, code)
    if quoting:
        failure.add_note(text[:2000])
    return failure


class Store:
    """Reads and writes; one instance per process, usable from any thread."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.embedded = settings.embedded
        self._local = threading.local()
        self._clients: list[Client] = []
        # Guards `_clients`: threads come and go while `close` walks it.
        self._lock = threading.Lock()
        self._closed = False
        # Gives back what `open_store` took for this store.
        self.on_close: Callable[[], None] | None = None

    def _connect(self) -> Client:
        if self._closed:
            raise StoreUnavailableError("the store is closed")
        if self.embedded:
            client = clickhouse_connect.get_client(
                interface="chdb",
                path=str(engine_path(self.settings)),
                chdb_options={
                    "max_server_memory_usage": self.settings.engine_memory_mb * 1_000_000
                },
                settings=dict(_SESSION_SETTINGS),
            )
        else:
            client = clickhouse_connect.get_client(
                dsn=self.settings.clickhouse_url,
                settings=dict(_SESSION_SETTINGS),
                autogenerate_session_id=False,
            )
        with self._lock:
            self._clients.append(client)
        return client

    def client(self) -> Client:
        """This thread's own clickhouse-connect client.

        Raises:
            EngineBusyError: another process holds the embedded engine's folder.
            StoreUnavailableError: the server cannot be reached.
        """
        found: Client | None = getattr(self._local, "client", None)
        if found is None:
            try:
                found = self._connect()
            except ProgrammingError as error:
                raise _busy(self.settings) from error
            except (ClickHouseError, OSError) as error:
                raise _translate(error, "connect", quoting=False) from None
            self._local.client = found
        return found

    def rows(
        self,
        sql: str,
        params: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> list[dict[str, Any]]:
        """Rows of a SELECT as dicts. Values are bound by `{name:Type}`, never pasted."""
        try:
            result = self.client().query(
                sql, parameters=dict(params or {}), settings=dict(settings or {})
            )
        except ClickHouseError as error:
            failure = _translate(error, "read", quoting=True)
            if failure.code == _BAD_PARAMETER:
                raise InvalidInputError("a value of the request is outside its range") from None
            raise failure from None
        names = result.column_names
        return [dict(zip(names, row, strict=True)) for row in result.result_rows]

    def row(self, sql: str, params: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
        """The first row of a SELECT, or None."""
        found = self.rows(sql, params)
        return found[0] if found else None

    def value(self, sql: str, params: Mapping[str, Any] | None = None) -> Any:  # noqa: ANN401
        """The first column of the first row, or None."""
        found = self.row(sql, params)
        return next(iter(found.values())) if found else None

    def command(self, sql: str, params: Mapping[str, Any] | None = None) -> None:
        """Run a statement that returns nothing (DDL, ALTER, OPTIMIZE)."""
        try:
            self.client().command(sql, parameters=dict(params or {}))
        except ClickHouseError as error:
            raise _translate(error, "write", quoting=True) from None

    def put(self, table: str, rows: Iterable[Mapping[str, Any]], token: str | None = None) -> int:
        """Insert `rows` (column name → value) and return their number.

        With `token`, a repeat of the same call is dropped by the engine as long as the table
        has a deduplication window: bind the token to the content, never to a counter.
        """
        items = list(rows)
        if not items:
            return 0
        body = b"\n".join(to_json(row) for row in items)
        settings = {"insert_deduplication_token": token} if token else {}
        self.put_raw(table, body, "JSONEachRow", settings, columns=list(items[0]))
        return len(items)

    def put_raw(
        self,
        table: str,
        body: bytes,
        fmt: str,
        settings: Mapping[str, Any] | None = None,
        columns: Sequence[str] | None = None,
    ) -> None:
        """Insert bytes that are already in ClickHouse input format `fmt`."""
        try:
            self.client().raw_insert(
                table,
                column_names=list(columns) if columns else None,
                insert_block=body,
                settings=dict(settings or {}),
                fmt=fmt,
            )
        except ClickHouseError as error:
            raise _translate(error, f"insert into {table}", quoting=False) from None

    def put_file(
        self,
        table: str,
        path: Path,
        fmt: str,
        settings: Mapping[str, Any] | None = None,
        columns: Sequence[str] | None = None,
    ) -> None:
        """Insert a file that is in ClickHouse input format `fmt`; the embedded engine reads it
        itself, without a copy in between.
        """
        if not self.embedded:
            self.put_raw(table, path.read_bytes(), fmt, settings, columns)
            return
        names = f" ({', '.join(columns)})" if columns else ""
        quoted = str(path.resolve()).replace("\\", "\\\\").replace("'", "\\'")
        try:
            self.client().command(
                f"INSERT INTO {table}{names} FROM INFILE '{quoted}' FORMAT {fmt}",
                settings=dict(settings or {}),
            )
        except ClickHouseError as error:
            raise _translate(error, f"insert into {table}", quoting=False) from None

    def ping(self) -> bool:
        """True when the engine answers."""
        try:
            return bool(self.value("SELECT 1") == 1)
        except (StoreError, EngineBusyError):
            return False

    def close(self) -> None:
        """Close every thread's client. Calls that come later raise StoreUnavailableError."""
        self._closed = True
        with self._lock:
            clients, self._clients = self._clients, []
        for client in clients:
            with contextlib.suppress(ClickHouseError, OSError):
                client.close()
        if self.on_close is not None:
            release, self.on_close = self.on_close, None
            release()


def engine_path(settings: Settings) -> Path:
    """Folder of the embedded engine inside the data folder."""
    return settings.data_dir / "engine"


def prepare_data_dir(settings: Settings) -> None:
    """Make the data folder with its `tmp`, and have temporary files land there.

    clickhouse-connect passes inserts to chDB through temporary files, which stay behind after a
    kill with trace content in them: inside the folder they are ours to clean at each start.

    Raises:
        StoreUnavailableError: the folder cannot be made or written.
    """
    tmp = settings.data_dir / "tmp"
    try:
        settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        probe = settings.data_dir / f".writable-{os.getpid()}"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise StoreUnavailableError(
            f"cannot write in the data folder {settings.data_dir}: {error.strerror}; "
            "set STAGEWATCH_DATA_DIR to a folder this user may write"
        ) from None
    tempfile.tempdir = str(tmp)


def lock_data_dir(settings: Settings) -> int:
    """Lock the data folder for this process; the descriptor that holds the lock.

    The engine has a lock of its own, but says so in its own words on stderr.

    Raises:
        EngineBusyError: another process has the folder.
    """
    held = os.open(settings.data_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(held)
        raise _busy(settings) from None
    return held


def _busy(settings: Settings) -> EngineBusyError:
    return EngineBusyError(
        f"the data folder {settings.data_dir} is open in another stagewatch "
        "process: stop it, use another --data-dir, or set STAGEWATCH_URL to talk to it"
    )


def clean_tmp(settings: Settings) -> None:
    """Empty the temporary folder. Only safe once this process holds the engine."""
    tmp = settings.data_dir / "tmp"
    shutil.rmtree(tmp, ignore_errors=True)
    tmp.mkdir(parents=True, exist_ok=True, mode=0o700)


def open_store(settings: Settings) -> Store:
    """A store on the embedded engine (its folder prepared and locked) or the server.

    Raises:
        EngineBusyError: another process has the folder open.
        StoreUnavailableError: the folder is not writable or the server cannot be reached.
    """
    held: int | None = None
    if settings.embedded:
        prepare_data_dir(settings)
        (settings.data_dir / "tmp").mkdir(exist_ok=True, mode=0o700)
        held = lock_data_dir(settings)
    store = Store(settings)
    store.on_close = (lambda: os.close(held)) if held is not None else None
    store.client()
    if settings.embedded:
        clean_tmp(settings)
    return store
