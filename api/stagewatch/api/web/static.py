"""Static files, served by ourselves: nothing is fetched from outside.

plotly.js comes from the installed `plotly` wheel (docs/adr/004-chart-library.md); it is
compressed once and cached for good under an address that holds its hash.
"""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from functools import cache
from importlib import resources

from fastapi import APIRouter, Request
from fastapi.responses import Response

from stagewatch.core.errors import NotFoundError

router = APIRouter(include_in_schema=False)

# plotly.js inserts its rules through two <style> elements; these are the hashes of their text.
STYLE_HASHES = (
    "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=' "
    "'sha256-ji27qzEtxXZW+7dun6UwjHXJ18e6WAin1VvNtkzIE/o='"
)

_FOREVER = "public, max-age=31536000, immutable"


@cache
def _asset(name: str) -> tuple[bytes, str]:
    """The bytes of a file and its hash."""
    if name == "plotly.min.js":
        item = resources.files("plotly").joinpath("package_data", name)
    else:
        item = resources.files("stagewatch.api.web").joinpath("static", name)
    try:
        body = item.read_bytes()
    except (FileNotFoundError, IsADirectoryError):
        raise NotFoundError(f"no static file {name!r}") from None
    return body, hashlib.sha256(body).hexdigest()[:12]


@cache
def _zipped(name: str) -> bytes:
    return gzip.compress(_asset(name)[0], compresslevel=6, mtime=0)


def asset_url(name: str) -> str:
    """The address of a static file; it changes when the file does."""
    return f"/static/{_asset(name)[1]}/{name}"


@router.get("/static/{digest}/{name}")
def get_static(request: Request, digest: str, name: str) -> Response:
    """A static file, compressed when the browser can read it."""
    body, current = _asset(name)
    headers = {"cache-control": _FOREVER if digest == current else "no-cache"}
    headers["vary"] = "accept-encoding"
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    if len(body) > 1024 and "gzip" in request.headers.get("accept-encoding", ""):
        body = _zipped(name)
        headers["content-encoding"] = "gzip"
    return Response(body, headers=headers, media_type=kind)


@router.get("/favicon.ico")
def get_favicon() -> Response:
    """The icon."""
    return Response(_asset("icon.svg")[0], media_type="image/svg+xml")
