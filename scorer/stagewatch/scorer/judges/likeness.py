"""How much passages are about a question by their sentence vectors, beside the words they share."""

from __future__ import annotations

from stagewatch.scorer.judges.vectors import Vectors
from stagewatch.scorer.text.passages import Passages

_RUN = 3
_STEP = 2
_NONE_AT, _SPAN = 0.15, 0.6
"""A cosine of 0.15 is chance between English texts, 0.75 as alike as question and answer get."""

SHARE = 0.5
"""Weight of the vectors beside the words: between 0.3 and 0.7 nothing in the labelled rows moves
by more than three points (docs/method.md)."""


def likeness(vectors: Vectors, question: str, passages: Passages) -> list[float]:
    """One value in [0, 1] a passage: how like the question its run of three sentences gets.

    Runs overlap by a sentence, since an answer often needs the sentence before it.
    """
    runs = [_runs(passages, number) for number in range(len(passages.texts))]
    flat = [text for texts in runs for text in texts]
    cosines = vectors.of(flat) @ vectors.of([question])[0]
    found, at = [], 0
    for texts in runs:
        best = float(cosines[at : at + len(texts)].max())
        # Rounded: how texts are batched moves the last digits, and must not move a label.
        found.append(min(1.0, max(0.0, (round(best, 4) - _NONE_AT) / _SPAN)))
        at += len(texts)
    return found


def _runs(passages: Passages, number: int) -> list[str]:
    sentences = [s for s in passages.sentences if s.passage == number]
    text = passages.texts[number]
    if not sentences:
        return [text]
    last = len(sentences) - 1
    return [
        text[sentences[first].start : sentences[min(first + _RUN - 1, last)].end]
        for first in range(0, max(1, last), _STEP)
    ]
