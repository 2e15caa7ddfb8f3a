"""The collector as a service: receivers, spool, writer, assembler, started and stopped in order."""

from __future__ import annotations

import asyncio
import logging
import ssl
import threading
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import grpc

from stagewatch.collector.access import Access
from stagewatch.collector.allowance import Allowances
from stagewatch.collector.assemble import assemble_turns
from stagewatch.collector.assembler import Assembler
from stagewatch.collector.counters import Counters, CountingWatcher
from stagewatch.collector.duplicates import WINDOW_SECONDS, RecentBodies, body_key
from stagewatch.collector.grpc_server import GrpcReceiver
from stagewatch.collector.http_server import HttpReceiver
from stagewatch.collector.intake import Intake
from stagewatch.collector.segments import Sealed, frames_of, recover
from stagewatch.collector.spool import Limits, Spool
from stagewatch.collector.writer import Writer, insert_segment, spool_folder
from stagewatch.core.errors import SettingsError, StagewatchError
from stagewatch.core.service import Context, Service
from stagewatch.core.settings import Settings
from stagewatch.core.store import Store, query
from stagewatch.core.store.retention import set_retention

log = logging.getLogger("stagewatch.collector")

_INSERT_MODE_SECONDS = 0.2


def build(context: Context) -> Service:
    """The collector on this context; nothing runs before `start`."""
    return Collector(context)


class Collector:
    """Takes OTLP, stores it exactly once, assembles turns."""

    name = "collector"

    def __init__(self, context: Context) -> None:
        self._context = context
        self._settings = context.settings
        self._counters = Counters(context.registry)
        self._spool: Spool
        self._writer: Writer
        self._http: HttpReceiver
        self._grpc: GrpcReceiver
        self._assembler: Assembler
        self._watcher: CountingWatcher
        self._started = False

    async def start(self) -> Mapping[str, str]:
        """Recover the spool, start the threads, listen; the addresses by name.

        Raises:
            PortInUseError: a port is taken.
            SettingsError: TLS files cannot be read.
        """
        settings = self._settings
        tls, credentials = _tls(settings)
        await asyncio.to_thread(self._prepare)
        http_port = await self._http.start(settings.host, settings.otlp_http_port, tls)
        try:
            grpc_port = await self._grpc.start(settings.host, settings.otlp_grpc_port, credentials)
        except StagewatchError:
            await self._http.stop(0)
            raise
        self._spool.start()
        self._writer.start()
        self._assembler.start()
        self._started = True
        self._context.health[self.name] = self._health
        scheme = "https" if tls else "http"
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        return {
            "otlp http": f"{scheme}://{host}:{http_port}",
            "otlp grpc": f"{scheme}://{host}:{grpc_port}",
        }

    def _prepare(self) -> None:
        settings, store = self._settings, self._context.store
        set_retention(store, settings.retention_days)
        folder = spool_folder(settings.data_dir)
        leftovers = recover(folder)
        wait_for_insert = settings.ack == "insert"
        seconds = settings.segment_seconds
        limits = Limits(
            segment_bytes=int(settings.segment_mb * 1_000_000),
            segment_seconds=min(seconds, _INSERT_MODE_SECONDS) if wait_for_insert else seconds,
            max_bytes=settings.spool_max_mb * 1_000_000,
            min_free_bytes=settings.spool_min_free_mb * 1_000_000,
        )
        recent = RecentBodies()
        recent.add_all(_recent_keys(store, leftovers), time.monotonic())
        self._spool = Spool(
            folder,
            limits,
            on_sealed=self._sealed,
            backlog=sum(sealed.size for sealed in leftovers),
        )
        self._watcher = CountingWatcher(self._counters, self._spool.stored)
        intake = Intake(
            self._spool,
            self._counters,
            recent,
            now_ns=lambda: int(self._context.clock.now().timestamp() * 1e6) * 1000,
            monotonic=time.monotonic,
            wait_for_insert=wait_for_insert,
        )
        self._writer = Writer(
            partial(insert_segment, store),
            self._watcher,
            self._spool.release,
            leftovers,
            settled=intake.settled if wait_for_insert else None,
        )
        access = Access(self._context.shared.get("auth"))
        limit = settings.max_request_mb << 20
        allowances = Allowances(
            settings.key_requests_per_second, settings.key_mb_per_second * 1e6, time.monotonic
        )
        self._http = HttpReceiver(
            intake,
            access,
            self._counters,
            allowances,
            max_bytes=limit,
            max_connections=settings.max_connections,
        )
        self._grpc = GrpcReceiver(
            intake,
            access,
            self._counters,
            allowances,
            max_bytes=limit,
            max_calls=settings.max_connections,
        )
        self._assembler = Assembler(
            store,
            self._context.clock,
            settings,
            self._counters,
            assemble=lambda spans, logs: assemble_turns(
                spans, logs, attribute_map=settings.attribute_map
            ),
            wrote=self._wake_scorer,
        )
        self._counters.watch(
            "stagewatch_collector_spool_bytes",
            "Bytes accepted and not stored yet.",
            lambda: self._spool.bytes,
        )
        self._counters.watch(
            "stagewatch_collector_spool_segments",
            "Sealed segments not stored yet.",
            self._writer.waiting,
        )

    def _sealed(self, sealed: Sealed) -> None:
        self._writer.offer(sealed)

    def _wake_scorer(self) -> None:
        wake = self._context.shared.get("wake_scorer")
        if isinstance(wake, threading.Event):
            wake.set()

    def _health(self) -> dict[str, Any]:
        refuses = self._spool.refuses()
        trouble = refuses or self._watcher.trouble or self._assembler.trouble
        waiting = self._writer.waiting()
        return {
            "ok": not trouble,
            "says": trouble or "taking spans",
            "spool_bytes": self._spool.bytes,
            "spool_segments": waiting,
            "pending_traces": len(self._assembler.pending.traces),
            "assembly_lag_seconds": round(self._assembler.lag_seconds(), 1),
        }

    async def stop(self, grace_s: float) -> str | None:
        """Stop listening, store what was accepted, end the threads."""
        if not self._started:
            return None
        end = time.monotonic() + grace_s
        await asyncio.gather(self._http.stop(grace_s / 4), self._grpc.stop(grace_s / 4))
        await asyncio.to_thread(self._spool.stop)
        left = await asyncio.to_thread(self._writer.drain, max(0.1, end - time.monotonic()))
        ended = await asyncio.to_thread(self._assembler.stop, max(0.5, end - time.monotonic()))
        if left:
            megabytes = self._spool.bytes / 1e6
            return (
                f"{left} segments ({megabytes:.1f} MB) are left in the spool; "
                "they will be stored at the next start"
            )
        return None if ended else "the assembler did not end in time; it goes on at the next start"


def _recent_keys(store: Store, leftovers: list[Sealed]) -> set[bytes]:
    """Keys of the bodies of the last minutes, from the spool and from the store."""
    keys = {
        body_key(frame.project, frame.digest)
        for sealed in leftovers
        for frame in frames_of(sealed.path)
    }
    try:
        rows = store.rows(query("spans_recent_bodies"), {"seconds": int(WINDOW_SECONDS)})
    except StagewatchError as error:
        # Spans are taken without the store too; a retry across this restart may come twice and
        # is then told apart by span id on read.
        log.warning("recent bodies are not known", extra={"why": str(error)})
        return keys
    return keys | {body_key(row["project"], bytes.fromhex(row["digest"])) for row in rows}


def _tls(settings: Settings) -> tuple[ssl.SSLContext | None, grpc.ServerCredentials | None]:
    if not settings.tls_cert:
        return None, None
    try:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(settings.tls_cert, settings.tls_key or None)
        cert, key = Path(settings.tls_cert).read_bytes(), Path(settings.tls_key).read_bytes()
        ca = None
        if settings.tls_client_ca:
            context.load_verify_locations(settings.tls_client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
            ca = Path(settings.tls_client_ca).read_bytes()
    except (OSError, ssl.SSLError) as error:
        raise SettingsError(
            f"TLS files cannot be used ({error}); check STAGEWATCH_TLS_CERT, STAGEWATCH_TLS_KEY "
            "and STAGEWATCH_TLS_CLIENT_CA"
        ) from None
    credentials = grpc.ssl_server_credentials(
        [(key, cert)], root_certificates=ca, require_client_auth=ca is not None
    )
    return context, credentials
