"""Classes for objects that stand for the app's: Python looks for special methods at the class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_LOOKED_UP = frozenset(
    f"__{name}__"
    for name in """
    bool bytes call complex contains delitem dir eq float format ge getitem gt index int iter le len
    length_hint lt missing ne next reversed round setitem str trunc
    aiter anext await enter exit aenter aexit
    add and divmod floordiv invert lshift matmul mod mul neg or pos pow rshift sub truediv xor
    radd rand rfloordiv rlshift rmatmul rmod rmul ror rpow rrshift rsub rtruediv rxor
    iadd iand ifloordiv ilshift imatmul imod imul ior ipow irshift isub itruediv ixor
    """.split()  # noqa: SIM905 - as a list of strings it would be a page
)
_COMPARED = frozenset({"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"})
_OF_OBJECT = ("__str__", "__format__", "__dir__")
_MAX_CLASSES = 256

_made: dict[tuple[type, int], tuple[type, type[Any]]] = {}


class Mirror:
    """Stands for an object of the app's: its class, its attributes, its text."""

    # Slots, so that `vars()` shows the object's attributes.
    __slots__ = ("__weakref__", "_stagewatch_inner")

    _stagewatch_inner: Any

    @property  # type: ignore[misc]  # read-only is what is wanted here
    def __class__(self) -> type:
        """The object's own class, so that `isinstance` checks in apps and frameworks hold."""
        return type(self._stagewatch_inner)

    def __setattr__(self, name: str, value: Any) -> None:  # noqa: ANN401
        """Settings are the object's."""
        setattr(self._stagewatch_inner, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._stagewatch_inner, name)

    def __repr__(self) -> str:
        return repr(self._stagewatch_inner)


def inner_of(value: Any) -> Any:  # noqa: ANN401
    """The object that `value` stands for, else `value`."""
    try:
        return object.__getattribute__(value, "_stagewatch_inner")
    except AttributeError:
        return value


def _forwarded(name: str) -> Callable[..., Any]:
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        return getattr(type(self._stagewatch_inner), name)(self._stagewatch_inner, *args, **kwargs)

    return forward


def _compared(name: str) -> Callable[..., Any]:
    def compare(self: Any, other: Any) -> Any:  # noqa: ANN401
        inner = self._stagewatch_inner
        return getattr(type(inner), name)(inner, inner_of(other))

    return compare


def _hash(self: Any) -> int:  # noqa: ANN401
    return hash(self._stagewatch_inner)


def _enter(self: Any) -> Any:  # noqa: ANN401
    self._stagewatch_inner.__enter__()
    return self


async def _aenter(self: Any) -> Any:  # noqa: ANN401
    await self._stagewatch_inner.__aenter__()
    return self


_ENTERING: Mapping[str, Callable[..., Any]] = {"__enter__": _enter, "__aenter__": _aenter}


def _members(kind: type, own: Mapping[str, Any]) -> dict[str, Any]:
    # Not hasattr: every class has the operators of classes.
    has = {name for base in kind.__mro__ if base is not object for name in base.__dict__}
    members: dict[str, Any] = {
        # Named like the object's class, which is written into saved pipelines and traces.
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
        "__slots__": (),
    }
    members |= {name: _forwarded(name) for name in (*_OF_OBJECT, *sorted(_LOOKED_UP & has))}
    members |= {name: _compared(name) for name in _COMPARED & has}
    members |= {name: method for name, method in {**_ENTERING, **own}.items() if name in has}
    if "__eq__" in has or "__hash__" in has:
        members["__hash__"] = None if kind.__hash__ is None else _hash
    return members


def mirrored(base: type[Any], kind: type, own: Mapping[str, Any]) -> type[Any]:
    """A subclass of `base` named like `kind`, with the special methods that `kind` has.

    Args:
        base: What stands for the object.
        kind: Class of that object.
        own: Members that are not just handed on, used where `kind` has them.
    """
    place = (base, id(kind))
    known = _made.get(place)
    if known is None or known[0] is not kind:
        if len(_made) >= _MAX_CLASSES:
            _made.clear()
        known = (kind, type(kind.__name__, (base,), _members(kind, own)))
        _made[place] = known
    return known[1]
