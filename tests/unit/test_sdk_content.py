"""What text leaves the process: switches, redaction, caps that keep JSON whole."""

from __future__ import annotations

import json
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan

from stagewatch import sdk
from stagewatch.sdk import Content, semconv
from stagewatch.sdk._content import digest
from stagewatch.sdk.testing import Captured, capture

SECRET = "account 4711"


def tell(content: Content) -> Captured:
    docs = [
        {"id": "d1", "content": f"{SECRET} in a document", "score": 1.0, "metadata": {"k": SECRET}}
    ]
    with capture(content=content) as captured:
        options: dict[str, Any] = {"user_id": SECRET, "history": [("user", SECRET)]}
        with pytest.raises(KeyError), sdk.turn(SECRET, **options):
            with sdk.rewrite(SECRET) as rewrite:
                rewrite.record(SECRET + "?")
            with sdk.retrieve(SECRET) as retrieve:
                retrieve.record(docs)
            with sdk.rerank(SECRET, docs) as rerank:
                rerank.record(docs)
            with sdk.generate("m", context=["no id " + SECRET], messages=SECRET) as generate:
                generate.record(SECRET)
            raise KeyError(SECRET)
    return captured


def told(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def everything_sent(captured: Captured) -> str:
    return "".join(span.to_json() for span in captured.spans)


def test_content_on_sends_it() -> None:
    assert SECRET in everything_sent(tell(Content()))


@pytest.mark.parametrize("content", [Content.all("off"), Content.all("hashed")])
def test_content_off_or_hashed_sends_no_text_at_all(content: Content) -> None:
    captured = tell(content)
    assert SECRET not in everything_sent(captured)
    documents = captured.turn().documents
    assert [(d["rank"], d["id"], d["score"]) for d in documents] == [(1, "d1", 1.0)]
    assert semconv.INPUT in captured.turn().attributes[semconv.REDACTED]


def test_hashes_tell_equal_texts_apart_from_others() -> None:
    captured = tell(Content(question="hashed"))
    assert captured.turn().question == digest(SECRET)
    assert captured.turn().rewritten_query == digest(SECRET + "?")


def test_one_field_can_be_withheld_alone() -> None:
    captured = tell(Content(answer="off"))
    assert captured.turn().question == SECRET
    assert captured.turn().answer is None


def test_redaction_sees_every_text() -> None:
    fields = set()

    def redact(field: str, text: str) -> str:
        fields.add(field)
        return text.replace("4711", "****")

    sent = everything_sent(tell(Content(redact=redact)))
    assert "4711" not in sent
    assert "account ****" in sent
    assert fields == {
        "question",
        "history",
        "documents",
        "metadata",
        "messages",
        "answer",
        "error",
        "user_id",
    }


def test_a_broken_redactor_lets_nothing_out() -> None:
    def redact(field: str, text: str) -> str:
        raise RuntimeError(text)

    assert SECRET not in everything_sent(tell(Content(redact=redact)))


def test_a_long_document_is_cut_and_says_its_length() -> None:
    content = Content(max_document=10)
    with capture(content=content) as captured, sdk.turn("q"), sdk.retrieve("q") as step:
        step.record([{"id": "a", "content": "x" * 50}, {"id": "b", "content": "short"}])
    first, second = captured.turn().documents
    assert (first["content"], first["cut"]) == ("x" * 10, 50)
    assert "cut" not in second
    assert told(captured.spans[0])[semconv.CUT] == ("gen_ai.retrieval.documents[1]:50",)


@pytest.mark.parametrize("cap", [200, 2_000, 20_000])
def test_a_list_over_the_cap_stays_json_and_keeps_the_best_ranks(cap: int) -> None:
    docs = [{"id": f"d{n}", "content": "y" * 900, "score": 1 / (n + 1)} for n in range(60)]
    content = Content(max_json=cap)
    with capture(content=content) as captured, sdk.turn("q"), sdk.retrieve("q") as step:
        step.record(docs)
    sent = told(captured.spans[0])[semconv.DOCUMENTS]
    assert len(sent) <= cap
    rows = json.loads(sent)
    assert [row["rank"] for row in rows] == list(range(1, len(rows) + 1))
    assert rows[0]["id"] == "d0"
    cuts = told(captured.spans[0])[semconv.CUT]
    assert any(note.startswith("gen_ai.retrieval.documents:") for note in cuts)


def test_an_attribute_length_limit_of_the_app_does_not_cut_json() -> None:
    limited = Content().limited_to(500)
    docs = [{"id": f"d{n}", "content": "y" * 900} for n in range(9)]
    with capture(content=limited) as captured, sdk.turn("q"), sdk.retrieve("q") as step:
        step.record(docs)
    sent = told(captured.spans[0])[semconv.DOCUMENTS]
    assert len(sent) <= 500
    assert json.loads(sent)[0]["id"] == "d0"
