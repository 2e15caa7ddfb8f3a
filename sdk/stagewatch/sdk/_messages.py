"""Messages of a dialogue or a prompt: reading them, and writing them inside a cap."""

from __future__ import annotations

from collections.abc import Mapping

from stagewatch.sdk._content import Notes
from stagewatch.sdk._json import messages_json
from stagewatch.sdk._plain import plain_text
from stagewatch.sdk._responses import field_of, text_of

# LangChain's words for them.
_ROLES = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant"}
_MAX_ROLE = 64


def read_message(message: object) -> tuple[str, str]:
    """(role, text) of one message: a mapping, a `(role, text)` pair or a library's object."""
    if isinstance(message, (tuple, list)) and len(message) == 2:
        role, content = message
    elif isinstance(message, Mapping):
        role, content = message.get("role"), message.get("content")
    else:
        role = field_of(message, "role")
        role = field_of(message, "type") if role is None else role
        content = field_of(message, "content")
        if content is None:
            content = field_of(message, "text")
    # Enums of LlamaIndex and Haystack carry the word in `value`.
    value = getattr(role, "value", role) if type(role) is not str else role
    word = "user" if value is None else plain_text(value)[:_MAX_ROLE] or "user"
    return _ROLES.get(word, word), text_of(content) or ""


def fitting_messages(
    rows: list[tuple[str, str]], key: str, cap: int, notes: Notes, finish_reason: str | None = None
) -> str | None:
    """`messages_json` of the rows in at most `cap` characters: texts are shortened evenly first,
    then the oldest left out. None when not even the newest fits, for no list is not an empty one.
    """
    written = messages_json(rows, finish_reason)
    if len(written) <= cap:
        return written
    notes.cut.append(f"{key}:{len(written)}")
    while rows:
        share = cap // len(rows)
        while share:
            written = messages_json([(role, text[:share]) for role, text in rows], finish_reason)
            if len(written) <= cap:
                return written
            share = share * 3 // 4 if share > 16 else 0
        rows = rows[len(rows) // 4 + 1 :]
    return None
