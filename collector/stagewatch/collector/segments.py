"""Segment files: their names, tokens, recovery after a crash, and cutting them apart.

`traces-00000007-<number>.open` is being written, `….next` will be, `….free` was stored (files.py).
`traces-<first received, ns>-<token>.seg` is sealed: it is never changed again, and the token, made
from its frames, is its deduplication token in the store. So a segment that is inserted twice (a
crash after the insert, an answer that was lost) counts once.
"""

from __future__ import annotations

import json
import mmap
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import xxhash

from stagewatch.collector.frames import Frame, Piece, TornFrameError, pieces, unpack

OPEN_SUFFIX = ".open"
NEXT_SUFFIX = ".next"
FREE_SUFFIX = ".free"
SEALED_SUFFIX = ".seg"
_SEALED = re.compile(r"(?P<signal>traces|logs)-(?P<at>\d{20})-(?P<token>[0-9a-f]{32})\.seg")
_OPEN = re.compile(r"(?P<signal>traces|logs)-\d+-(?P<number>[0-9a-f]{16})\.(open|next)")


@dataclass(frozen=True, slots=True)
class Sealed:
    """A finished segment on disk."""

    path: Path
    signal: str
    size: int

    @property
    def token(self) -> str:
        """Its deduplication token: the whole name, so signal and time are part of it."""
        return self.path.stem


class TokenHash:
    """Running hash over the frames of a segment: digests of bodies, projects and times."""

    def __init__(self) -> None:
        self._hash = xxhash.xxh3_128()
        self.first_ns = 0

    def add(self, frame: Frame, packed: bytes) -> None:
        """Count one more frame in; `packed` is its bytes."""
        self.first_ns = self.first_ns or frame.received_ns
        self._hash.update(packed)

    def name(self, signal: str) -> str:
        """File name of the sealed segment."""
        return f"{signal}-{self.first_ns:020d}-{self._hash.hexdigest()}{SEALED_SUFFIX}"


def sync_folder(folder: Path) -> None:
    """Make renames and unlinks in `folder` durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _mapped(path: Path) -> Iterator[memoryview]:
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            yield memoryview(b"")
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            view = memoryview(mapped)
            try:
                yield view
            finally:
                view.release()


def sealed_segments(folder: Path) -> list[Sealed]:
    """The sealed segments of a folder, oldest first."""
    found = []
    for path in folder.glob(f"*{SEALED_SUFFIX}"):
        match = _SEALED.fullmatch(path.name)
        if match:
            found.append(Sealed(path, match["signal"], path.stat().st_size))
    return sorted(found, key=lambda sealed: sealed.path.name.split("-", 1)[1])


def recover(folder: Path) -> list[Sealed]:
    """Seal what a killed process left open, without the torn tail; every sealed segment there is.

    A body in the torn tail was never acknowledged: the answer goes out after fdatasync. Behind it
    may stand whole frames of a segment that was in this file before: they bear its number.
    """
    for path in [*folder.glob("*.tmp"), *folder.glob(f"*{FREE_SUFFIX}")]:
        path.unlink()
    for path in sorted([*folder.glob(f"*{OPEN_SUFFIX}"), *folder.glob(f"*{NEXT_SUFFIX}")]):
        match = _OPEN.fullmatch(path.name)
        if match is None:
            continue
        number = int(match["number"], 16)
        token = TokenHash()
        end = 0
        with _mapped(path) as view:
            for piece in pieces(view):
                if piece.frame.segment != number:
                    break
                token.add(piece.frame, bytes(view[piece.start : piece.body]))
                end = piece.end
        if end == 0:
            path.unlink()
            continue
        with path.open("r+b") as file:
            file.truncate(end)
            os.fsync(file.fileno())
        path.rename(folder / token.name(match["signal"]))
    sync_folder(folder)
    return sealed_segments(folder)


def frames_of(path: Path) -> list[Frame]:
    """The frames of a sealed segment, without reading the bodies."""
    found = []
    with _mapped(path) as view:
        at = 0
        while at < len(view):
            try:
                frame, body = unpack(view, at)
            except TornFrameError:
                break
            found.append(frame)
            at = body + frame.length
    return found


def _write(folder: Path, signal: str, view: memoryview, part: Iterable[Piece]) -> Sealed:
    token = TokenHash()
    temporary = folder / f"{signal}-{os.getpid()}.tmp"
    with temporary.open("wb") as file:
        for piece in part:
            token.add(piece.frame, bytes(view[piece.start : piece.body]))
            file.write(view[piece.start : piece.end])
        file.flush()
        os.fsync(file.fileno())
        size = file.tell()
    target = folder / token.name(signal)
    temporary.rename(target)
    return Sealed(target, signal, size)


def halve(sealed: Sealed) -> list[Sealed]:
    """Cut a segment in two by bodies and return the halves; empty when it cannot be cut.

    The halves exist, durably, before the whole is unlinked. A crash between leaves both; the whole
    is then refused again and cut into the very same halves.
    """
    folder = sealed.path.parent
    with _mapped(sealed.path) as view:
        parts = list(pieces(view))
        if len(parts) < 2:
            return []
        middle = len(parts) // 2
        halves = [
            _write(folder, sealed.signal, view, parts[:middle]),
            _write(folder, sealed.signal, view, parts[middle:]),
        ]
    sync_folder(folder)
    sealed.path.unlink()
    sync_folder(folder)
    return halves


def bury(sealed: Sealed, reason: str) -> None:
    """Move a segment that can never be stored to `dead/`, with its reason beside it."""
    grave = sealed.path.parent / "dead"
    grave.mkdir(exist_ok=True, mode=0o700)
    note = grave / f"{sealed.path.stem}.json"
    note.write_text(json.dumps({"reason": reason, "bytes": sealed.size}), encoding="utf-8")
    sealed.path.rename(grave / sealed.path.name)
    sync_folder(grave)
    sync_folder(sealed.path.parent)
