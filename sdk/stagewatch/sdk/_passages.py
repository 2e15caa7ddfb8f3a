"""Writing ranked passages as one JSON list, inside the caps and the content settings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from stagewatch.sdk._content import REDACTED_TEXT, Content, Notes, admit
from stagewatch.sdk._documents import PLAIN_TEXTS, SOURCE_NAMES
from stagewatch.sdk._json import ROW_STARTS, escaped_together, quote, ranked_json
from stagewatch.sdk._plain import plain_text

_PLAIN = frozenset({str, int, float, bool, type(None)})
_DICTS, _TEXTS = {dict}, {str}


def _plain_metadata(metadata: Mapping[str, Any], cap: int) -> tuple[dict[str, Any], bool]:
    kept: dict[str, Any] = {}
    left = cap
    for key, value in metadata.items():
        plain = value if type(value) in _PLAIN else plain_text(value)
        if isinstance(plain, float) and not math.isfinite(plain):
            plain = None
        name = plain_text(key)
        left -= len(name) + len(str(plain)) + 6
        if left < 0:
            return kept, True
        kept[name] = plain
    return kept, False


def untouched_json(result: object, content: Content) -> str | None:
    """What `documents_json` makes of what `read_documents` reads, in one go, for a list of dicts
    that have our own names and plain values, of which nothing is to be cut or withheld. None for
    any other result.
    """
    if type(result) is not list or content.documents != "on" or content.redact is not None:
        return None
    if not 0 < len(result) <= min(len(ROW_STARTS), content.max_documents):
        return None
    try:
        written = _untouched(result, content.max_document)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # noqa: BLE001 - a name of another class; reading will tell
        return None
    return written if written is not None and len(written) <= content.max_json else None


def _untouched(items: list[Any], cap: int) -> str | None:
    if set(map(type, items)) != _DICTS:
        return None
    texts = [item.get("content") for item in items]
    if set(map(type, texts)) != _TEXTS or max(map(len, texts)) > cap:
        return None
    parts: list[str] = []
    for item, start, text in zip(items, ROW_STARTS, escaped_together(texts), strict=False):
        parts.append(start)
        for name, value in item.items():
            if type(value) is str and value and name in PLAIN_TEXTS:
                if name == "content":
                    parts += (',"content":"', text, '"')
                else:
                    parts.append(f',"{name}":{quote(value)}')
            elif name == "score" and type(value) is float and math.isfinite(value):
                parts.append(f',"score":{value!r}')
            else:
                return None
    parts.append("}]")
    return "".join(parts)


def documents_json(
    documents: list[dict[str, Any]], key: str, content: Content, notes: Notes
) -> str | None:
    """The documents as one JSON list with 1-based ranks, inside the caps of `content`.

    A text that is too long is shortened and keeps its true length in `cut`; when the list as a
    whole is too long, texts are shortened evenly first and only then the lowest ranks left out:
    ids, ranks and scores of the best documents always survive. None when not even the first
    fits: an empty list would say that nothing was found.
    """
    kept = documents[: content.max_documents]
    if len(kept) < len(documents):
        notes.cut.append(f"{key}:{len(documents)} documents")
        if not kept:
            return None
    is_open = content.documents == "on" and content.redact is None
    rows = []
    for rank, fields in enumerate(kept, start=1):
        row = fields
        if not is_open or len(fields["content"]) > content.max_document:
            row = _admit_text(row, f"{key}[{rank}]", content, notes)
        if "metadata" in row:
            row = _metadata_row(row, f"{key}[{rank}].metadata", content, notes)
        rows.append(row)
    text = ranked_json(rows)
    if len(text) <= content.max_json:
        return text
    notes.cut.append(f"{key}:{len(text)}")
    written = _squeeze([dict(row) for row in rows], content.max_json)
    return None if written == "[]" else written


def _admit_text(fields: dict[str, Any], key: str, content: Content, notes: Notes) -> dict[str, Any]:
    text = fields["content"]
    shown = admit(content, "documents", key, text, notes, content.max_document)
    row = {**fields, "content": REDACTED_TEXT if shown is None else shown}
    if shown is not None and content.documents == "on" and len(shown) < len(text):
        row["cut"] = len(text)
    return row


def _metadata_row(
    fields: dict[str, Any], key: str, content: Content, notes: Notes
) -> dict[str, Any]:
    row = dict(fields)
    named = row.get("document_id")
    sources = [fields["metadata"].get(name) for name in SOURCE_NAMES]
    if named in [source for source in sources if type(source) is str]:
        # Taken from the metadata, so what holds for that holds for it.
        row["document_id"] = admit(content, "metadata", key, named, notes)
        if row["document_id"] is None:
            del row["document_id"]
    if content.metadata != "on":
        del row["metadata"]
        notes.redacted.append(key)
        return row
    row["metadata"], was_cut = _plain_metadata(row["metadata"], content.max_metadata)
    if was_cut:
        notes.cut.append(key)
    if content.redact is not None:
        shown = {
            name: admit(content, "metadata", key, value, notes) if isinstance(value, str) else value
            for name, value in row["metadata"].items()
        }
        row["metadata"] = {name: value for name, value in shown.items() if value is not None}
    return row


def _squeeze(rows: list[dict[str, Any]], cap: int) -> str:
    share = cap // max(1, len(rows))
    while True:
        for row in rows:
            text = row["content"]
            if len(text) > share:
                row.setdefault("cut", len(text))
                row["content"] = text[:share]
            if share == 0:
                row.pop("metadata", None)
        written = ranked_json(rows)
        if len(written) <= cap:
            return written
        if share == 0:
            if not rows:
                return written
            rows = rows[: len(rows) * 3 // 4]
        share = share * 3 // 4 if share > 16 else 0
