"""Sentence vectors: the published model's own figures, what they add to the embedded judge, and
that scoring goes on without them.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stagewatch.core.settings import Settings
from stagewatch.scorer.judges.choose import free_judge
from stagewatch.scorer.judges.embedded import EmbeddedJudge
from stagewatch.scorer.judges.protocol import RelevanceReading, SufficiencyReading
from stagewatch.scorer.judges.vectors import NoModelError, Vectors, load_vectors, model_folder


@pytest.fixture(scope="module")
def vectors() -> Vectors:
    return load_vectors()


def test_cosines_are_those_that_the_models_authors_print(vectors: Vectors) -> None:
    # https://sbert.net/docs/quickstart.html, all-MiniLM-L6-v2
    texts = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
    found = vectors.of(texts)
    wanted = [[1.0, 0.6660, 0.1046], [0.6660, 1.0, 0.1411], [0.1046, 0.1411, 1.0]]
    assert np.allclose(found @ found.T, wanted, atol=5e-4)


def test_a_text_has_one_vector_whoever_stands_beside_it(vectors: Vectors) -> None:
    texts = [
        f"Order {i} ships on day {i % 7}. " + "More words follow. " * (i % 40) for i in range(60)
    ]
    fresh = load_vectors()
    alone = np.stack([fresh.of([text])[0] for text in texts])
    assert np.allclose(vectors.of(texts), alone, atol=1e-5)
    assert np.allclose(np.linalg.norm(alone, axis=1), 1.0, atol=1e-5)
    assert vectors.of([]).shape == (0, 384)
    assert np.isfinite(vectors.of(["", "\0", "word " * 3000, "𓀀"])).all()


def test_a_passage_in_other_words_is_seen_with_vectors_only(vectors: Vectors) -> None:
    question = "How do I get my money back?"
    chunks = [
        "Refunds are issued to the original payment card once the return has arrived.",
        "Our headquarters moved to a larger building near the river in spring.",
    ]
    words, both = EmbeddedJudge(), EmbeddedJudge(vectors)
    by_words, by_both = words.relevance(question, chunks), both.relevance(question, chunks)
    assert isinstance(by_words, RelevanceReading)
    assert isinstance(by_both, RelevanceReading)
    ahead = [r.probabilities[0] - r.probabilities[1] for r in (by_words, by_both)]  # type: ignore[operator]
    assert ahead[1] > ahead[0] + 0.1
    held, lacking = (both.sufficiency(question, [chunk]) for chunk in chunks)
    assert isinstance(held, SufficiencyReading)
    assert isinstance(lacking, SufficiencyReading)
    assert held.probability is not None
    assert lacking.probability is not None
    assert held.probability > lacking.probability + 0.2
    assert words.fingerprint != both.fingerprint
    # What was claimed is judged by words, figures and names alone.
    answer = "You have 14 days."
    window = ["The window is 30 days from delivery."]
    assert words.faithfulness(question, answer, window) == both.faithfulness(
        question, answer, window
    )


def test_another_file_than_the_pinned_one_is_not_used(tmp_path: Path) -> None:
    where = model_folder()
    assert where is not None
    with pytest.raises(NoModelError, match=r"model\.safetensors is not there"):
        load_vectors(tmp_path)
    (tmp_path / "model.safetensors").symlink_to(where / "model.safetensors")
    shutil.copy(where / "tokenizer.json", tmp_path)
    with (tmp_path / "tokenizer.json").open("a") as file:
        file.write(" ")
    with pytest.raises(NoModelError, match="not the pinned file"):
        load_vectors(tmp_path)


def test_without_the_model_the_judge_reads_words_alone_and_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked = replace(Settings(), vectors="local")
    with_model = free_judge(asked).fingerprint
    assert with_model != EmbeddedJudge().fingerprint
    free_judge.__globals__["_local_vectors"].cache_clear()
    monkeypatch.setattr("stagewatch.scorer.judges.vectors.model_folder", lambda: None)
    try:
        assert free_judge(asked).fingerprint == EmbeddedJudge().fingerprint
        assert "words alone" in caplog.text
        assert "make local" in caplog.records[0].why  # type: ignore[attr-defined] # given as extra
    finally:
        free_judge.__globals__["_local_vectors"].cache_clear()
    assert free_judge(Settings()).fingerprint == EmbeddedJudge().fingerprint
