"""Words and numbers of the pages: each filter says what a person can read."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.support.scorer_turns import turn

from stagewatch.api.web.render import (
    because,
    capitalized,
    chance,
    comparisons,
    date,
    measured,
    thousands,
    what_moved,
)
from stagewatch.api.web.session_pages import own_page
from stagewatch.api.web.shape import shown_needs
from stagewatch.core.model import Need, Passage, Score
from stagewatch.demo.telling import next_steps


def test_a_reason_is_words_and_says_where_the_metric_passes() -> None:
    assert because(Score("rewrite_fidelity", "not_applicable", None, reason="no_rewrite")) == (
        "no rewrite"
    )
    rank = Score("first_relevant_rank", "scored", 4.0, threshold=3.0)
    assert because(rank) == "passes at ≤ 3"
    faithful = Score("faithfulness", "scored", 1.0, reason="1 of 1 claims", threshold=0.7)
    assert because(faithful) == "1 of 1 claims; passes at ≥ 0.7"
    unread = Score("faithfulness", "unscored", None, reason="no_answer", threshold=0.7)
    assert because(unread) == "no answer"


@pytest.mark.parametrize(
    ("p", "shown"),
    [(0.0, "< 0.001"), (0.0004, "< 0.001"), (0.0621, "0.062"), (1.0, "1"), (None, "–")],
)
def test_a_small_chance_is_not_none(p: float | None, shown: str) -> None:
    assert chance(p) == shown


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("assembly_lag_seconds", 0.0, ("assembly lag", "0.0 s")),
        ("spool_bytes", 12345, ("spool", "12,345 bytes")),
        ("lag_s", 3, ("lag", "3 s")),
        ("pending_traces", 1490, ("pending traces", "1,490")),
        ("judge", "embedded", ("judge", "embedded")),
    ],
)
def test_a_part_s_numbers_have_their_units(key: str, value: object, shown: tuple[str, str]) -> None:
    assert measured(key, value) == shown


def test_the_stage_beside_an_alert_is_not_said_twice() -> None:
    assert what_moved({"sentence": "ranking: rank fell: much"}) == "rank fell: much"
    assert what_moved({"sentence": "nothing arrives"}) == "nothing arrives"
    assert capitalized("windows of RAG fell") == "Windows of RAG fell"


@pytest.mark.parametrize(
    ("address", "page"),
    [
        ("/turns?q=a", "/turns?q=a"), ("/", "/"), ("", "/"), ("turns", "/"), ("//evil.test", "/"),
        ("/\\evil.test", "/"), ("https://evil.test", "/"), ("/\t/evil.test", "/"), ("/a\nb", "/"),
    ],
)  # fmt: skip
def test_signing_in_leads_to_a_page_of_this_server_only(address: str, page: str) -> None:
    assert own_page(address) == page


def test_an_alert_leads_to_the_versions_that_changed_near_it() -> None:
    near = ["release 1.5.0 → 1.5.1", "index version kb & 1 → kb/2", "judge a → b", "odd"]
    assert comparisons({"near": near, "project": "shop"}) == [
        ("/compare?by=release&a=1.5.0&b=1.5.1&project=shop", "Compare release 1.5.0 with 1.5.1"),
        (
            "/compare?by=index_version&a=kb+%26+1&b=kb%2F2&project=shop",
            "Compare index version kb & 1 with kb/2",
        ),
    ]


def test_the_demo_ends_with_where_to_look() -> None:
    said = next_steps("http://127.0.0.1:1234", "/runs/a/diff/b", Path("kept"))
    assert "http://127.0.0.1:1234/review" in said
    assert "turns --flagged --data-dir kept\n" in said
    assert said.endswith("http://127.0.0.1:1234/runs/a/diff/b")


def test_counts_and_days_are_whole() -> None:
    assert thousands(1490) == "1,490"
    assert date(datetime(2026, 11, 30, 12, 4, 5, tzinfo=UTC)) == "2026-11-30 12:04:05"


def test_a_need_comes_with_the_text_the_turn_holds_of_it() -> None:
    asked = turn("q?", "a", ["thirty days", "shipping"])
    held = asked.retrievals[0].chunks[0]
    needs = [
        Need((Passage(chunk_id="never fetched"), Passage(chunk_id=held.chunk_id))),
        Need((Passage(document_id="handbook", version="v2"),)),
    ]
    assert shown_needs(asked, needs) == [
        (f"never fetched or {held.chunk_id}", held.content),
        ("handbook (v2)", ""),
    ]
