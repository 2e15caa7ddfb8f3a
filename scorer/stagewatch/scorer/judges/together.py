"""Small reads and writes of many threads, done together: one statement for all that wait.

While one group is with the store the next gathers, so the groups grow with the load and a lone
caller waits for nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

MOST = 500
"""Items of one group."""


class Together(Generic[K, V]):
    """`serve` gets the items of a group and returns a result for each, in their order.

    It runs in one thread, which has an engine handle of its own; that thread ends with this
    object.
    """

    def __init__(self, name: str, serve: Callable[[Sequence[K]], Sequence[V]]) -> None:
        self._serve = serve
        self._waiting: SimpleQueue[tuple[K, Future[V]]] = SimpleQueue()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)

    def send(self, item: K) -> Future[V]:
        """The result for `item` to come; it holds what `serve` raises."""
        result: Future[V] = Future()
        self._waiting.put((item, result))
        self._thread.submit(self._serve_waiting)
        return result

    def ask(self, item: K) -> V:
        """The result for `item`, once its group is served; raises what `serve` raises."""
        return self.send(item).result()

    def _serve_waiting(self) -> None:
        group: list[tuple[K, Future[V]]] = []
        while len(group) < MOST:
            try:
                group.append(self._waiting.get_nowait())
            except Empty:
                break
        if not group:
            return
        try:
            found = self._serve([item for item, _ in group])
        except Exception as error:  # noqa: BLE001 - handed to every caller that waits
            for _, result in group:
                result.set_exception(error)
            return
        for (_, result), value in zip(group, found, strict=True):
            result.set_result(value)
