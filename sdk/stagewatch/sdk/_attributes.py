"""A stage's attributes on their way into its span."""

from __future__ import annotations

import operator
from typing import Any

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.trace import Span

_PLAIN = frozenset({int, float, bool})


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
        kind = type(value)
        if kind is str:
            if not value.isascii():
                attributes[name] = utf8(value)
        elif kind not in _PLAIN:
            attributes[name] = _plain(value)
    return attributes


def _plain(value: Any) -> Any:  # noqa: ANN401 - the app's own objects
    if isinstance(value, (list, tuple)):
        return tuple([utf8(str(item)) for item in value])
    if isinstance(value, str):
        return utf8(str(value))
    for convert in (operator.index, float, str):
        try:
            return convert(value)
        except Exception:  # noqa: BLE001, S112 - not that kind of value
            continue
    return type(value).__qualname__


def put(span: Span, attributes: dict[str, Any]) -> None:
    """Add well-formed `attributes` to `span`.

    OpenTelemetry's `set_attributes` walks and copies every value, which for a turn takes longer
    than all its three spans. There is nothing to clean here, so while no limit can be reached the
    values go where that walk would put them. Anything else goes the public way: another kind of
    span, a limit in sight, a span that somebody else has ended.
    """
    held = getattr(span, "_attributes", None)
    if type(held) is BoundedAttributes and span.is_recording() and _put_directly(held, attributes):
        return
    span.set_attributes(attributes)


def _put_directly(held: BoundedAttributes, attributes: dict[str, Any]) -> bool:
    try:
        with held._lock:  # noqa: SLF001 - see put
            kept = held._dict  # noqa: SLF001
            limited = held.maxlen is not None and len(kept) + len(attributes) > held.maxlen
            if limited or held.max_value_len is not None:
                return False
            kept.update(attributes)
            return True
    except AttributeError:
        # Another version of OpenTelemetry keeps them elsewhere.
        return False
