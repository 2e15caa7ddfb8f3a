"""How a verb reaches the API: over HTTP to a running server, else in this process.

Order: --url or STAGEWATCH_URL; the server that runs on the same data folder (it leaves its
address there); else the engine is opened here and the same API application is called without a
socket, so every verb has one code path.
"""

from __future__ import annotations

import asyncio
import fcntl
import importlib
import json
import os
import urllib.error
import urllib.parse
import urllib.request
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stagewatch.core.cli.common import add_json_option, add_settings_options, settings_of
from stagewatch.core.cli.serve import server_file
from stagewatch.core.errors import StagewatchError, StoreUnavailableError

_TIMEOUT_S = 120


def add_link_options(parser: ArgumentParser) -> None:
    """Add --url, --project, --json and the settings options."""
    add_settings_options(parser)
    parser.add_argument(
        "--url", help="a running server (STAGEWATCH_URL; default: the one on this data folder)"
    )
    parser.add_argument("--project", default=None, help="project (default: the key's own)")
    add_json_option(parser)


class RefusedError(StagewatchError):
    """The API answered with an error; `status` and `body` are its own."""

    def __init__(self, message: str, status: int, body: bytes = b"") -> None:
        super().__init__(message)
        self.status = status
        self.body = body


class Link:
    """Calls the API; close it when done."""

    def __init__(self, arguments: Namespace) -> None:
        self.base = named_server(arguments) or ""
        self.project: str | None = getattr(arguments, "project", None)
        self._key = os.environ.get("STAGEWATCH_API_KEY", "")
        self.person = os.environ.get("USER", "")
        """Whose doing it is where no key says so."""
        self.context: Any = None
        """The opened store and what goes with it, where no server was found; else None."""
        self._app: Any = None
        if not self.base:
            settings = settings_of(arguments)
            self.base = running_server(settings.data_dir) or ""
            if not self.base:
                self._open_here(settings)

    def _open_here(self, settings: Any) -> None:  # noqa: ANN401
        run = importlib.import_module("stagewatch.core.run")
        self.context = run.build_context(settings, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123
        # The person at this terminal owns the folder: no key is asked for.
        self.context.shared["auth"].keyless = True
        self._app = importlib.import_module("stagewatch.api.app").build_app(self.context)

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the engine if it was opened here."""
        if self.context is not None:
            self.context.store.close()
            self.context = None

    def raw(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        """The answer's bytes.

        Raises:
            RefusedError: the API said no; the message is its own.
            StoreUnavailableError: the server cannot be reached.
        """
        asked = {k: v for k, v in (query or {}).items() if v is not None}
        if self.project:
            asked.setdefault("project", self.project)
        target = path + ("?" + urllib.parse.urlencode(asked, doseq=True) if asked else "")
        headers = {"content-type": content_type, "accept": "application/json"}
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        else:
            headers["x-stagewatch-user"] = self.person
        if self._app is not None:
            status, answer = asyncio.run(_call_app(self._app, method, target, headers, body))
        else:
            status, answer = self._http(method, target, headers, body)
        if status >= 400:
            hint = " (commands take it from STAGEWATCH_API_KEY)" if status == 401 else ""
            raise RefusedError(_problem(status, answer) + hint, status, answer)
        return answer

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: object | None = None,
    ) -> Any:  # noqa: ANN401
        """The answer's JSON; raises as `raw`."""
        sent = json.dumps(body).encode() if body is not None else None
        answer = self.raw(method, f"/api/v1{path}", query=query, body=sent)
        return json.loads(answer) if answer else None

    def _http(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None
    ) -> tuple[int, bytes]:
        if not self.base.startswith(("http://", "https://")):
            raise StagewatchError(f"STAGEWATCH_URL: {self.base!r} is not an http(s) address")
        request = urllib.request.Request(  # noqa: S310 - scheme checked above
            self.base.rstrip("/") + target, data=body, headers=dict(headers), method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:  # noqa: S310
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()
        except (urllib.error.URLError, OSError) as error:
            reason = getattr(error, "reason", error)
            raise StoreUnavailableError(
                f"no stagewatch server answers at {self.base}: {reason}"
            ) from None


def _problem(status: int, answer: bytes) -> str:
    try:
        body = json.loads(answer)
        return f"{body.get('title', 'error')}: {body.get('detail', '')}".rstrip(": ")
    except (ValueError, AttributeError):
        return f"the server answered {status}"


def named_server(arguments: Namespace) -> str | None:
    """The server that --url or STAGEWATCH_URL names."""
    return arguments.url or os.environ.get("STAGEWATCH_URL") or None


def running_server(data_dir: Path) -> str | None:
    """Address of a live server on this data folder, from the file it left there."""
    try:
        body = json.loads(server_file(data_dir).read_text(encoding="utf-8"))
        # The file stays after a kill, and its process number may be somebody else's by now:
        # the folder's lock tells.
        with (data_dir / "lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return str(body["api"])
    except (OSError, ValueError, KeyError):
        return None


async def _call_app(
    app: Any,  # noqa: ANN401
    method: str,
    target: str,
    headers: Mapping[str, str],
    body: bytes | None,
) -> tuple[int, bytes]:
    """One request to an ASGI application without a socket (asgi.readthedocs.io, HTTP scope)."""
    path, _, query = target.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": urllib.parse.unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(k.encode(), v.encode()) for k, v in {"host": "localhost", **headers}.items()],
        "client": ("127.0.0.1", 0),
        "server": ("localhost", 80),
    }
    sent = False
    status = 500
    parts: list[bytes] = []

    async def receive() -> dict[str, Any]:
        nonlocal sent
        if sent:
            await asyncio.Event().wait()
        sent = True
        return {"type": "http.request", "body": body or b"", "more_body": False}

    async def send(message: Mapping[str, Any]) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = int(message["status"])
        elif message["type"] == "http.response.body":
            parts.append(message.get("body", b""))

    await app(scope, receive, send)
    return status, b"".join(parts)


def running_otlp(arguments: Namespace) -> str:
    """OTLP/HTTP address of the server on this data folder, else the settings' own."""
    settings = settings_of(arguments)
    try:
        body = json.loads(server_file(settings.data_dir).read_text(encoding="utf-8"))
        return str(body["otlp http"])
    except (OSError, ValueError, KeyError):
        return f"http://{settings.host}:{settings.otlp_http_port}"
