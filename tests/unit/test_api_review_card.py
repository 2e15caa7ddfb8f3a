"""What a reviewer and a terminal are told of a turn."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.scorer_turns import turn

from stagewatch.api.promote import kind_why, suggest_kind, suggest_needs
from stagewatch.api.views import TurnView, marked
from stagewatch.api.web.shape import evidence_of, passage_names
from stagewatch.core.cli.data import turn_text
from stagewatch.core.codec import to_plain
from stagewatch.core.model import Need, Passage
from stagewatch.core.store.scores import Diagnosed
from stagewatch.scorer.evaluate import evaluate_turn
from stagewatch.scorer.judges.embedded import EmbeddedJudge

QUESTION = "Within how many days can I return an item for a refund?"
RIGHT = "You can return any item within 30 days from delivery for a full refund."
NAMES = ["refund", "shipping", "warranty", "giftcard", "damaged"]


def view_of(answer: str, names: list[str] = NAMES) -> TurnView:
    asked = turn(QUESTION, answer, names)
    found = evaluate_turn(asked, EmbeddedJudge())
    marks = tuple(1 if mark else 0 for mark in found.relevance[0])
    known = Diagnosed(found.diagnosis, found.passed, marks, found.fingerprint, asked.started_at)
    return TurnView(
        marked(asked, known), list(found.scores), list(found.claims), found.diagnosis,
        found.passed, None, [], [],
    )  # fmt: skip


def test_the_card_shows_the_passage_that_contradicts() -> None:
    view = view_of(RIGHT.replace("30", "14"))
    found = evidence_of(view)
    assert found is not None
    assert found.label == "refund-1"
    assert "within 30 days" in found.text
    assert "14 days" in found.claim


def test_a_refusal_shows_the_relevant_passage() -> None:
    found = evidence_of(view_of("I could not find that."))
    assert found is not None
    assert (found.label, found.claim) == ("refund-1", "")
    assert evidence_of(view_of("I could not find that.", ["hours", "stores"])) is None


def test_a_contradicted_answer_is_an_ordinary_question_and_says_why() -> None:
    view = view_of(RIGHT.replace("30", "14"))
    assert suggest_kind(view) == "happy_path"
    assert "the right passage was there" in kind_why(view)
    assert kind_why(view_of(RIGHT)) == "nothing in the turn was a trap"


def test_needs_are_named_as_a_person_reads_them() -> None:
    assert passage_names(suggest_needs(view_of(RIGHT))) == ["refund-1"]
    need = Need((Passage(chunk_id="a"), Passage(document_id="d", version="v7")))
    assert passage_names([need]) == ["a or d (v7)"]


@pytest.mark.parametrize("words", ["not applicable", "0.667", "missed at depth"])
def test_a_terminal_prints_whole_words(words: str) -> None:
    view = view_of("I could not find that.", ["hours", "stores"])
    body: dict[str, Any] = view.as_plain()
    body["scores"] += to_plain(
        [{"metric": "m", "status": "scored", "value": 2 / 3, "verdict": "fail", "basis": "judge",
          "reason": "2 of 3"}]
    )  # fmt: skip
    assert words in turn_text(body)
