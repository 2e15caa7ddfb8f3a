"""A run in numbers."""

from __future__ import annotations

import pytest
from tests.support.plans_runs import row, score, summaries

from stagewatch.scorer.plans.results import count_verdicts, pass_share, read_summary, summary_text
from stagewatch.scorer.plans.table import table_from_texts
from stagewatch.scorer.plans.tally import median_latency, tally_kinds, tally_metrics
from stagewatch.scorer.thresholds import Thresholds

ROWS = [
    row("a", "happy_path", score("context_recall", 1.0), score("first_relevant_rank", 1.0)),
    row("b", "happy_path", score("context_recall", 0.7), score("first_relevant_rank", 4.0)),
    row("c", "near_miss", score("context_recall", 0.0), score("first_relevant_rank", None),
        status="needs_review"),
    row("d", "near_miss", score("context_recall", None, status="unscored")),
    row("e", "near_miss", score("context_recall", None, status="not_applicable")),
    row("f", "happy_path", error="the app answered 500"),
]  # fmt: skip


def test_a_metric_counts_what_it_scored_and_names_the_rest() -> None:
    recall, rank = tally_metrics(summaries(ROWS), Thresholds())
    assert (recall.passed, recall.judged, recall.unscored, recall.not_applicable) == (2, 3, 1, 1)
    assert recall.mean == pytest.approx(1.7 / 3)
    assert recall.by_kind == {"happy_path": (2, 2), "near_miss": (0, 1)}
    assert recall.low is not None
    assert recall.high is not None
    assert recall.low < 2 / 3 < recall.high
    assert {b.label: b.n for b in recall.bins if b.n} == {"0.0": 1, "0.7": 1, "0.9": 1}
    assert [b.label for b in recall.bins if b.passes] == ["0.7", "0.8", "0.9"]
    assert rank.mean is None
    assert {b.label: b.n for b in rank.bins if b.n} == {"1": 1, "4": 1, "miss": 1}
    assert [b.label for b in rank.bins if b.passes] == ["1", "2", "3"]


def test_a_flag_passes_at_zero() -> None:
    rows = [row("a", "happy_path", score("answered_from_superseded", 0.0, basis="rule"))]
    flag = tally_metrics(summaries(rows), Thresholds())[0]
    assert [b.label for b in flag.bins if b.passes] == ["0.0"]


def test_errored_rows_are_in_no_rate() -> None:
    counts = count_verdicts(summaries(ROWS))
    assert counts == {"pass": 3, "fail": 2, "errored": 1}
    assert pass_share(counts) == pytest.approx(3 / 5)
    assert pass_share({"pass": 0, "fail": 0, "errored": 4}) is None


def test_kinds_and_latency() -> None:
    happy, near = tally_kinds(summaries(ROWS))
    assert (happy.kind, happy.rows, happy.errored, happy.waiting) == ("happy_path", 3, 1, 0)
    assert (near.rows, near.failed, near.waiting) == (3, 1, 1)
    assert median_latency(summaries(ROWS)) == 12.0
    assert median_latency(summaries(ROWS[-1:])) is None


def test_the_short_form_and_the_table_say_what_the_row_says() -> None:
    for item in ROWS:
        back = read_summary(summary_text(item))
        assert {n: (s.status, s.value, s.verdict, s.hard_fail, s.basis)
                for n, s in back.scores.items()} == {
            s.metric: (s.status, s.value, s.verdict, s.hard_fail, s.basis) for s in item.scores
        }  # fmt: skip
    table = table_from_texts([summary_text(item) for item in ROWS])
    recall = table.column("context_recall")
    assert recall.status.tolist() == [1, 1, 1, 2, 3, 0]
    assert recall.verdict.tolist() == [1, 1, 2, 0, 0, 0]
    assert recall.value[:3].tolist() == [1.0, 0.7, 0.0]
    assert table_from_texts([]).heads == ()
