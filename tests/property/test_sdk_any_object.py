"""Whatever an app hands to the SDK comes back as it was, and nothing is ever raised."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stagewatch import sdk
from stagewatch.sdk._content import Content, Notes
from stagewatch.sdk._documents import read_documents
from stagewatch.sdk._guard import guard
from stagewatch.sdk._passages import documents_json, untouched_json
from stagewatch.sdk.testing import capture


class Hostile:
    """Raises from everything that can be asked of it."""

    def __getattribute__(self, name: str) -> Any:
        if name == "__class__":
            return object.__getattribute__(self, name)
        raise RuntimeError(name)

    def __iter__(self) -> Any:
        raise RuntimeError("iter")

    def __len__(self) -> int:
        raise RuntimeError("len")

    def __str__(self) -> str:
        raise RuntimeError("str")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("eq")

    __hash__ = None  # type: ignore[assignment]


THINGS: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=10),
        st.text(st.characters(categories=["Cs"]), max_size=3),
        st.binary(max_size=5),
        st.builds(Hostile),
        st.builds(object),
        st.just(Hostile),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner, inner),
        st.dictionaries(
            st.sampled_from(
                [
                    "id",
                    "content",
                    "score",
                    "metadata",
                    "node",
                    "documents",
                    "choices",
                    "usage",
                    "message",
                    "role",
                    "text",
                ]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(THINGS)
def test_any_object_passes_through_every_stage(thing: Any) -> None:
    make_turn: Any = sdk.turn
    # Not strict: objects that raise when looked at are the app's, and the guard is what is tested.
    options = {"history": thing, "tags": thing, "conversation_id": thing}
    with capture(strict=False) as captured, make_turn("q", **options) as turn:
        for step in (
            sdk.rewrite("q"),
            sdk.retrieve("q"),
            sdk.rerank("q", thing),
            sdk.generate("m", context=thing, messages=thing),
        ):
            with step:
                assert step.record(thing) is thing
        assert turn.record(thing) is thing
    assert len(captured.spans) == 5


PLAIN_DOCUMENTS = st.lists(
    st.fixed_dictionaries(
        {"content": st.text(max_size=300)},
        optional={
            "id": st.text(max_size=20),
            "score": st.floats(),
            "metadata": st.dictionaries(
                st.text(max_size=5), st.one_of(st.text(), st.floats(), st.none()), max_size=3
            ),
        },
    ),
    max_size=30,
)


@settings(max_examples=200, deadline=None)
@given(PLAIN_DOCUMENTS, st.integers(2, 5_000))
def test_documents_are_valid_json_inside_the_cap_with_ranks_from_one(
    documents: list[dict[str, Any]], cap: int
) -> None:
    notes = Notes()
    text = documents_json(read_documents(documents) or [], "k", Content(max_json=cap), notes)
    if text is None:
        assert documents
        assert notes.cut
        return
    assert len(text) <= cap
    rows = json.loads(text)
    assert [row["rank"] for row in rows] == list(range(1, len(rows) + 1))
    assert len(rows) == len(documents) or notes.cut


WORDS = st.text(max_size=5) | st.just("a\ud800") | st.text("a\n\x01", min_size=700)
OWN_DOCUMENTS = st.lists(
    st.fixed_dictionaries(
        {"content": WORDS},
        optional={
            "id": WORDS,
            "version": WORDS | st.none(),
            "score": st.floats() | st.integers(),
            "document_id": WORDS | st.integers(),
            "title": WORDS,
        },
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=300, deadline=None)
@given(OWN_DOCUMENTS, st.sampled_from([10, 100, 5_000]), st.integers(0, 4))
def test_the_short_way_writes_what_the_long_way_does(
    documents: list[dict[str, Any]], cap: int, most: int
) -> None:
    content = Content(max_document=cap, max_json=cap * 2, max_documents=most)
    notes = Notes()
    text = documents_json(read_documents(documents) or [], "k", content, notes)
    assert untouched_json(documents, content) in {None, text}
    if untouched_json(documents, content) is not None:
        assert not notes.cut


def test_the_short_way_is_taken_for_our_own_words() -> None:
    documents = [{"id": "a", "content": "one", "score": 0.5}, {"content": "two"}]
    assert json.loads(untouched_json(documents, Content()) or "null") == [
        {"rank": 1, "id": "a", "content": "one", "score": 0.5},
        {"rank": 2, "content": "two"},
    ]
    for closed in (Content(documents="hashed"), Content(redact=lambda _, text: text)):
        assert untouched_json(documents, closed) is None


def test_a_name_that_raises_costs_that_document_only() -> None:
    class Name(str):
        __slots__ = ()

        def __hash__(self) -> int:
            if asked.get("now"):
                raise RuntimeError("hash")
            return 1

    asked: dict[str, bool] = {}
    documents: list[dict[str, Any]] = [{"content": "one"}, {"content": "two", Name("id"): "b"}]
    asked["now"] = True
    with capture(strict=False) as captured, sdk.turn("q"), sdk.retrieve("q") as step:
        step.record(documents)
    rows = captured.turn().documents
    assert [row["rank"] for row in rows] == [1, 2]
    assert rows[0]["content"] == "one"


@pytest.mark.parametrize("stage", ["turn", "rewrite", "retrieve", "rerank", "generate"])
def test_our_own_failures_never_reach_the_app(
    stage: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def start_span(self, *_: object, **__: object) -> object:
            raise RuntimeError("our bug")

    with capture(strict=False):
        monkeypatch.setattr("stagewatch.sdk._runtime.Runtime.tracer", lambda _: Broken())
        with getattr(sdk, stage)("x") as step:
            assert step.record("kept") == "kept"

        def function(text: str) -> str:
            return text + "!"

        assert getattr(sdk, stage)(function)("x") == "x!"
        guard.reraise = True
        with pytest.raises(RuntimeError, match="our bug"), getattr(sdk, stage)("x"):
            pass
