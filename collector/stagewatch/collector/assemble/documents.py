"""Ranked chunks out of whatever a span carries; ranks are the order received, from 1."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stagewatch.collector.assemble.lenient import loaded
from stagewatch.collector.assemble.tables import names
from stagewatch.core.model import Chunk

_MAX_DEPTH = 5
_REPR = re.compile(r"\s*(?:<\w+|\w+\([\w ]*=)")


@dataclass(frozen=True, slots=True)
class _Shape:
    """Which of the names of `fields.toml` a mapping holds, field by field, in their order."""

    held: Mapping[str, tuple[str, ...]]
    nested: bool

    @classmethod
    def of(cls, names_held: tuple[Any, ...]) -> _Shape:
        keys = frozenset(names_held)
        held = {
            field: found
            for field, wanted in names().document.items()
            if (found := tuple(name for name in wanted if name in keys))
        }
        nested = any(isinstance(name, str) and name.startswith("document.") for name in names_held)
        return cls(held, nested)


_MANY_NAMES = 64
# Documents of one index have the same few names.
_known_shape = functools.lru_cache(maxsize=2048)(_Shape.of)


def _shape(item: Mapping[Any, Any]) -> _Shape:
    held = tuple(item)
    return _known_shape(held) if len(held) <= _MANY_NAMES else _Shape.of(held)


_Layer = tuple[Mapping[str, Any], Mapping[str, tuple[str, ...]]]
"""A mapping, and which names of interest it holds."""


def _first(layers: Sequence[_Layer], field: str) -> Any:  # noqa: ANN401
    for layer, held in layers:
        if field in held:
            for key in held[field]:
                value = layer[key]
                if value is not None and value != "":
                    return value
    return None


def _word(value: Any) -> str | None:  # noqa: ANN401
    if value is None or type(value) is str:
        return value
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    return str(value)


def number(value: Any) -> float | None:  # noqa: ANN401
    """`value` as a finite float, also from text; None for anything else."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def _layers(item: Mapping[str, Any], shape: _Shape) -> list[_Layer]:
    """The document itself and the objects it is wrapped in, innermost first."""
    layers: list[_Layer] = [(item, shape.held)]
    for _ in range(_MAX_DEPTH):
        layer, held = layers[0]
        for key in held.get("unwrap", ()):
            inner = layer[key]
            if isinstance(inner, Mapping):
                layers.insert(0, (inner, _shape(inner).held))
                break
        else:
            return layers
    return layers


def _metadata(layers: Sequence[_Layer]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for layer, held in reversed(layers):
        for key in held.get("metadata", ()):
            found = loaded(layer[key])[0]
            if isinstance(found, Mapping):
                merged.update({str(name): value for name, value in found.items()})
    return merged


def _source_document(layers: Sequence[_Layer]) -> str | None:
    # LlamaIndex names the source document as relationship "1" of a node.
    for layer, _ in layers:
        relations = layer.get("relationships")
        if isinstance(relations, Mapping):
            source = relations.get("1")
            if isinstance(source, Mapping):
                return _word(source.get("node_id"))
    return None


def _scores(
    layers: Sequence[_Layer], metadata: Mapping[str, Any], *, reranked: bool
) -> tuple[float | None, str | None]:
    direct = number(_first(layers[::-1], "score"))
    if direct is None and metadata:
        # A compressor leaves the old score in place and adds its own beside it.
        keys = ("relevance_score", "score") if reranked else ("score", "relevance_score")
        told = (metadata.get(key) for key in keys)
        direct = number(next((value for value in told if value is not None and value != ""), None))
    if direct is not None:
        return direct, None
    distance = number(_first(layers[::-1], "distance"))
    return (distance, "distance") if distance is not None else (None, None)


def _chunk(item: Any, rank: int, *, reranked: bool, score_kind: str | None) -> Chunk | None:  # noqa: ANN401
    item = loaded(item)[0]
    paired: float | None = None
    if isinstance(item, (list, tuple)) and len(item) == 2:
        left, right = loaded(item[0])[0], item[1]
        paired = number(right)
        if not isinstance(left, (Mapping, str)) or (paired is None and right is not None):
            return None
        item = left
    if isinstance(item, str):
        return Chunk(rank, content=item, score=paired, score_kind=score_kind) if item else None
    if not isinstance(item, Mapping):
        return None
    return _from_mapping(item, rank, paired, reranked=reranked, score_kind=score_kind)


def _from_mapping(
    item: Mapping[str, Any],
    rank: int,
    paired: float | None,
    *,
    reranked: bool,
    score_kind: str | None,
) -> Chunk | None:
    shape = _shape(item)
    if shape.nested:
        item = _unnested(item)
        shape = _shape(item)
    layers = _layers(item, shape)
    metadata = _metadata(layers)
    score, kind = (
        (paired, None) if paired is not None else _scores(layers, metadata, reranked=reranked)
    )
    everywhere = [*layers, (metadata, _shape(metadata).held)] if metadata else layers
    content = _content(layers)
    chunk_id = _word(_first(everywhere, "id"))
    if chunk_id is None and not content:
        return None
    return Chunk(
        rank=rank,
        chunk_id=chunk_id,
        document_id=_word(_first(everywhere, "document_id"))
        or _source_document(layers)
        or _word(_first(everywhere, "document_id_weak")),
        version=_word(_first(everywhere, "version")),
        content=content,
        score=score,
        score_kind=_word(_first([(item, shape.held)], "score_kind")) or kind or score_kind,
        valid_from=_word(_first(everywhere, "valid_from")),
        valid_to=_word(_first(everywhere, "valid_to")),
        metadata=metadata or _rest(layers[0][0]),
    )


def _content(layers: Sequence[_Layer]) -> str:
    for layer, held in layers:
        for key in held.get("content", ()):
            text = layer[key]
            if isinstance(text, str) and text:
                return text
    return ""


def _unnested(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Flattened `document.content` keys as `content`."""
    return {str(key).removeprefix("document."): value for key, value in item.items()}


def _rest(item: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a flat document that have no name of their own (Haystack flattens metadata)."""
    known = _known_names()
    return {
        str(key): value
        for key, value in item.items()
        if key not in known and isinstance(value, (str, int, float, bool)) and key not in _NOT_META
    }


@functools.cache
def _known_names() -> frozenset[str]:
    table = names().document
    every = {name for found in table.values() for name in found}
    return frozenset(every) - set(table["document_id_weak"])


_NOT_META = frozenset({"rank", "cut", "type", "lc", "chunk", "embedding", "blob"})


def _list_of(value: Any, depth: int = 0) -> list[Any] | None:  # noqa: ANN401
    value = loaded(value)[0]
    if isinstance(value, (list, tuple)):
        return list(value)
    if isinstance(value, Mapping) and depth < _MAX_DEPTH:
        for key in names().document["lists"]:
            if key in value:
                found = _list_of(value[key], depth + 1)
                if found is not None:
                    return found
    return None


def bare_words(value: Any) -> bool:  # noqa: ANN401
    """Whether `value` is a list of short strings: labels, file names, steps, but no passages."""
    found = [loaded(item)[0] for item in _list_of(value) or ()]
    return bool(found) and all(
        isinstance(item, str)
        and len(item) < _PASSAGE_LETTERS
        and len(item.split()) < _PASSAGE_WORDS
        for item in found
    )


_PASSAGE_WORDS = 5
_PASSAGE_LETTERS = 40


def chunks_of(
    value: Any,  # noqa: ANN401
    *,
    reranked: bool = False,
    score_kind: str | None = None,
) -> tuple[Chunk, ...]:
    """The chunks in `value`: a list of documents, or JSON or a mapping that holds one.

    Args:
        value: Anything; a mapping `{index: document}` keeps its indexes as ranks.
        reranked: Prefer a reranker's score over the retriever's.
        score_kind: What scores mean when the documents do not say.

    Returns:
        Chunks with 1-based ranks in the order received; empty when `value` is not a document
        list. Entries that say nothing (no id, no text) are left out and keep their rank free.
    """
    numbered: list[tuple[int, Any]]
    if isinstance(value, Mapping) and value and all(isinstance(key, int) for key in value):
        numbered = sorted(value.items())
    else:
        found = _list_of(value)
        if found is None:
            return ()
        numbered = list(enumerate(found))
    chunks = []
    for index, item in numbered:
        if isinstance(item, str) and _REPR.match(item):
            # The repr of some library's object: its text cannot be told from its wrapping.
            return ()
        chunk = _chunk(item, index + 1, reranked=reranked, score_kind=score_kind)
        if chunk is not None:
            chunks.append(chunk)
    return tuple(chunks)
