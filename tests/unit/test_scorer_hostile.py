"""Texts made to be slow: the work stays near linear, counted in what is compared, not in seconds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.scorer_turns import turn

from stagewatch.scorer.evaluate import evaluate_turn
from stagewatch.scorer.judges.embedded import EmbeddedJudge
from stagewatch.scorer.text.sentences import LONGEST, sentence_spans

_SIZE = 100_000

HOSTILE = {
    "spaces": "a" + " " * _SIZE + "b",
    "one word": "a" * _SIZE,
    "digits": "1" * _SIZE,
    "dots": "." * _SIZE,
    "question marks": "?" * _SIZE,
    "no punctuation": "refund days " * (_SIZE // 12),
    "citations": "[1" * (_SIZE // 2),
    "negations": "not " * (_SIZE // 4),
    "refusals": "I do not " * (_SIZE // 9),
    "numbers": "one hundred and " * (_SIZE // 16),
    "clauses": "you, and you " * (_SIZE // 13),
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("where", ["question", "answer", "chunk"])
def test_a_hostile_text_is_read_to_the_end(name: str, where: str) -> None:
    """Quadratic work on this size takes minutes and runs into the timeout."""
    text = HOSTILE[name]
    asked = turn("How many days for a refund?", "Within 30 days.", ["refund", "hours"])
    if where == "chunk":
        chunks = (replace(asked.window[0], content=text), asked.window[1])
        retrieval = replace(asked.retrievals[0], chunks=chunks)
        asked = replace(asked, window=chunks, retrievals=(retrieval,))
    elif where == "answer":
        asked = replace(asked, answer=text)
    else:
        asked = replace(asked, question=text)
    found = evaluate_turn(asked, EmbeddedJudge())
    assert found.diagnosis.why


@pytest.mark.parametrize("name", HOSTILE)
def test_no_sentence_is_longer_than_the_bound_and_nothing_is_lost(name: str) -> None:
    text = HOSTILE[name]
    spans = sentence_spans(text)
    assert all(0 < end - start <= LONGEST for start, end in spans)
    kept = "".join(text[start:end] for start, end in spans)
    assert "".join(kept.split()) == "".join(text.split())
