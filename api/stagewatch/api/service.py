"""The API and UI as a service: uvicorn inside our loop, with our own signal handling."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import Generator, Mapping

import anyio.to_thread
import uvicorn

from stagewatch.api.app import build_app
from stagewatch.api.running import desk_of
from stagewatch.core.errors import PortInUseError
from stagewatch.core.service import Context
from stagewatch.scorer.probes.desk import desk_of as probe_desk

# Each worker thread holds an engine handle of its own (core/store/client.py).
_THREADS = 8


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals to the process that runs us."""
        yield


class ApiService:
    """Serves `build_app(context)` on the API port."""

    name = "api"

    def __init__(self, context: Context) -> None:
        self._context = context
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> Mapping[str, str]:
        """Listen, and return the address of the UI and API.

        Raises:
            PortInUseError: the port is taken or may not be bound.
        """
        settings = self._context.settings
        listener = bind(settings.host, settings.port, "STAGEWATCH_PORT")
        anyio.to_thread.current_default_thread_limiter().total_tokens = _THREADS
        config = uvicorn.Config(
            build_app(self._context),
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=5,
            timeout_keep_alive=30,
        )
        self._server = _Server(config)
        self._task = asyncio.create_task(self._server.serve(sockets=[listener]))
        while not self._server.started:
            if self._task.done():
                self._task.result()
            await asyncio.sleep(0.01)
        port = listener.getsockname()[1]
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        return {"api": f"http://{host}:{port}"}

    async def stop(self, grace_s: float) -> str | None:
        """Finish the requests under way."""
        if self._server is None or self._task is None:
            return None
        await asyncio.to_thread(desk_of(self._context).close, grace_s)
        await asyncio.to_thread(probe_desk(self._context).close, grace_s)
        self._server.should_exit = True
        try:
            await asyncio.wait_for(self._task, grace_s)
        except TimeoutError:
            return "some API requests were still running and were dropped"
        return None


def bind(host: str, port: int, setting: str) -> socket.socket:
    """A listening TCP socket.

    Raises:
        PortInUseError: naming the port and the setting that changes it.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortInUseError(
                f"port {port} on {host} is in use: stop what holds it or set {setting}"
            ) from None
        raise PortInUseError(
            f"cannot listen on {host}:{port}: {error.strerror}; set STAGEWATCH_HOST or {setting}"
        ) from None
    listener.listen(512)
    listener.setblocking(False)
    return listener


def build(context: Context) -> ApiService:
    """The service; see `stagewatch.core.service`."""
    return ApiService(context)
