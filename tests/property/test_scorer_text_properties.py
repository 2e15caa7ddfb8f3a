"""Properties of reading text: fences hold, offsets are right, a copy is never vetoed."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.scorer_injections import INJECTIONS
from tests.support.scorer_openai_server import read_fences

from stagewatch.scorer.facts.compare import compare
from stagewatch.scorer.facts.quantities import read_quantities
from stagewatch.scorer.judges.embedded import EmbeddedJudge
from stagewatch.scorer.judges.fence import fence
from stagewatch.scorer.judges.guard import check_text
from stagewatch.scorer.judges.protocol import FaithfulnessReading, RelevanceReading
from stagewatch.scorer.judges.replies import find_quote
from stagewatch.scorer.sampling import is_sampled, position
from stagewatch.scorer.text.claims import read_answer
from stagewatch.scorer.text.passages import read_passages
from stagewatch.scorer.text.sentences import sentence_spans
from stagewatch.scorer.text.words import read_words

HOSTILE = st.text(
    alphabet=st.one_of(
        st.sampled_from(
            "<>‹›«»＜＞⟨⟩〈〉﹤﹥≪≫❮❯BEGINENDbeginendanswer 0123#\n\u200b\u2060\u00ad\ufeff"
        ),
        st.characters(codec="utf-8"),
    ),
    max_size=80,
)
WORDS = st.sampled_from(
    [
        "refund",
        "Refund",
        "the",
        "The",
        "a",
        "in",
        "of",
        "within",
        "not",
        "never",
        "no",
        "cannot",
        "can",
        "can't",
        "14",
        "30",
        "3.5",
        "1,200",
        "twenty",
        "five",
        "days",
        "hours",
        "EUR",
        "$",
        "%",
        "percent",
        "about",
        "at",
        "least",
        "most",
        "more",
        "than",
        "Monday",
        "January",
        "2024",
        "9:30",
        "am",
        "Berlin",
        "Paris",
        "shipping",
        "order",
        "orders",
        "customer",
        "open",
        "closed",
        "all",
        "none",
        "mandatory",
        "optional",
        "km",
        "mg",
        "million",
        "one",
        "first",
        "2nd",
        "v6",
        "401K",
        "and",
        "but",
        ",",
        ";",
        ".",
        "!",
        "?",
        "(",
        ")",
        "-",
        "“",
        "”",
    ]
)
PROSE = st.lists(WORDS, min_size=1, max_size=25).map(" ".join)
ONE_SENTENCE = PROSE.map(lambda text: text.translate(dict.fromkeys(map(ord, ".!?;"))))


@given(st.lists(HOSTILE, min_size=1, max_size=4))
@example(list(INJECTIONS))
def test_nothing_leaves_its_fence(texts: list[str]) -> None:
    blocks, outside = read_fences(fence("answer", texts))
    assert outside == ""
    assert len(blocks["answer"]) == len(texts)


def test_without_the_fence_rules_the_same_texts_do_escape() -> None:
    escaped = 0
    for text in INJECTIONS:
        raw = f"<<<BEGIN answer 1 #0>>>\n{text}\n<<<END answer 1 #0>>>"
        escaped += read_fences(raw)[1] != ""
    assert escaped >= 12


@given(HOSTILE)
def test_a_fence_is_the_same_for_the_same_text(text: str) -> None:
    assert fence("chunk", [text]) == fence("chunk", [text])


@given(st.one_of(PROSE, HOSTILE))
def test_claims_are_slices_of_the_answer_in_order(answer: str) -> None:
    reading = read_answer(answer)
    end = 0
    for claim in reading.claims:
        assert answer[claim.start : claim.end] == claim.text
        assert claim.start >= end
        end = claim.end
    assert not (reading.refused and reading.claims)


@given(st.one_of(PROSE, HOSTILE))
def test_sentences_cover_every_word_once(text: str) -> None:
    joined = [word for a, b in sentence_spans(text) for word in read_words(text[a:b]).words]
    assert joined == read_words(text).words


@given(ONE_SENTENCE)
def test_the_guard_leaves_a_copy_alone(text: str) -> None:
    assert check_text(text, read_passages([text])) is None


@given(PROSE)
def test_quantities_do_not_overlap_and_equal_themselves(text: str) -> None:
    words = read_words(text)
    last = -1
    for quantity in read_quantities(words):
        assert quantity.first > last
        last = quantity.last
        assert words.span(quantity.first, quantity.last) == quantity.text
        assert compare(quantity, quantity) == "same"


@given(PROSE, st.lists(PROSE, max_size=4))
def test_the_embedded_judge_is_total_and_in_bounds(answer: str, window: list[str]) -> None:
    judge = EmbeddedJudge()
    found = judge.faithfulness("How many days?", answer, window)
    assert isinstance(found, FaithfulnessReading)
    for claim in found.claims:
        assert claim.probability is not None
        assert 0.0 <= claim.probability <= 1.0
        assert claim.passage is None or 0 <= claim.passage < len(window)
        if not window:
            assert claim.label == "ABSENT"
    marks = judge.relevance(answer, window)
    assert isinstance(marks, RelevanceReading)
    assert len(marks.marks) == len(window)


@given(st.lists(PROSE, min_size=2, max_size=5, unique=True), st.randoms(use_true_random=False))
def test_relevance_does_not_depend_on_the_order(chunks: list[str], random: object) -> None:
    order = list(range(len(chunks)))
    random.shuffle(order)  # type: ignore[attr-defined]
    judge = EmbeddedJudge()
    one = judge.relevance("refund within 30 days", chunks)
    two = judge.relevance("refund within 30 days", [chunks[i] for i in order])
    assert isinstance(one, RelevanceReading)
    assert isinstance(two, RelevanceReading)
    assert [one.marks[i] for i in order] == list(two.marks)


@given(PROSE, st.data())
def test_a_quote_of_whole_words_is_found(answer: str, data: st.DataObject) -> None:
    words = answer.split()
    first = data.draw(st.integers(0, len(words) - 1))
    last = data.draw(st.integers(first, len(words) - 1))
    quote = " ".join(words[first : last + 1])
    if any(ch.isalnum() for ch in quote):
        span = find_quote(answer, quote)
        assert span is not None
        assert 0 <= span[0] < span[1] <= len(answer)


@given(st.text(min_size=1), st.floats(0, 1), st.floats(0, 1))
def test_sampling_is_nested(turn_id: str, one: float, two: float) -> None:
    low, high = sorted((one, two))
    assert 0.0 <= position(turn_id) < 1.0
    assert not is_sampled(turn_id, low) or is_sampled(turn_id, high)
    assert is_sampled(turn_id, 1.0)
    assert not is_sampled(turn_id, 0.0)
