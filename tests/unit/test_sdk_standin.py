"""Stand-ins are the app's object to everybody: its class, its settings, its operators, its copies."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from stagewatch import sdk
from stagewatch.sdk.frameworks import watch_retriever
from stagewatch.sdk.testing import Captured, capture


class Retriever:
    """With everything that Python looks for at a class."""

    def __init__(self, store: list[str], k: int = 2) -> None:
        self.store = store
        self.k = k
        self.opened = 0

    def retrieve(self, query: str) -> list[str]:
        return self.store[: self.k]

    def __len__(self) -> int:
        return len(self.store)

    def __iter__(self) -> Iterator[str]:
        return iter(self.store)

    def __contains__(self, item: object) -> bool:
        return item in self.store

    def __getitem__(self, at: int) -> str:
        return self.store[at]

    def __enter__(self) -> Retriever:
        self.opened += 1
        return self

    def __exit__(self, *_: object) -> None:
        self.opened -= 1

    def __repr__(self) -> str:
        return f"Retriever({self.k})"


class Calling:
    def search(self, query: str) -> list[str]:
        return ["found"]

    def __call__(self, word: str, times: int = 1) -> str:
        return word * times


@pytest.fixture
def captured() -> Iterator[Captured]:
    with capture() as found:
        yield found


def stages(captured: Captured, retriever: Any) -> list[str]:
    captured.spans.clear()
    with sdk.turn("q"):
        retriever.retrieve("q")
    return captured.turn().stages


def test_settings_are_the_objects(captured: Captured) -> None:
    plain = Retriever(["a", "b", "c"])
    watched = watch_retriever(plain)
    watched.k = 3
    assert plain.k == 3
    assert watched.retrieve("q") == ["a", "b", "c"]
    del watched.opened
    assert not hasattr(plain, "opened")
    assert not hasattr(watched, "_stagewatch_anything")


def test_what_python_looks_for_at_the_class() -> None:
    plain = Retriever(["a", "b"])
    watched = watch_retriever(plain)
    assert (len(watched), list(watched), "a" in watched, watched[1]) == (2, ["a", "b"], True, "b")
    assert repr(watched) == "Retriever(2)"
    with watched as entered:
        assert entered is watched
        assert plain.opened == 1
    assert plain.opened == 0
    assert not callable(watched)
    assert watch_retriever(Calling())("ab", times=2) == "abab"


def test_its_class_is_named_and_made_like_the_objects() -> None:
    watched = watch_retriever(Retriever(["a"]))
    for kind in (type(watched), watched.__class__):
        assert (kind.__module__, kind.__qualname__) == (__name__, "Retriever")
    assert list(inspect.signature(watched.__init__).parameters) == ["store", "k"]  # type: ignore[misc]


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda w: pickle.loads(pickle.dumps(w))]
)
def test_copies_are_watched_and_their_own(captured: Captured, copied: Any) -> None:
    watched = watch_retriever(Retriever(["a", "b"]), source="kb")
    other = copied(watched)
    other.k = 1
    assert watched.k == 2
    assert stages(captured, other) == ["retrieve"]
    assert [row["content"] for row in captured.turn().documents] == ["a"]
    assert captured.spans[0].name == "retrieval kb"
    assert stages(captured, watched) == ["retrieve"]
    assert len(captured.turn().documents) == 2
