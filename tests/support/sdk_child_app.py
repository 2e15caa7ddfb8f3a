"""A small RAG app run in child processes, with the SDK or without: output and exit code must agree.

Usage: python sdk_child_app.py SHAPE, with WITH_SDK=1 to instrument it. Without, a stand-in with
the same surface does nothing.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

DOCS = [{"id": f"d{n}", "content": f"passage {n} " * 40, "score": 1 / (n + 1)} for n in range(10)]


class Nothing:
    """Stands for every stage when the app runs bare."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        if len(args) == 1 and callable(args[0]) and not options:
            return args[0]
        return self

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def record(self, result: Any) -> Any:
        return result


if os.environ.get("WITH_SDK"):
    from stagewatch import sdk

    turn: Callable[[Any], Any] = sdk.turn
    retrieve: Callable[[Any], Any] = sdk.retrieve
    generate: Any = sdk.generate
    carry: Callable[[Any], Any] = sdk.carry
    sdk.configure(service="child")
else:
    turn = retrieve = generate = Nothing()

    def carry(func: Any) -> Any:
        return func


def _search(query: str) -> list[dict[str, Any]]:
    return DOCS


search: Callable[[str], list[dict[str, Any]]] = retrieve(_search)


def _ask(question: str) -> str:
    docs = search(question)
    with generate("m", context=docs) as step:
        return str(step.record(f"{question}: {len(docs)} passages"))


ask: Callable[[str], str] = turn(_ask)


def _stream(question: str) -> Iterator[str]:
    for doc in search(question):
        yield doc["id"]


stream: Callable[[str], Iterator[str]] = turn(_stream)


def plain() -> None:
    for n in range(20):
        print(ask(f"q{n}"))


def many() -> None:
    for n in range(3000):
        ask(f"q{n}")
    print("done")


def threads() -> None:
    lines: list[str] = []
    workers = [
        threading.Thread(target=lambda n=n: lines.append(carry(ask)(f"q{n}"))) for n in range(8)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print("\n".join(sorted(lines)))


def aio() -> None:
    async def one(n: int) -> str:
        with turn(f"q{n}") as step:
            await asyncio.sleep(0)
            return str(step.record(ask(f"inner {n}")))

    async def every() -> list[str]:
        return list(await asyncio.gather(*(one(n) for n in range(10))))

    print(asyncio.run(every()))


def streaming() -> None:
    print(list(stream("q")), next(stream("half")))


def fork() -> None:
    ask("before")
    pid = os.fork()
    print(ask("child" if pid == 0 else "parent"), flush=True) if pid == 0 else None
    if pid == 0:
        sys.exit(3)
    _, status = os.waitpid(pid, 0)
    print(ask("parent"), os.waitstatus_to_exitcode(status))


def fails() -> None:
    def broken(question: str) -> str:
        raise ValueError(f"no answer to {question}")

    turn(broken)("q")


def exits() -> None:
    with turn("q"):
        sys.exit(7)


def thread_fails() -> None:
    with turn("q") as step:
        worker = threading.Thread(target=ask, args=("in a daemon",), daemon=True)
        worker.start()
        step.record("left")
    print("end")


def terminated() -> None:
    ask("q")
    os.kill(os.getpid(), signal.SIGTERM)


SHAPES: dict[str, Callable[[], None]] = {
    found.__name__: found
    for found in (
        plain,
        many,
        threads,
        aio,
        streaming,
        fork,
        fails,
        exits,
        thread_fails,
        terminated,
    )
}

if __name__ == "__main__":
    SHAPES[sys.argv[1]]()
