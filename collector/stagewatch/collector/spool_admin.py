"""What an operator can do with the spool while no collector runs: look, put back, throw away."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from stagewatch.collector.segments import (
    SEALED_SUFFIX,
    Sealed,
    frames_of,
    sealed_segments,
    sync_folder,
)
from stagewatch.core.errors import NotFoundError


@dataclass(frozen=True, slots=True)
class SpoolItem:
    """One segment. `state` is "waiting" or "dead"; `reason` says why a dead one is."""

    name: str
    state: str
    signal: str
    bytes: int
    bodies: int
    projects: tuple[str, ...]
    received_at: datetime | None
    reason: str = ""


def _spool(data_dir: Path) -> Path:
    return data_dir / "spool"


def _item(sealed: Sealed, state: str, reason: str = "") -> SpoolItem:
    frames = frames_of(sealed.path)
    first = min((frame.received_ns for frame in frames), default=None)
    return SpoolItem(
        name=sealed.token,
        state=state,
        signal=sealed.signal,
        bytes=sealed.size,
        bodies=len(frames),
        projects=tuple(sorted({frame.project for frame in frames})),
        received_at=None if first is None else datetime.fromtimestamp(first / 1e9, UTC),
        reason=reason,
    )


def _reason(path: Path) -> str:
    try:
        return str(json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))["reason"])
    except (OSError, ValueError, KeyError):
        return ""


def list_spool(data_dir: Path) -> list[SpoolItem]:
    """Every sealed segment, waiting ones first, oldest first."""
    folder = _spool(data_dir)
    waiting = [_item(sealed, "waiting") for sealed in sealed_segments(folder)]
    dead = [
        _item(sealed, "dead", _reason(sealed.path)) for sealed in sealed_segments(folder / "dead")
    ]
    return waiting + dead


def replay_dead(data_dir: Path, name: str | None = None) -> list[str]:
    """Put dead segments (all, or the one of this name) back in the queue for the next start.

    Raises:
        NotFoundError: there is no dead segment of this name.
    """
    folder = _spool(data_dir)
    chosen = _dead(data_dir, name)
    for sealed in chosen:
        sealed.path.rename(folder / sealed.path.name)
        sealed.path.with_suffix(".json").unlink(missing_ok=True)
    if chosen:
        sync_folder(folder)
    return [sealed.token for sealed in chosen]


def drop_dead(data_dir: Path, name: str | None = None) -> list[str]:
    """Delete dead segments (all, or the one of this name) for good; waiting ones are never deleted.

    Raises:
        NotFoundError: there is no dead segment of this name.
    """
    chosen = _dead(data_dir, name)
    for sealed in chosen:
        sealed.path.unlink()
        sealed.path.with_suffix(".json").unlink(missing_ok=True)
    return [sealed.token for sealed in chosen]


def _dead(data_dir: Path, name: str | None) -> list[Sealed]:
    found = sealed_segments(_spool(data_dir) / "dead")
    if name is None:
        return found
    wanted = name.removesuffix(SEALED_SUFFIX)
    chosen = [sealed for sealed in found if sealed.token == wanted]
    if not chosen:
        raise NotFoundError(f"no dead segment {name!r}; 'stagewatch spool list' shows them")
    return chosen
