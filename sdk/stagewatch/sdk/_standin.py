"""Stand-ins: objects that are the app's object to everybody, but for a few methods."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

_COMPOSED = frozenset(
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
        "bind",
        "map",
        "pipe",
    }
)
"""LangChain's methods that end in `invoke` or `ainvoke` of the object they are called on."""

Again = Callable[[Any], Any]


class StandIn:
    """Stands for an object of the app's: same class, same attributes, other methods."""

    _stagewatch_inner: Any
    _stagewatch_replaced: Mapping[str, Any]
    _stagewatch_again: Again

    @property  # type: ignore[misc]  # read-only is what is wanted here
    def __class__(self) -> type:
        """The object's own class, so that `isinstance` checks in frameworks hold."""
        return type(self._stagewatch_inner)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        """A watched method, else whatever the object has."""
        if name.startswith("_stagewatch"):
            raise AttributeError(name)
        replaced = self._stagewatch_replaced
        if name in replaced:
            return replaced[name]
        if name in _COMPOSED and "invoke" in replaced:
            # Called on the stand-in, so that what they end in is the watched method.
            method = getattr(type(self._stagewatch_inner), name, None)
            if isinstance(method, FunctionType):
                return method.__get__(self)
        return getattr(self._stagewatch_inner, name)

    def __setattr__(self, name: str, value: Any) -> None:  # noqa: ANN401
        """Settings are the object's."""
        setattr(self._stagewatch_inner, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._stagewatch_inner, name)

    def __repr__(self) -> str:
        return repr(self._stagewatch_inner)

    def __copy__(self) -> Any:  # noqa: ANN401
        return self._stagewatch_again(copy.copy(self._stagewatch_inner))

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:  # noqa: ANN401
        return self._stagewatch_again(copy.deepcopy(self._stagewatch_inner, memo))

    def __reduce_ex__(self, protocol: Any) -> Any:  # noqa: ANN401
        return self._stagewatch_again, (self._stagewatch_inner,)


def stand_in(inner: object, replaced: Mapping[str, Any], again: Again) -> Any:  # noqa: ANN401
    """An object that is `inner` to everybody, but for the methods in `replaced`.

    Args:
        inner: The app's object; it is not changed.
        replaced: Methods by name.
        again: Makes such a stand-in of a copy of `inner`; it can be pickled when that matters.
    """
    # Not by calling the class: its __init__ is the object's.
    made = object.__new__(_class_of(type(inner)))
    made.__dict__.update(
        _stagewatch_inner=inner, _stagewatch_replaced=replaced, _stagewatch_again=again
    )
    return made


def _class_of(kind: type) -> type[StandIn]:
    # Named like the object's class, which is written into saved pipelines and traces, and with
    # those special methods that it has: Python looks for them at the class only.
    members: dict[str, Any] = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    # Not hasattr: every class has the operators of classes.
    has = {name for base in kind.__mro__ for name in base.__dict__}
    members |= {name: method for name, method in _SPECIAL.items() if name in has}
    # Haystack reads its signature to save a pipeline.
    members["__init__"] = property(lambda self: self._stagewatch_inner.__init__)
    return type(kind.__name__, (StandIn,), members)


def _operator(name: str) -> Callable[..., Any]:
    # LangChain's pipes: with the stand-in as their side, or the chain would hold the object.
    def operate(self: StandIn, other: Any) -> Any:  # noqa: ANN401
        return getattr(type(self._stagewatch_inner), name)(self, other)

    return operate


def _forwarded(name: str) -> Callable[..., Any]:
    def forward(self: StandIn, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        return getattr(self._stagewatch_inner, name)(*args, **kwargs)

    return forward


def _enter(self: StandIn) -> StandIn:
    self._stagewatch_inner.__enter__()
    return self


async def _aenter(self: StandIn) -> StandIn:
    await self._stagewatch_inner.__aenter__()
    return self


_FORWARDED = (
    "__call__",
    "__len__",
    "__iter__",
    "__getitem__",
    "__contains__",
    "__exit__",
    "__aexit__",
)
_SPECIAL: dict[str, Callable[..., Any]] = {
    "__enter__": _enter,
    "__aenter__": _aenter,
    **{name: _operator(name) for name in ("__or__", "__ror__")},
    **{name: _forwarded(name) for name in _FORWARDED},
}
