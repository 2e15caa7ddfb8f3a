"""The SDK's own JSON writer says what the standard library's says, for any text."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stagewatch.sdk._json import (
    compact,
    escaped,
    escaped_together,
    messages_json,
    ranked_json,
)

SPECIAL = '\x00\x01\x1f"\\/\n\r\t\b\f\x7f{}[]'
AWKWARD = st.text(alphabet=st.sampled_from(SPECIAL + "a é\u2028\U0001f600"))
# Long texts take another way than short ones.
TEXTS = st.builds(lambda text, times: text * times, AWKWARD | st.text(), st.integers(1, 400))


@given(TEXTS)
def test_a_text(text: str) -> None:
    assert f'"{escaped(text)}"' == json.dumps(text, ensure_ascii=False)


@given(st.lists(TEXTS, min_size=1, max_size=6))
def test_texts_together(texts: list[str]) -> None:
    assert list(escaped_together(texts)) == [escaped(text) for text in texts]


class Escaping(str):
    """As markupsafe's: its methods do not do what `str`'s do."""

    __slots__ = ()

    def replace(self, *_: Any, **__: Any) -> str:
        return "wrong"

    def __format__(self, spec: str) -> str:
        return "wrong"


@given(TEXTS)
def test_a_text_of_another_class(text: str) -> None:
    assert f'"{escaped(Escaping(text))}"' == json.dumps(text, ensure_ascii=False)
    (row,) = json.loads(ranked_json([{"content": Escaping(text)}]))
    assert row["content"] == text


@given(
    st.lists(
        st.fixed_dictionaries(
            {"content": TEXTS},
            optional={
                "id": TEXTS,
                "score": st.floats(allow_nan=False, allow_infinity=False),
                "cut": st.integers(),
                "metadata": st.dictionaries(TEXTS, TEXTS | st.none() | st.integers()),
            },
        ),
        max_size=4,
    )
)
def test_ranked_rows(rows: list[dict[str, Any]]) -> None:
    ranked = [{"rank": rank, **row} for rank, row in enumerate(rows, start=1)]
    assert ranked_json(rows) == compact(ranked)


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=4))
def test_messages(rows: list[tuple[str, str]]) -> None:
    read = json.loads(messages_json(rows, "stop"))
    assert [(row["role"], row["parts"][0]["content"]) for row in read] == rows
    assert all(row["finish_reason"] == "stop" for row in read)
