"""Reading ranked passages from whatever a retriever returns.

This is most of what a turn costs on the app's thread, so fields are found in one pass over what a
document has, not by asking it for every name it might have. Nothing of the app's is called.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence, ValuesView
from typing import Any

from stagewatch.sdk._guard import guard
from stagewatch.sdk._plain import plain_text

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
PLAIN_TEXTS = frozenset({*_WORDS, "content"})
_CANONICAL = PLAIN_TEXTS | {"score_kind"}
_LISTS = ("documents", "source_nodes", "nodes", "results", "matches", "points", "hits")
_PLAIN = (str, int, float, bool, type(None))
SOURCE_NAMES = ("source", "file_name", "url")
"""Where in the metadata a document's name is found when it has none of its own."""

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
    except Exception:  # noqa: BLE001 - the app's own number
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


def _row(item: object) -> Mapping[str, Any] | None:
    """The fields of a tuple that is a row: with named fields, or `(id, text)`, `(id, text, score)`
    in plain values. The text is the string with spaces where only one has any, else the last.
    """
    if not isinstance(item, (tuple, list)):
        return None
    names = getattr(item, "_fields", None)
    if isinstance(names, tuple) and _ALIASES.keys() & set(names):
        return dict(zip(names, item, strict=False))
    if not 2 <= len(item) <= 3 or not all(isinstance(v, _PLAIN) for v in item):
        return None
    texts = [v for v in item if isinstance(v, str)]
    rest = [v for v in item if not isinstance(v, str)]
    if len(texts) == 1 and type(item[0]) is int and item[1] is texts[0]:
        return {"id": item[0], "content": texts[0], "score": rest[1] if len(rest) > 1 else None}
    if len(texts) != 2:
        return None
    first, second = texts
    if " " in first and " " not in second:
        first, second = second, first
    return {"id": first, "content": second, "score": rest[0] if rest else None}


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

    Reads mappings, strings, `(document, score)` pairs, rows that are tuples, and objects shaped
    like the documents of LangChain (`page_content`), LlamaIndex (`node`, `score`) or Haystack
    (`content`, `meta`), or like a vector store's hit (`payload`, `_source`).
    """
    score: float | None = None
    if type(item) is dict:
        if _is_canonical(item):
            return item
    else:
        row = _row(item)
        item, score = _split(item) if row is None else (row, None)
    if isinstance(item, str):
        text = plain_text(item)
        return {"content": text} if score is None else {"content": text, "score": score}
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
            fields[name] = value if type(value) is str else plain_text(value)
    if metadata and "document_id" not in fields:
        source = next((found for name in SOURCE_NAMES if (found := metadata.get(name))), None)
        if isinstance(source, str):
            fields["document_id"] = plain_text(source)
    content = raw.get("content", "") if "content" in known else ""
    fields["content"] = content if type(content) is str else plain_text(content)
    score = _number(raw.get("score")) if score is None else score
    if score is None and "distance" in raw:
        score = _number(raw["distance"])
        raw.setdefault("score_kind", "distance")
    if score is not None:
        fields["score"] = score
    if "score_kind" in raw:
        fields["score_kind"] = plain_text(raw["score_kind"])
    if metadata:
        fields["metadata"] = metadata
    return fields


def _read_each(items: Sequence[object]) -> list[dict[str, Any]]:
    try:
        return [read_document(item) for item in items]
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # noqa: BLE001 - told below, for the item that it was
        return [_read_safely(item) for item in items]


def _read_safely(item: object) -> dict[str, Any]:
    try:
        return read_document(item)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - one bad document keeps its rank
        guard.count("document", "could not read a document (%s)", type(error).__name__)
        return {"content": ""}


def _column(result: Mapping[str, Any], *names: str) -> list[Any]:
    found: list[Any] = next(
        (result[name] for name in names if isinstance(result.get(name), list)), []
    )
    # Chroma answers several queries at once: a list of lists, query by query.
    if found and isinstance(found[0], list):
        return [value for part in found if isinstance(part, list) for value in part]
    return list(found)


def _read_columns(result: object) -> list[dict[str, Any]] | None:
    """Chroma's result: one list for each field, side by side."""
    if not isinstance(result, Mapping) or not isinstance(result.get("ids"), list):
        return None
    columns = {
        "id": _column(result, "ids"),
        "content": _column(result, "documents", "texts"),
        "metadata": _column(result, "metadatas"),
        "distance": _column(result, "distances"),
        "score": _column(result, "scores"),
    }
    count = len(columns["id"])
    return _read_each(
        [
            {name: column[at] for name, column in columns.items() if at < len(column)}
            for at in range(count)
        ]
    )


def read_documents(result: object) -> list[dict[str, Any]] | None:
    """`read_document` of every item of a retriever's result, in its order; None when there is no
    list of documents to be seen in it, which is not the same as an empty one.

    A mapping or object with a `documents`, `nodes`, `results`, `matches` or `hits` list is opened,
    and so is one with columns side by side (`ids`, `documents`, `distances`). Nothing is walked
    that walking could use up or set off.
    """
    if isinstance(result, (list, tuple)):
        return _read_each(result)
    if result is None or isinstance(result, (str, bytes, int, float)):
        return None
    if isinstance(result, (Sequence, ValuesView, set, frozenset, deque)):
        return _read_each(list(result))
    columns = _read_columns(result)
    if columns is not None:
        return columns
    for name in _LISTS:
        value = result.get(name) if isinstance(result, Mapping) else getattr(result, name, None)
        if isinstance(value, Mapping):
            return read_documents(value)
        if isinstance(value, (list, tuple)):
            return _read_each(value)
    return None


def read_piece(item: object) -> list[dict[str, Any]]:
    """The documents in one piece that a retriever yields: one document, or a list of them."""
    if isinstance(item, list) and _row(item) is None and _split(item)[1] is None:
        return _read_each(item)
    return [_read_safely(item)]


def ids_of(documents: list[dict[str, Any]]) -> list[str] | None:
    """The ids in order, or None when one has none (ids alone would then not say what was used)."""
    ids = [row["id"] for row in documents if "id" in row]
    return ids if len(ids) == len(documents) else None
