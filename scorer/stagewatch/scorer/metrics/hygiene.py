"""Index hygiene: old versions that should not have been there. Computed from the trace alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from stagewatch.core.model import Chunk
from stagewatch.scorer.results import Result, Scored

_DOTTED = re.compile(r"[vV]?\.?\s*(\d+(?:\.\d+)*)")
_RUN = re.compile(r"\d+")

VersionOrder = Callable[[str, str], int | None]
"""A project's own rule: negative when the first version is older, None when it cannot tell."""


def compare_versions(a: str, b: str) -> int | None:
    """Natural order of two version strings of one shape: -1, 0, 1, or None for other shapes.

    `v6` < `v7` < `v10`, `1.9` < `1.10` < `1.10.1`, `2024-09-01` < `2025-01-15`. Two shapes
    (`v6` and `2024-09`) or two names (`draft` and `final`) have no order.
    """
    left, right = a.strip(), b.strip()
    if left == right:
        return 0
    one, two = _DOTTED.fullmatch(left), _DOTTED.fullmatch(right)
    if one and two:
        x = tuple(int(part) for part in one.group(1).split("."))
        y = tuple(int(part) for part in two.group(1).split("."))
        # 1.2 and 1.2.0 are the same version.
        width = max(len(x), len(y))
        x, y = x + (0,) * (width - len(x)), y + (0,) * (width - len(y))
    elif _RUN.sub("#", left) == _RUN.sub("#", right) and _RUN.search(left):
        x = tuple(int(part) for part in _RUN.findall(left))
        y = tuple(int(part) for part in _RUN.findall(right))
    else:
        return None
    return (x > y) - (x < y)


def parse_moment(text: str | None) -> datetime | None:
    """An ISO 8601 date or time as aware UTC; None when absent or of another form."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def expired(chunk: Chunk, at: datetime) -> bool | None:
    """Whether the chunk's validity dates exclude the moment `at`; None without such dates.

    `valid_to` is the end: a date alone is valid through that whole day.
    """
    start, end = parse_moment(chunk.valid_from), parse_moment(chunk.valid_to)
    if start is None and end is None:
        return None
    if start is not None and at < start:
        return True
    if end is None:
        return False
    whole_day = chunk.valid_to is not None and len(chunk.valid_to.strip()) == len("2025-01-31")
    return at.date() > end.date() if whole_day else at >= end


def superseded_flags(
    chunks: Sequence[Chunk],
    at: datetime,
    *,
    among: Sequence[Chunk] = (),
    order: VersionOrder | None = None,
    newest: Mapping[str, str] | None = None,
) -> list[bool]:
    """For each chunk whether a newer version of its document was known or its time was over.

    The first that can tell decides: the project's rule (what the trace itself says of the
    chunk, `newest` as document → current version, `order`), the validity dates, the natural
    order of the versions seen in this turn (`chunks` and `among`). When nothing can tell, the
    chunk counts as current, and two versions still show as `version_conflict`.
    """
    seen: dict[str, set[str]] = {}
    for chunk in (*chunks, *among):
        if chunk.document_id and chunk.version:
            seen.setdefault(chunk.document_id, set()).add(chunk.version)
    return [_superseded(chunk, at, seen, order, newest or {}) for chunk in chunks]


def _superseded(
    chunk: Chunk,
    at: datetime,
    seen: Mapping[str, set[str]],
    order: VersionOrder | None,
    newest: Mapping[str, str],
) -> bool:
    if chunk.superseded is not None:
        return chunk.superseded
    document, version = chunk.document_id, chunk.version
    if document and version:
        current = newest.get(document)
        if current is not None:
            return version != current
        if order is not None:
            found = [order(version, other) for other in seen[document] if other != version]
            if any(sign is not None for sign in found):
                return any(sign is not None and sign < 0 for sign in found)
    by_date = expired(chunk, at)
    if by_date is not None:
        return by_date
    if document and version:
        signs = [compare_versions(version, other) for other in seen[document]]
        return any(sign is not None and sign < 0 for sign in signs)
    return False


def version_conflict(window: Sequence[Chunk]) -> Result:
    """1 when the window holds two versions of one document, else 0 (1 is the bad value)."""
    versions: dict[str, set[str]] = {}
    for chunk in window:
        if chunk.document_id and chunk.version:
            versions.setdefault(chunk.document_id, set()).add(chunk.version.strip())
    mixed = sorted(document for document, found in versions.items() if len(found) > 1)
    note = f"{len(mixed)} document(s) in more than one version" if mixed else "one version each"
    return Scored(1.0 if mixed else 0.0, note=note)


def stale_context(superseded: Sequence[bool]) -> Result:
    """1 when the window holds a superseded or expired version, else 0 (1 is the bad value)."""
    positions = [str(i) for i, old in enumerate(superseded, start=1) if old]
    note = (
        f"superseded at window position {', '.join(positions)}"
        if positions
        else "no superseded version in the window"
    )
    return Scored(1.0 if positions else 0.0, note=note)


def answered_from_superseded(
    evidence_positions: Sequence[Sequence[int]], superseded: Sequence[bool]
) -> Result:
    """1 when a claim rests on a superseded version alone, else 0 (1 is the bad value).

    Args:
        evidence_positions: for each supported claim the 1-based window positions of the chunks
            that support it. A claim that a current chunk supports as well rests on that one.
        superseded: one flag a window chunk.
    """
    old = sum(
        bool(positions) and all(superseded[position - 1] for position in positions)
        for positions in evidence_positions
    )
    supported = len(evidence_positions)
    if old:
        return Scored(1.0, note=f"{old} of {supported} supported claim(s) rest on one")
    if not any(superseded):
        return Scored(0.0, note="no superseded version in the window")
    return Scored(0.0, note=f"none of {supported} supported claim(s) rests on one")
