"""The gate: default conditions, second reviewers, judges, user conditions, reports."""

from __future__ import annotations

import dataclasses
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from typing import Any

import pytest
from tests.support.plans_runs import options, row, run, score, summaries

from stagewatch.scorer.plans.gate import GateResult, decide_gate
from stagewatch.scorer.plans.report import github_annotations, junit_xml, markdown, plain_text
from stagewatch.scorer.plans.results import RunRow

RECALL = "recall on multi hop and near miss rows"
REFUSAL = "no invented answers on unanswerable rows"
PRECISION = "precision on stale policy rows"


def gate(
    before: Sequence[RunRow], after: Sequence[RunRow], *, calibrated: bool = False,
    runs: tuple[dict[str, Any], dict[str, Any]] = ({}, {}), **fields: Any,
) -> GateResult:  # fmt: skip
    return decide_gate(
        run("A", **runs[0]), run("B", **runs[1]), summaries(before), summaries(after),
        options=options(**fields), calibrated=lambda _metric, _fingerprint: calibrated,
    )  # fmt: skip


def blocked(result: GateResult) -> dict[str, tuple[str, ...]]:
    return {c.name: c.rows for c in result.conditions if c.outcome == "blocked"}


def one(kind: str, metric: str, value: float | None, **fields: Any) -> list[RunRow]:
    return [row("x", kind, score(metric, value, **fields)), row("y", "happy_path")]


@pytest.mark.parametrize("kind", ["multi_hop", "near_miss"])
def test_recall_must_not_drop_on_multi_hop_and_near_miss(kind: str) -> None:
    high, low = one(kind, "context_recall", 1.0), one(kind, "context_recall", 0.9)
    found = gate(high, low)
    assert (found.outcome, found.exit_code) == ("blocked", 1)
    assert blocked(found) == {RECALL: ("x",)}
    assert gate(low, high).outcome == "pass"
    # No default condition looks at other kinds; that is not the same as being fine.
    happy = gate(one("happy_path", "context_recall", 1.0), one("happy_path", "context_recall", 0.0))
    assert (happy.outcome, blocked(happy)) == ("cannot_tell", {})
    unseen = next(c for c in happy.conditions if c.outcome == "cannot_tell")
    assert unseen.rows == ("x",)
    assert "no condition looks at" in unseen.sentence


def test_precision_must_not_fall_on_stale_policy_rows() -> None:
    high = one("stale_policy", "context_precision_at_k", 1.0)
    low = one("stale_policy", "context_precision_at_k", 0.5)
    assert blocked(gate(high, low)) == {PRECISION: ("x",)}
    assert gate(high, high).outcome == "pass"


def test_hard_fails_on_unanswerable_rows_block_whatever_the_baseline_had() -> None:
    invents = one("unanswerable", "refusal", 0.0, hard=True)
    refuses = one("unanswerable", "refusal", 1.0)
    assert blocked(gate(invents, invents)) == {REFUSAL: ("x",)}
    assert gate(invents, refuses).outcome == "pass"


def test_rows_without_a_second_person_do_not_count_unless_the_plan_says_so() -> None:
    before = [row("x", "near_miss", score("context_recall", 1.0), status="needs_review"), row("y")]
    after = [row("x", "near_miss", score("context_recall", 0.0), status="needs_review"), row("y")]
    strict = gate(before, after)
    assert (strict.outcome, strict.waiting) == ("pass", 1)
    lenient = gate(before, after, require_second_reviewer=False)
    assert (lenient.outcome, lenient.waiting) == ("blocked", 0)
    assert blocked(lenient) == {RECALL: ("x",)}


def test_a_judges_word_blocks_only_when_it_is_calibrated() -> None:
    before = one("near_miss", "context_sufficiency", 1.0, basis="judge")
    after = one("near_miss", "context_sufficiency", 0.0, basis="judge")
    unsure = gate(before, after)
    assert (unsure.outcome, unsure.exit_code) == ("cannot_tell", 2)
    said = next(c for c in unsure.conditions if c.name == RECALL)
    assert (said.basis, said.rows) == ("judge", ("x",))
    assert "not calibrated" in said.sentence
    assert gate(before, before).outcome == "cannot_tell"
    sure = gate(before, after, calibrated=True)
    assert blocked(sure) == {RECALL: ("x",)}
    assert gate(before, before, calibrated=True).outcome == "pass"
    other_judge = gate(before, after, calibrated=True, runs=({}, {"fingerprint": "judge-2"}))
    assert other_judge.outcome == "cannot_tell"


def test_blocked_wins_over_cannot_tell() -> None:
    before = [row("g", "near_miss", score("context_recall", 1.0)),
              row("j", "stale_policy", score("context_precision_at_k", 1.0, basis="judge"))]  # fmt: skip
    after = [row("g", "near_miss", score("context_recall", 0.0)),
             row("j", "stale_policy", score("context_precision_at_k", 0.0, basis="judge"))]  # fmt: skip
    found = gate(before, after)
    assert found.exit_code == 1
    assert {c.outcome for c in found.conditions} == {"blocked", "cannot_tell", "pass"}


def test_a_row_that_errors_now_proves_nothing() -> None:
    before = one("near_miss", "context_recall", 1.0)
    after = [row("x", "near_miss", error="the app answered 500"), row("y")]
    found = gate(before, after)
    assert found.exit_code == 2
    lost = next(c for c in found.conditions if c.name == "every row has a verdict")
    assert (lost.rows, lost.basis) == (("x",), "rule")
    assert "the app answered 500" in lost.sentence


def test_a_gate_that_checks_nothing_says_so() -> None:
    found = gate([row("a")], [row("a")])
    assert found.outcome == "pass"
    assert "demands nothing" in found.warnings[-1]


def test_runs_that_cannot_be_compared_cannot_tell() -> None:
    assert gate([row("a")], [row("b")]).exit_code == 2
    stopped = gate([row("a")], [row("a")], runs=({}, {"state": "stopped", "note": "budget"}))
    assert stopped.exit_code == 2
    assert "budget" in stopped.conditions[0].sentence


def condition(rule: str, **fields: Any) -> dict[str, Any]:
    return {"defaults": False,
            "conditions": [{"name": "c", "metric": "answer_precision", "rule": rule, **fields}]}  # fmt: skip


def many(passing: int, failing: int, *, errored: int = 0, basis: str = "rule") -> list[RunRow]:
    values = [1.0] * passing + [0.0] * failing
    rows = [row(f"r{n}", "happy_path", score("answer_precision", value, basis=basis))
            for n, value in enumerate(values)]  # fmt: skip
    lost = [row(f"e{n}", "happy_path", error="no answer") for n in range(errored)]
    return [*rows, *lost]


@pytest.mark.parametrize(
    ("after", "fields", "outcome"),
    [
        (many(9, 1), condition("min_pass_rate", limit=0.9), "pass"),
        (many(8, 2), condition("min_pass_rate", limit=0.9), "blocked"),
        (many(8, 1, errored=1), condition("min_pass_rate", limit=0.9), "cannot_tell"),
        (many(9, 1), condition("max_fails", limit=1), "pass"),
        (many(8, 2), condition("max_fails", limit=1), "blocked"),
        (many(9, 0, errored=2), condition("max_fails", limit=1), "cannot_tell"),
        (many(9, 0, errored=1), condition("max_fails", limit=1), "pass"),
        (many(9, 1, basis="judge"), condition("min_pass_rate", limit=0.9), "cannot_tell"),
        (many(9, 1), condition("max_hard_fails"), "pass"),
        (many(9, 1), condition("min_pass_rate", limit=0.9, kinds=["rewrite"]), "cannot_tell"),
        (many(9, 1), condition("max_fails", kinds=["rewrite"]), "pass"),
    ],
)  # fmt: skip
def test_user_conditions_on_the_candidate(
    after: list[RunRow], fields: dict[str, Any], outcome: str
) -> None:
    assert gate(after, after, **fields).outcome == outcome


@pytest.mark.parametrize(
    ("before", "after", "margin", "outcome"),
    [
        (many(200, 0), many(200, 0), 0.05, "pass"),
        (many(200, 0), many(120, 80), 0.05, "blocked"),
        (many(6, 0), many(6, 0), 0.02, "cannot_tell"),
    ],
)
def test_non_inferiority_is_shown_refuted_or_open(
    before: list[RunRow], after: list[RunRow], margin: float, outcome: str
) -> None:
    assert gate(before, after, **condition("non_inferior", margin=margin)).outcome == outcome


def test_no_drop_of_a_rank_counts_a_miss_as_worst() -> None:
    rules: dict[str, Any] = {"defaults": False, "conditions": [
        {"name": "c", "metric": "first_relevant_rank", "rule": "no_drop"}]}  # fmt: skip
    at = {v: [row("x", "happy_path", score("first_relevant_rank", v))] for v in (1.0, 4.0, None)}
    assert gate(at[1.0], at[4.0], **rules).outcome == "blocked"
    assert gate(at[4.0], at[None], **rules).outcome == "blocked"
    assert gate(at[None], at[4.0], **rules).outcome == "pass"


HOSTILE = "<b>|`]]>\x00\x1b[31m\n::error::x @all"


def hostile_result() -> GateResult:
    before = [row("x", "near_miss", score("context_recall", 1.0))]
    bad = row("x", "near_miss", score("context_recall", 0.0), stage="ranking")
    return gate(before, [dataclasses.replace(bad, question=HOSTILE)])


def test_junit_is_xml_whatever_the_question() -> None:
    root = ET.fromstring(junit_xml(hostile_result()))
    suite = root.find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "0")
    failure = root.find(".//failure")
    assert failure is not None
    assert "x [near_miss] stage ranking: <b>|`]]>" in (failure.text or "")
    unsure = gate([row("a")], [row("b")])
    assert ET.fromstring(junit_xml(unsure)).find(".//error") is not None


def test_annotations_are_one_line_each_and_hold_no_question() -> None:
    said = github_annotations(hostile_result())
    assert said.count("\n") == 0
    assert said.startswith("::error title=recall on multi hop and near miss rows::")
    assert "x (ranking)" in said
    assert "@all" not in said


def test_markdown_cannot_be_broken_out_of() -> None:
    page = markdown(hostile_result())
    line = next(text for text in page.splitlines() if text.startswith("| x |"))
    assert "<b>" not in line
    assert r"\<b\>\|\`" in line
    assert "x  near_miss  ranking" in plain_text(hostile_result())
