"""One process, any of the parts: build them, print where they listen, stop them in order.

Owns the signals: uvicorn would re-raise SIGTERM after its own shutdown, so nothing after it
would run and the spool would not be drained (docs/adr/002-engine-decode-and-spool.md).
"""

from __future__ import annotations

import asyncio
import importlib
import ipaddress
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TextIO

from prometheus_client import CollectorRegistry
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from stagewatch.core.auth import ANY_PROJECT, Auth
from stagewatch.core.clock import SystemClock
from stagewatch.core.errors import SettingsError
from stagewatch.core.service import Context, Service
from stagewatch.core.settings import Settings
from stagewatch.core.store import migrate, open_store

log = logging.getLogger("stagewatch.run")

PARTS = ("collector", "scorer", "api")
STOP_GRACE_S = 10.0


def is_loopback(host: str) -> bool:
    """True when only this machine can reach `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _registry() -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=True)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


def _first_key(auth: Auth, settings: Settings, out: TextIO) -> None:
    """Beyond loopback a key is a must: print the first admin key once."""
    if is_loopback(settings.host) or settings.allow_keyless or auth.list():
        return
    _, key = auth.create("first admin", ANY_PROJECT, ["admin"])
    print(f"first admin key (shown once, keep it): {key}", file=out, flush=True)


def _check_host(settings: Settings) -> None:
    """Before anything is made: a key shown once must not be spent on a start that fails."""
    try:
        socket.getaddrinfo(settings.host, None)
    except OSError:
        raise SettingsError(f"STAGEWATCH_HOST: {settings.host!r} is no address here") from None


def build_context(settings: Settings, out: TextIO) -> Context:
    """The store opened and migrated, the keys at hand.

    Raises:
        EngineBusyError, StoreUnavailableError, StoreError: as `open_store` and `migrate`.
    """
    _check_host(settings)
    store = open_store(settings)
    migrate(store)
    clock = SystemClock()
    keyless_allowed = is_loopback(settings.host) or settings.allow_keyless
    auth = Auth(store, clock, keyless=keyless_allowed and not _has_keys(store, clock))
    _first_key(auth, settings, out)
    context = Context(settings=settings, store=store, clock=clock, registry=_registry())
    context.shared["auth"] = auth
    return context


def _has_keys(store: object, clock: SystemClock) -> bool:
    return bool(Auth(store, clock, keyless=False).list())  # type: ignore[arg-type]


def build_services(context: Context, parts: Sequence[str]) -> list[Service]:
    """The services of these parts, loaded by name so that one process imports only its own."""
    # gRPC's core writes lines of its own to stderr; what is wrong is said by our errors.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    services: list[Service] = []
    for part in parts:
        if part not in PARTS:
            raise SettingsError(f"unknown part {part!r}: use {', '.join(PARTS)}")
        build: Callable[[Context], Service] = importlib.import_module(
            f"stagewatch.{part}.service"
        ).build
        services.append(build(context))
    return services


async def _serve(
    services: Sequence[Service],
    out: TextIO,
    ready: Callable[[dict[str, str]], None] | None,
    addresses: dict[str, str],
) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    started: list[Service] = []
    left: list[str] = []
    try:
        for service in services:
            addresses.update(await service.start())
            started.append(service)
        for name, address in addresses.items():
            print(f"{name:<12} {address}", file=out, flush=True)
        if ready:
            ready(addresses)
        print("ready", file=out, flush=True)
        await stop.wait()
        print("stopping …", file=out, flush=True)
    finally:
        # Listeners first, in the order of the data, so nothing new comes in while parts drain.
        for service in started:
            said = await service.stop(STOP_GRACE_S)
            if said:
                left.append(said)
    for sentence in left:
        print(sentence, file=out, flush=True)
    return 0


def _stop_before_ready(number: int, _: object) -> None:
    """SIGTERM while the store opens: nothing listens yet, so nothing has to drain."""
    print("stopped before it was ready", file=sys.stderr, flush=True)
    raise SystemExit(128 + number)


def run(
    settings: Settings,
    parts: Sequence[str],
    out: TextIO = sys.stdout,
    ready: Callable[[dict[str, str]], None] | None = None,
) -> int:
    """Run `parts` until SIGINT or SIGTERM; the exit code.

    Raises:
        StagewatchError: a part could not start (port in use, folder busy, …).
    """
    signal.signal(signal.SIGTERM, _stop_before_ready)
    context = build_context(settings, out)
    try:
        services = build_services(context, parts)
        # Parts tell people where the others listen; a port of 0 is known only when it does.
        addresses = context.shared.setdefault("addresses", {})
        return _loop_runner(_serve(services, out, ready, addresses))
    finally:
        context.store.close()


def _loop_runner(main: Coroutine[Any, Any, int]) -> int:
    try:
        import uvloop  # noqa: PLC0415 - not available everywhere
    except ImportError:
        return asyncio.run(main)
    return int(uvloop.run(main))
