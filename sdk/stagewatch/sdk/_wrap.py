"""Decorated functions of every flavour: plain, async, generators, async generators.

The wrapper has the flavour of what it wraps. A generator's stage is current only while the
generator itself runs, so nothing leaks to the code that consumes it.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import Any, ParamSpec, TypeVar, cast

from stagewatch.sdk._guard import guarded
from stagewatch.sdk._steps import Step
from stagewatch.sdk._streams import Reading

P = ParamSpec("P")
R = TypeVar("R")


def wrap_function(template: Step, func: Callable[P, R]) -> Callable[P, R]:
    """`func` with each call a stage made from `template`; same results, same exceptions."""
    signature = _signature(func)
    if inspect.isasyncgenfunction(func):
        wrapped: Any = _wrap_async_generator(template, func, signature)
    elif inspect.iscoroutinefunction(func):
        wrapped = _wrap_coroutine(template, func, signature)
    elif inspect.isgeneratorfunction(func):
        wrapped = _wrap_generator(template, func, signature)
    else:
        wrapped = _wrap_plain(template, func, signature)
    return cast("Callable[P, R]", functools.wraps(func)(wrapped))


def _signature(func: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(func)
    except (TypeError, ValueError):
        return None


@guarded("read a call's arguments")
def _new_step(
    template: Step,
    signature: inspect.Signature | None,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Step:
    arguments = dict(kwargs)
    if signature is not None:
        # TypeError: the call does not fit; the function itself will say so to the caller.
        with contextlib.suppress(TypeError):
            arguments = signature.bind_partial(*args, **kwargs).arguments
    return template._fresh(arguments)  # noqa: SLF001 - same package


def _wrap_plain(
    template: Step, func: Callable[..., Any], signature: inspect.Signature | None
) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        step = _new_step(template, signature, args, kwargs)
        if step is None:
            return func(*args, **kwargs)
        with step:
            result = func(*args, **kwargs)
            if not inspect.iscoroutine(result):
                return step.record(result)
            # A plain function that hands out a coroutine: the stage lasts until that is done.
            _hold(step)
        return _awaited(step, result)

    return call


@guarded("hold a stage open")
def _hold(step: Step) -> None:
    step._held = True  # noqa: SLF001 - same package


@guarded("let a stage go")
def _release(step: Step) -> None:
    step._held = False  # noqa: SLF001 - same package
    step._attach()  # noqa: SLF001


async def _awaited(step: Step, result: Awaitable[Any]) -> Any:  # noqa: ANN401
    _release(step)
    with _Reentered(step):
        return step.record(await result)


class _Reentered:
    """The rest of a stage that was left while it was held open."""

    def __init__(self, step: Step) -> None:
        self._step = step

    def __enter__(self) -> None:
        """The stage is open already."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._step._leave(error)  # noqa: SLF001 - same package


def _wrap_coroutine(
    template: Step, func: Callable[..., Awaitable[Any]], signature: inspect.Signature | None
) -> Callable[..., Awaitable[Any]]:
    async def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        step = _new_step(template, signature, args, kwargs)
        if step is None:
            return await func(*args, **kwargs)
        async with step:
            return step.record(await func(*args, **kwargs))

    return call


class _Driven:
    """A generator's stage: current only while the generator itself runs. Without a stage, which
    could not be made, it lets everything pass.
    """

    def __init__(self, step: Step | None) -> None:
        self._step = step
        self._reading: Reading | None = None
        self._open()

    @guarded("open a stage")
    def _open(self) -> None:
        step = self._step
        if step is not None:
            self._reading = Reading(step._streamed, step._collecting())  # noqa: SLF001
            step._open()  # noqa: SLF001
            step._detach()  # noqa: SLF001
            step._left = True  # noqa: SLF001

    @guarded("resume a stage")
    def resume(self) -> None:
        """The generator runs from here on."""
        if self._step is not None:
            self._step._attach()  # noqa: SLF001

    @guarded("pause a stage")
    def pause(self) -> None:
        """The code that reads the generator runs from here on."""
        if self._step is not None:
            self._step._detach()  # noqa: SLF001

    def piece(self, item: object) -> None:
        """The generator yielded `item`."""
        self.pause()
        if self._reading is not None:
            self._reading.piece(item)

    def ended(self, error: BaseException) -> None:
        """The generator ended with `error`, its ordinary end included."""
        self.pause()
        if self._reading is not None:
            self._reading.ended(error)


def _wrap_generator(
    template: Step,
    func: Callable[..., Generator[Any, Any, Any]],
    signature: inspect.Signature | None,
) -> Callable[..., Generator[Any, Any, Any]]:
    def call(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:  # noqa: ANN401
        inner = func(*args, **kwargs)
        driven = _Driven(_new_step(template, signature, args, kwargs))
        resume: Callable[[], Any] = functools.partial(next, inner)
        while True:
            driven.resume()
            try:
                item = resume()
            except BaseException as error:
                driven.ended(error)
                if isinstance(error, StopIteration):
                    return error.value
                raise
            driven.piece(item)
            try:
                resume = functools.partial(inner.send, (yield item))
            except GeneratorExit as closed:
                driven.resume()
                try:
                    inner.close()
                finally:
                    driven.ended(closed)
                raise
            except BaseException as thrown:  # noqa: BLE001 - handed on to the app's generator
                resume = functools.partial(inner.throw, thrown)

    return call


def _wrap_async_generator(
    template: Step,
    func: Callable[..., AsyncGenerator[Any, Any]],
    signature: inspect.Signature | None,
) -> Callable[..., AsyncGenerator[Any, Any]]:
    async def call(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:  # noqa: ANN401
        inner = func(*args, **kwargs)
        driven = _Driven(_new_step(template, signature, args, kwargs))
        resume: Callable[[], Awaitable[Any]] = inner.__anext__
        while True:
            driven.resume()
            try:
                item = await resume()
            except BaseException as error:
                driven.ended(error)
                if isinstance(error, StopAsyncIteration):
                    return
                raise
            driven.piece(item)
            try:
                resume = functools.partial(inner.asend, (yield item))
            except GeneratorExit as closed:
                driven.resume()
                try:
                    await inner.aclose()
                finally:
                    driven.ended(closed)
                raise
            except BaseException as thrown:  # noqa: BLE001 - handed on to the app's generator
                resume = functools.partial(inner.athrow, thrown)

    return call
