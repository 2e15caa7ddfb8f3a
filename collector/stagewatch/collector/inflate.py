"""Content encodings, inflated piece by piece so that a bomb is stopped at the limit."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import zstandard

from stagewatch.collector.refusal import RefusedError, bad_request, too_large, unsupported

Bytes = bytes | bytearray

_GZIP = 16 + zlib.MAX_WBITS
_MAX_ZSTD_WINDOW = 1 << 27
_ZSTD_STEP = 256


def _too_large(limit: int) -> RefusedError:
    return too_large(f"the body inflates to more than {limit} bytes")


def _zlib(data: Bytes, limit: int, wbits: int) -> bytes:
    parts: list[bytes] = []
    room = limit + 1
    rest: Bytes = data
    while rest:
        inflater = zlib.decompressobj(wbits)
        part = inflater.decompress(rest, room)
        room -= len(part)
        if room <= 0:
            raise _too_large(limit)
        if not inflater.eof:
            raise bad_request("the compressed body ends too early")
        parts.append(part)
        # A gzip body may be several members in a row.
        rest = inflater.unused_data
    return b"".join(parts) if len(parts) != 1 else parts[0]


def _gunzip(data: Bytes, limit: int) -> bytes:
    return _zlib(data, limit, _GZIP)


def _deflate(data: Bytes, limit: int) -> bytes:
    # "deflate" means zlib's format (RFC 9110 8.4.1.2), but some senders leave its header out.
    try:
        return _zlib(data, limit, zlib.MAX_WBITS)
    except zlib.error:
        return _zlib(data, limit, -zlib.MAX_WBITS)


def _zstd(data: Bytes, limit: int) -> bytes:
    out = bytearray()
    rest: Bytes | memoryview = memoryview(data)
    while rest:
        inflater = zstandard.ZstdDecompressor(max_window_size=_MAX_ZSTD_WINDOW).decompressobj()
        at = 0
        while not inflater.eof:
            # A block of 128 KiB may stand in 4 bytes: small steps bound what one step yields.
            step = rest[at : at + _ZSTD_STEP]
            if not step:
                raise bad_request("the compressed body ends too early")
            out += inflater.decompress(step)
            at += len(step)
            if len(out) > limit:
                raise _too_large(limit)
        # A body may be several frames in a row.
        rest = rest[at - len(inflater.unused_data) :]
    return bytes(out)


_DECODERS: dict[str, Callable[[Bytes, int], bytes]] = {
    "gzip": _gunzip,
    "x-gzip": _gunzip,
    "deflate": _deflate,
    "zstd": _zstd,
}


def known_encoding(encoding: str) -> str:
    """The encoding in lower case, "" for identity.

    Raises:
        RefusedError: 415, not one of identity, gzip, deflate, zstd.
    """
    name = encoding.strip().lower()
    if name in {"", "identity"}:
        return ""
    if name not in _DECODERS:
        raise unsupported("Content-Encoding: use identity, gzip, deflate or zstd")
    return name


def inflate(encoding: str, data: Bytes, limit: int) -> Bytes:
    """The body behind `encoding` (as `known_encoding` gives it), at most `limit` bytes.

    Raises:
        RefusedError: 413 when it inflates to more, 400 when it is not what the encoding says.
    """
    if not encoding:
        return data
    try:
        return _DECODERS[encoding](data, limit)
    except (zlib.error, zstandard.ZstdError):
        raise bad_request(f"the body is not {encoding}") from None
