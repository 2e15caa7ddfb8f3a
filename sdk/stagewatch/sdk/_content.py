"""What text leaves the process: per field on, hashed or off; a redaction callback; size caps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from stagewatch.sdk._guard import guard
from stagewatch.sdk._plain import plain_text

Capture = Literal["on", "hashed", "off"]
Redact = Callable[[str, str], str | None]

REDACTED_TEXT = "__REDACTED__"
"""What stands for text withheld inside a list, where leaving it out would shift the ranks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """Which text is captured. Ids, scores, ranks, models and token counts are always sent.

    Each field is `on`, `hashed` (a SHA-256 of the text: equal texts stay equal, nothing can be
    read) or `off`. `redact(field, text)` sees every text that is `on` and returns what may be
    sent, or None to withhold it; if it raises, the text is withheld. The caps are characters.
    """

    question: Capture = "on"
    history: Capture = "on"
    documents: Capture = "on"
    metadata: Capture = "on"
    messages: Capture = "on"
    answer: Capture = "on"
    error: Capture = "on"
    user_id: Capture = "on"
    redact: Redact | None = None
    max_text: int = 32_768
    max_document: int = 16_384
    max_metadata: int = 2_048
    max_documents: int = 200
    max_json: int = 1_048_576

    @classmethod
    def all(cls, capture: Capture) -> Content:
        """The same setting for every field."""
        return cls(
            question=capture,
            history=capture,
            documents=capture,
            metadata=capture,
            messages=capture,
            answer=capture,
            error=capture,
            user_id=capture,
        )

    def limited_to(self, characters: int | None) -> Content:
        """The same settings under a value length limit: longer values would be cut mid-JSON."""
        if characters is None or characters <= 0:
            return self
        return replace(
            self,
            max_text=min(self.max_text, characters),
            max_document=min(self.max_document, characters),
            max_json=min(self.max_json, characters),
        )


def digest(text: str) -> str:
    """`sha256:` and 32 hex digits of the text."""
    import hashlib  # noqa: PLC0415 - slow to import, and few apps hash

    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class Notes:
    """What was cut or withheld while one span was filled."""

    __slots__ = ("cut", "redacted")

    def __init__(self) -> None:
        self.cut: list[str] = []
        self.redacted: list[str] = []

    def size(self) -> tuple[int, int]:
        """How many of each there are."""
        return len(self.cut), len(self.redacted)

    def since(self, before: tuple[int, int]) -> Notes:
        """What was noted since the size was `before`."""
        notes = Notes()
        notes.cut, notes.redacted = self.cut[before[0] :], self.redacted[before[1] :]
        return notes

    def add(self, other: Notes, instead_of: str, name: str) -> None:
        """Take over what `other` noted, about `name` where it is about `instead_of`."""
        self.cut += [note.replace(instead_of, name, 1) for note in other.cut]
        self.redacted += [note.replace(instead_of, name, 1) for note in other.redacted]


def admit(
    content: Content,
    field: str,
    key: str,
    text: object,
    notes: Notes,
    cap: int | None = None,
    length: int = 0,
) -> str | None:
    """`text` as it may be sent under attribute `key`, or None when it may not.

    Args:
        content: The settings.
        field: Name of the setting that governs this text, e.g. "answer".
        key: Attribute it goes into; noted when the text is cut or withheld.
        text: The text itself; anything else is taken as its text.
        notes: Gets one entry for a cut or a withheld text.
        cap: Most characters; `content.max_text` when None.
        length: Its characters before it got here, when it was shortened already.
    """
    capture: Capture = getattr(content, field)
    if type(text) is not str:
        text = plain_text(text)
    if capture != "on":
        notes.redacted.append(key)
        return digest(text) if capture == "hashed" else None
    if content.redact is not None:
        seen = _redacted(content.redact, field, text)
        if seen is None:
            notes.redacted.append(key)
            return None
        if seen != text:
            notes.redacted.append(key)
        text = seen
    limit = content.max_text if cap is None else cap
    if len(text) > limit or length > limit:
        notes.cut.append(f"{key}:{max(length, len(text))}")
        return text[:limit]
    return text


def _redacted(redact: Redact, field: str, text: str) -> str | None:
    try:
        seen = redact(field, text)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - a callback of the app's inside our own work
        # Failing closed: a broken redactor must not let private text out.
        guard.count(
            "redact", "withheld a %s: the redact callback raised %s", field, type(error).__name__
        )
        return None
    return plain_text(seen) if isinstance(seen, str) else None
