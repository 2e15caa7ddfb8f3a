"""Reading ranked passages from whatever a retriever returns, and writing them as one JSON list.

This is most of what a turn costs on the app's thread, so fields are found in one pass over what a
document has, not by asking it for every name it might have. Nothing of the app's is called.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from stagewatch.sdk._content import REDACTED_TEXT, Content, Notes, admit
from stagewatch.sdk._json import ranked_json

_NAMES = {
    "content": ("content", "page_content", "text", "document", "body", "passage"),
    "id": ("id", "chunk_id", "id_", "node_id", "_id", "uuid"),
    "document_id": ("document_id", "doc_id", "ref_doc_id", "parent_id", "source_id"),
    "version": ("version", "revision", "document_version"),
    "valid_from": ("valid_from",),
    "valid_to": ("valid_to",),
    "score": ("score", "relevance_score", "similarity", "@search.score"),
    "distance": ("distance", "_distance"),
    "score_kind": ("score_kind",),
    "metadata": ("metadata", "meta", "extra_info"),
    "inner": ("node", "document", "doc", "payload", "_source", "entity"),
}
_ALIASES = {
    name: (field, rank)
    for field, names in _NAMES.items()
    if field != "inner"
    for rank, name in enumerate(names)
}
_INNER = _NAMES["inner"]
_EVERY = tuple(dict.fromkeys(name for names in _NAMES.values() for name in names))
_WORDS = ("id", "document_id", "version", "valid_from", "valid_to")
_CANONICAL = frozenset({*_WORDS, "content", "score_kind"})
_LISTS = ("documents", "source_nodes", "nodes", "results", "matches", "points", "hits")
_PLAIN = (str, int, float, bool, type(None))


_class_names_of: dict[int, tuple[type, tuple[str, ...]]] = {}
_MAX_CLASSES = 256


def _class_names(kind: type) -> tuple[str, ...]:
    """Known names that instances have by their class: properties and slots."""
    known = _class_names_of.get(id(kind))
    if known is None or known[0] is not kind:
        if len(_class_names_of) >= _MAX_CLASSES:
            _class_names_of.clear()
        known = (kind, tuple(name for name in _EVERY if hasattr(kind, name)))
        _class_names_of[id(kind)] = known
    return known[1]


def _view(item: object) -> Mapping[str, Any] | None:
    """What a document has, as a mapping; None for what has no fields."""
    if isinstance(item, dict):
        return item
    if isinstance(item, Mapping):
        return dict(item)
    if isinstance(item, (*_PLAIN, list, tuple, bytes)):
        return None
    # Not getattr for every name: libraries' models take microseconds to say that there is none.
    found = dict(getattr(item, "__dict__", ()))
    for name in _class_names(type(item)):
        if name not in found:
            found[name] = getattr(item, name, None)
    return found or {name: getattr(item, name, None) for name in _EVERY}


def _number(value: object) -> float | None:
    if type(value) is float:
        return value if math.isfinite(value) else None
    if isinstance(value, bool) or value is None:
        return None
    try:
        number = float(value)  # type: ignore[arg-type]  # numpy scalars and Decimals convert too
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _fits(field: str, value: Any) -> bool:  # noqa: ANN401 - the app's own objects
    if field == "content":
        return isinstance(value, str)
    if field == "metadata":
        return isinstance(value, Mapping)
    return not callable(value) and not isinstance(value, (Mapping, list, tuple))


def _pick(view: Mapping[str, Any], found: dict[str, Any]) -> None:
    """Put the best-named value of each field into `found`; what is there already stays."""
    ranks: dict[str, int] = {}
    for name, value in view.items():
        rule = _ALIASES.get(name)
        if rule is None or value is None:
            continue
        field, rank = rule
        best = ranks.get(field)
        if (field not in found if best is None else rank < best) and (
            (type(value) is str and field != "metadata") or _fits(field, value)
        ):
            found[field] = value
            ranks[field] = rank


def _split(item: object) -> tuple[object, float | None]:
    """The document and its score, from `(document, score)`, `(score, document)` or a document."""
    if isinstance(item, (tuple, list)) and len(item) == 2:
        left, right = item
        score = _number(right) if not isinstance(right, str) else None
        if score is not None:
            return left, score
        score = _number(left) if not isinstance(left, str) else None
        return (right, score) if score is not None else (left, None)
    return item, None


def _is_canonical(item: dict[Any, Any]) -> bool:
    """True for a dict that has our own names and plain values only: it is read as it stands."""
    if type(item.get("content")) is not str:
        return False
    for name, value in item.items():
        if type(value) is str:
            if name not in _CANONICAL or not value:
                return False
        elif name != "score" or type(value) is not float or not math.isfinite(value):
            return False
    return True


def read_document(item: object) -> dict[str, Any]:
    """Plain fields of one retrieved item: id, document_id, version, valid_from, valid_to,
    content, score, score_kind, metadata. Absent fields are left out, but for the content.

    Reads mappings, strings, `(document, score)` pairs, and objects shaped like the documents of
    LangChain (`page_content`), LlamaIndex (`node`, `score`) or Haystack (`content`, `meta`), or
    like a vector store's hit (`payload`, `_source`).
    """
    score: float | None = None
    if type(item) is dict:
        if _is_canonical(item):
            return item
    else:
        item, score = _split(item)
    if isinstance(item, str):
        return {"content": item} if score is None else {"content": item, "score": score}
    view = _view(item)
    raw: dict[str, Any] = {}
    if view is not None:
        for name in _INNER:
            inner = _view(view[name]) if name in view else None
            if inner:
                _pick(inner, raw)
                break
        score_of_inner = raw.pop("score", None)
        _pick(view, raw)
        if score_of_inner is not None:
            raw.setdefault("score", score_of_inner)
    return _fields(raw, score)


def _fields(raw: dict[str, Any], score: float | None) -> dict[str, Any]:
    metadata = raw.get("metadata")
    known = {"content"}
    if metadata:
        known = set(raw)
        _pick({k: v for k, v in metadata.items() if k not in _NAMES["metadata"]}, raw)
    fields: dict[str, Any] = {}
    for name in _WORDS:
        value = raw.get(name)
        if value is not None and value != "":
            fields[name] = value if type(value) is str else str(value)
    if metadata and "document_id" not in fields:
        source = metadata.get("source") or metadata.get("file_name") or metadata.get("url")
        if isinstance(source, str):
            fields["document_id"] = source
    fields["content"] = raw.get("content", "") if "content" in known else ""
    score = _number(raw.get("score")) if score is None else score
    if score is None and "distance" in raw:
        score = _number(raw["distance"])
        raw.setdefault("score_kind", "distance")
    if score is not None:
        fields["score"] = score
    if "score_kind" in raw:
        fields["score_kind"] = str(raw["score_kind"])
    if metadata:
        fields["metadata"] = metadata
    return fields


def read_documents(result: object) -> list[dict[str, Any]]:
    """`read_document` of every item of a retriever's result, in its order.

    A mapping or object with a `documents`, `nodes`, `results`, `matches` or `hits` list is opened.
    Anything that cannot be walked without using it up (a generator) reads as empty.
    """
    if isinstance(result, (list, tuple)):
        return [read_document(item) for item in result]
    if result is None or isinstance(result, (str, bytes, int, float)):
        return []
    for name in _LISTS:
        value = result.get(name) if isinstance(result, Mapping) else getattr(result, name, None)
        if isinstance(value, Mapping):
            return read_documents(value)
        if isinstance(value, (list, tuple)):
            return [read_document(item) for item in value]
    return []


def _plain_metadata(metadata: Mapping[str, Any], cap: int) -> tuple[dict[str, Any], bool]:
    kept: dict[str, Any] = {}
    left = cap
    for key, value in metadata.items():
        plain = value if isinstance(value, _PLAIN) else str(value)
        if isinstance(plain, float) and not math.isfinite(plain):
            plain = None
        left -= len(str(key)) + len(str(plain)) + 6
        if left < 0:
            return kept, True
        kept[str(key)] = plain
    return kept, False


def documents_json(
    documents: list[dict[str, Any]], key: str, content: Content, notes: Notes
) -> str:
    """The documents as one JSON list with 1-based ranks, inside the caps of `content`.

    A text that is too long is shortened and keeps its true length in `cut`; when the list as a
    whole is too long, texts are shortened evenly first and only then the lowest ranks left out:
    ids, ranks and scores of the best documents always survive.
    """
    kept = documents[: content.max_documents]
    if len(kept) < len(documents):
        notes.cut.append(f"{key}:{len(documents)} documents")
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
    return _squeeze([dict(row) for row in rows], content.max_json)


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


def ids_of(documents: list[dict[str, Any]]) -> list[str] | None:
    """The ids in order, or None when one has none (ids alone would then not say what was used)."""
    ids = [row["id"] for row in documents if "id" in row]
    return ids if len(ids) == len(documents) else None
