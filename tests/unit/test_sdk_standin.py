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


class Particular(Retriever):
    """With an opinion on everything."""

    def __str__(self) -> str:
        return "particular"

    def __format__(self, spec: str) -> str:
        return f"<{spec}>"

    def __bool__(self) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Particular) and other.k == self.k

    def __hash__(self) -> int:
        return 7

    def __lt__(self, other: Particular) -> bool:
        return self.k < other.k

    def __dir__(self) -> list[str]:
        return ["k"]

    def __setitem__(self, at: int, item: str) -> None:
        self.store[at] = item


def test_operators_are_the_objects_own() -> None:
    plain, watched = Particular(["a"]), watch_retriever(Particular(["a"]))
    more = watch_retriever(Particular(["a"], k=3))
    assert (str(watched), f"{watched:x}", bool(watched)) == ("particular", "<x>", False)
    assert (hash(watched), dir(watched), vars(watched).keys()) == (7, ["k"], vars(plain).keys())
    assert watched.__doc__ == plain.__doc__
    assert watched == plain
    assert plain == watched
    assert watched != more
    assert watched < more
    watched[0] = "b"
    assert list(watched) == ["b"]


def test_watching_twice_tells_once(captured: Captured) -> None:
    watched = watch_retriever(Retriever(["a"]))
    assert watch_retriever(watched) is watched
    assert stages(captured, watch_retriever(watched)) == ["retrieve"]


class Store:
    """Searches as LangChain's vector stores do."""

    def __getattr__(self, name: str) -> Any:
        if not name.startswith(("similarity", "max_", "asim", "amax", "asearch")):
            raise AttributeError(name)

        def found(query: str, k: int = 4) -> list[tuple[str, float]]:
            return [(query, 0.5)] * k

        async def later(query: str, k: int = 4) -> list[tuple[str, float]]:
            return found(query, k)

        return later if name.startswith("a") else found


@pytest.mark.parametrize(
    "name",
    [
        "similarity_search",
        "similarity_search_with_score",
        "similarity_search_with_relevance_scores",
        "max_marginal_relevance_search",
    ],
)
async def test_every_search_of_a_vector_store(captured: Captured, name: str) -> None:
    watched = watch_retriever(Store(), source="kb")
    with sdk.turn("q"):
        getattr(watched, name)("q", k=2)
        await getattr(watched, f"a{name}")("q", k=2)
    assert captured.turn().stages == ["retrieve", "retrieve"]
    assert [row["content"] for row in captured.turn().documents] == ["q"] * 4


class Counted:
    """A stream that can do more than stream."""

    def __init__(self) -> None:
        self.left = 3
        self.name = "stream"

    def __iter__(self) -> Counted:
        return self

    def __next__(self) -> str:
        if not self.left:
            raise StopIteration
        self.left -= 1
        return "x"

    def __len__(self) -> int:
        return self.left

    def __getitem__(self, at: int) -> int:
        return at

    def __eq__(self, other: object) -> bool:
        return other == 5

    __hash__ = None  # type: ignore[assignment]


def with_one_left(stream: Any) -> list[str]:
    stream.left = 1
    return list(stream)


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(len, id="len"),
        pytest.param(lambda s: s[4], id="item"),
        pytest.param(lambda s: (s == 5, s == 6), id="equal"),
        pytest.param(with_one_left, id="setting"),
        pytest.param(lambda s: list(copy.copy(s)), id="copy"),
        pytest.param(lambda s: list(copy.deepcopy(s)), id="deepcopy"),
        pytest.param(lambda s: list(pickle.loads(pickle.dumps(s))), id="pickle"),
        pytest.param(lambda s: type(s).__name__, id="name"),
        pytest.param(vars, id="vars"),
        pytest.param(lambda s: isinstance(s, Counted), id="class"),
    ],
)
def test_a_recorded_stream_does_what_the_stream_does(captured: Captured, use: Any) -> None:
    with sdk.generate("m") as step:
        assert use(step.record(Counted())) == use(Counted())


def test_a_recorded_generator_is_sent_to_and_thrown_into(captured: Captured) -> None:
    def answer() -> Any:
        got = yield "a"
        try:
            yield got
        except KeyError:
            yield "c"

    with sdk.turn("q"), sdk.generate("m") as step:
        stream = step.record(answer())
        assert [next(stream), stream.send("b"), stream.throw(KeyError())] == ["a", "b", "c"]
        stream.close()
    assert captured.turn().answer == "abc"
