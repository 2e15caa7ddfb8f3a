"""A stage's attributes on their way into its span."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.trace import Span

from stagewatch.sdk import semconv as key
from stagewatch.sdk._plain import plain_value

Attributes = Mapping[str, Any]
NONE: Attributes = {}

_PLAIN = frozenset({int, float, bool})
_TEXTS = {str}

_NEEDED = (
    key.INPUT_MESSAGES,
    key.CONTEXT_DOCUMENTS,
    key.CONTEXT_IDS,
    key.RERANK_INPUT_IDS,
    key.REQUEST_MODEL,
    key.RESPONSE_MODEL,
    key.TURN_INDEX,
    key.CONVERSATION_ID,
    key.ERROR_TYPE,
    key.RERANK_QUERY,
    key.RETRIEVAL_QUERY,
    key.REWRITTEN_QUERY,
    key.OUTPUT_MESSAGES,
    key.RERANK_DOCUMENTS,
    key.DOCUMENTS,
    key.INPUT,
    key.OUTPUT,
    key.CUT,
    key.REDACTED,
    key.STEP,
)
"""What a span must not lose to an attribute count limit, the most needed last."""
_NEED = {name: rank for rank, name in enumerate(_NEEDED, start=1)}


class OwnAttributes(dict[str, Any]):
    """The attributes of a span of ours, which takes what is well-formed as it stands."""

    __slots__ = ()


def utf8(text: str) -> str:
    """`text` with lone surrogates replaced: UTF-8 cannot hold them, and one such text would cost
    the whole batch of spans it is sent with.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def well_formed(attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes, changed in place into what OpenTelemetry takes as it stands: well-formed
    texts, plain numbers, tuples of texts. A number of another kind (numpy's) becomes a plain one.
    """
    for name, value in attributes.items():
        if type(value) is str:
            if not value.isascii():
                attributes[name] = utf8(value)
        elif type(value) not in _PLAIN:
            attributes[name] = _well_formed(value)
    return attributes


def _well_formed(value: object) -> Any:  # noqa: ANN401 - any kind that OpenTelemetry takes
    if type(value) is list and set(map(type, value)) == _TEXTS and "".join(value).isascii():
        return tuple(value)
    plain = plain_value(value)
    if type(plain) is tuple:
        return tuple([utf8(item) for item in plain])
    return utf8(plain) if type(plain) is str else plain


def put(span: Span, own: Attributes, shared: Attributes = NONE, fixed: Attributes = NONE) -> None:
    """Add well-formed attributes to `span`: a stage's own, those of its turn, those of its kind.

    OpenTelemetry's `set_attributes` walks and copies every value, which for a turn takes longer
    than all its three spans. There is nothing to clean here, so while no limit can be reached the
    values go where that walk would put them. Anything else goes the public way: another kind of
    span, a limit in sight, a span that somebody else has ended.
    """
    held = getattr(span, "_attributes", None)
    if type(held) is BoundedAttributes:
        if span.is_recording() and _put_directly(held, own, shared, fixed):
            return
    elif type(held) is OwnAttributes:
        held.update(fixed)
        held.update(shared)
        held.update(own)
        return
    attributes = {**fixed, **shared, **own}
    # A count limit drops the oldest: what is needed most goes last.
    by_need = sorted(attributes, key=lambda name: _NEED.get(name, 0))
    span.set_attributes({name: attributes[name] for name in by_need})


def _put_directly(
    held: BoundedAttributes, own: Attributes, shared: Attributes, fixed: Attributes
) -> bool:
    try:
        with held._lock:  # noqa: SLF001 - see put
            kept, most = held._dict, held.maxlen  # noqa: SLF001
            if held.max_value_len is not None:
                return False
            if most is not None and len(kept) + len(own) + len(shared) + len(fixed) > most:
                return False
            kept.update(fixed)
            kept.update(shared)
            kept.update(own)
            return True
    except AttributeError:
        # Another version of OpenTelemetry keeps them elsewhere.
        return False


def bytes_of(span: object) -> int:
    """About how many bytes an ended span takes on the wire: its texts, events included."""
    size = 512 + _bytes_in(getattr(span, "_attributes", None))
    for event in getattr(span, "_events", None) or ():
        size += _bytes_in(event.attributes)
    return size


def _bytes_in(attributes: Mapping[str, Any] | None) -> int:
    if not attributes:
        return 0
    # Not through the mapping: it takes its lock for every value.
    values: Iterable[Any] = getattr(attributes, "_dict", attributes).values()
    size = 0
    for value in values:
        if type(value) is str:
            size += len(value) if value.isascii() else len(value.encode("utf-8", "replace"))
        elif type(value) is tuple:
            size += sum([len(item) for item in value if type(item) is str])
    return size
