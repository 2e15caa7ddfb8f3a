"""Stand-ins: objects that are the app's object to everybody, but for a few methods."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from stagewatch.sdk._mirror import Mirror, mirrored

LANGCHAIN_COMPOSED = frozenset(
    {
        "batch",
        "abatch",
        "batch_as_completed",
        "abatch_as_completed",
        "stream",
        "astream",
        "transform",
        "atransform",
        "with_config",
        "with_retry",
        "with_fallbacks",
        "with_listeners",
        "with_alisteners",
        "with_types",
        "as_tool",
        "assign",
        "pick",
        "bind",
        "map",
        "pipe",
    }
)
"""LangChain's methods that end in `invoke` or `ainvoke` of the object they are called on."""

Again = Callable[[Any], Any]


class Later:
    """A replacement made when it is first asked for: finding it may import half a library."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


class StandIn(Mirror):
    """Stands for an object of the app's: same class, same attributes, other methods."""

    # Slots, so that `vars()` shows the object's attributes.
    __slots__ = (
        "_stagewatch_again",
        "_stagewatch_composed",
        "_stagewatch_replaced",
    )

    _stagewatch_replaced: dict[str, Any]
    _stagewatch_again: Again
    _stagewatch_composed: frozenset[str]

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        """A watched method, else whatever the object has."""
        if name.startswith("_stagewatch"):
            raise AttributeError(name)
        replaced = self._stagewatch_replaced
        if name in replaced:
            found = replaced[name]
            if type(found) is Later:
                found = replaced[name] = found.make()
            return found
        if name in self._stagewatch_composed:
            # Called on the stand-in, so that what they end in is the watched method.
            method = getattr(type(self._stagewatch_inner), name, None)
            if isinstance(method, FunctionType):
                return method.__get__(self)
            if isinstance(method, functools.cached_property):
                return method.func(self)
            if isinstance(method, property) and method.fget is not None:
                return method.fget(self)
        return getattr(self._stagewatch_inner, name)

    def __copy__(self) -> Any:  # noqa: ANN401
        return self._stagewatch_again(copy.copy(self._stagewatch_inner))

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:  # noqa: ANN401
        return self._stagewatch_again(copy.deepcopy(self._stagewatch_inner, memo))

    def __reduce_ex__(self, protocol: Any) -> Any:  # noqa: ANN401
        return self._stagewatch_again, (self._stagewatch_inner,)


def stand_in(
    inner: object,
    replaced: Mapping[str, Any],
    again: Again,
    composed: frozenset[str] = frozenset(),
) -> Any:  # noqa: ANN401
    """An object that is `inner` to everybody, but for the methods in `replaced`.

    Args:
        inner: The app's object; it is not changed.
        replaced: Methods by name; a `Later` is made when it is first asked for.
        again: Makes such a stand-in of a copy of `inner`; it can be pickled when that matters.
        composed: Methods and properties that end in the replaced ones and are to find the
            stand-in's.
    """
    made = object.__new__(mirrored(StandIn, type(inner), _OWN))
    held = {"inner": inner, "replaced": dict(replaced), "again": again, "composed": composed}
    for name, value in held.items():
        object.__setattr__(made, f"_stagewatch_{name}", value)
    return made


def is_stand_in(value: object) -> bool:
    """True for what `stand_in` made."""
    return issubclass(type(value), StandIn)


def _operator(name: str) -> Callable[..., Any]:
    # LangChain's pipes: with the stand-in as their side, or the chain would hold the object.
    def operate(self: StandIn, other: Any) -> Any:  # noqa: ANN401
        return getattr(type(self._stagewatch_inner), name)(self, other)

    return operate


_OWN: dict[str, Any] = {
    **{name: _operator(name) for name in ("__or__", "__ror__")},
    # Haystack reads its signature to save a pipeline.
    "__init__": property(lambda self: self._stagewatch_inner.__init__),
}
