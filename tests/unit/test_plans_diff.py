"""Two runs compared: flips, numbers, the sentence, warnings and hints."""

from __future__ import annotations

from tests.support.plans_runs import row, run, score, table

from stagewatch.scorer.plans.diff import diff_runs

BEFORE = [
    row("a", "multi_hop", score("context_recall", 0.0), score("faithfulness", 1.0, basis="judge"),
        stage="retrieval"),
    row("b", "near_miss", score("context_recall", 1.0), score("faithfulness", 1.0, basis="judge")),
    row("c", "happy_path", score("context_recall", 1.0), score("faithfulness", 1.0, basis="judge")),
    row("gone", "happy_path", score("context_recall", 1.0)),
]  # fmt: skip
AFTER = [
    row("a", "multi_hop", score("context_recall", 1.0), score("faithfulness", 1.0, basis="judge")),
    row("b", "near_miss", score("context_recall", 0.5), score("faithfulness", 1.0, basis="judge"),
        stage="ranking"),
    row("c", "happy_path", error="the app answered 500"),
    row("new", "happy_path", score("context_recall", 1.0)),
]  # fmt: skip


def test_flips_are_grouped_by_kind_with_the_stage_that_moved() -> None:
    found = diff_runs(run("A"), run("B"), table(BEFORE), table(AFTER))
    assert (found.common, found.only_before, found.only_after) == (3, 1, 1)
    assert set(found.flipped) == {"multi_hop", "near_miss", "happy_path"}
    broken = found.flipped["near_miss"][0]
    assert (broken.before, broken.after) == ("pass", "fail")
    assert (broken.stage_before, broken.stage_after) == ("ok", "ranking")
    assert broken.metrics == ("context_recall",)
    assert found.flipped["happy_path"][0].after == "errored"
    assert found.flipped["happy_path"][0].why == "the app answered 500"


def test_numbers_are_of_rows_that_have_both_values() -> None:
    found = diff_runs(run("A"), run("B"), table(BEFORE), table(AFTER))
    recall = next(item for item in found.metrics if item.metric == "context_recall")
    assert recall.mean is not None
    assert recall.passes is not None
    assert (recall.mean.n, recall.mean.before, recall.mean.after) == (2, 0.5, 0.75)
    assert (recall.passes.mended, recall.passes.broken) == (1, 1)
    assert recall.by_kind["near_miss"].broken == 1
    assert recall.bases == ("gold",)
    assert found.rows is not None
    assert found.rows.n == 2


def test_the_sentence() -> None:
    found = diff_runs(run("A"), run("B"), table(BEFORE), table(AFTER))
    assert found.sentence == (
        "recall up on multi hop (1 of 1 rows) and down on near miss (1 of 1 rows), "
        "faithfulness held; multi hop rows better: 1 of 1 now pass; "
        "near miss rows worse: 1 of 1 now fail"
    )
    all_down = [row(r.row_id, r.kind, score("context_precision_at_k", 0.2)) for r in BEFORE]
    all_up = [row(r.row_id, r.kind, score("context_precision_at_k", 0.9)) for r in BEFORE]
    down = diff_runs(run("A"), run("B"), table(all_up), table(all_down))
    assert down.sentence.startswith("precision down across the board")


def test_a_miss_is_the_worst_rank_and_a_lower_rank_is_better() -> None:
    ranks = [
        [row("a", "happy_path", score("first_relevant_rank", value))] for value in (None, 4.0, 2.0)
    ]
    tables = [table(rows) for rows in ranks]
    up = diff_runs(run("A"), run("B"), tables[0], tables[1])
    assert "rank up" in up.sentence
    down = diff_runs(run("A"), run("B"), tables[2], tables[1])
    assert "rank down" in down.sentence
    assert down.metrics[0].mean is None


def test_warnings_name_what_makes_runs_incomparable() -> None:
    one = run("A", pipeline={"release": ("1",), "index_version": ("kb-1",)})
    two = run(
        "B", version=2, fingerprint="judge-2", state="stopped",
        pipeline={"release": ("2",), "index_version": ("kb-2",)},
        plan={**one.plan, "top_k": 9},
    )  # fmt: skip
    said = "\n".join(diff_runs(one, two, table(BEFORE), table(AFTER)).warnings)
    assert "dataset versions differ (d v1, then d v2)" in said
    assert "judges differ (judge-1, then judge-2)" in said
    assert "the plans differ in top_k" in said
    assert "more than one pipeline version differs" in said
    assert "the second run is stopped" in said
    same = run("B", pipeline={"release": ("1",), "index_version": ("kb-2",)})
    assert diff_runs(one, same, table(BEFORE), table(BEFORE)).warnings == ()


def test_hints_name_metrics_that_tell_nothing() -> None:
    rows = [
        row(n, "happy_path", score("faithfulness", 1.0), score("context_recall", 0.0))
        for n in ("a", "b")
    ]
    hints = diff_runs(run("A"), run("B"), table(rows), table(rows)).hints
    assert any(h.startswith("faithfulness passes on every row") for h in hints)
    assert any(h.startswith("context_recall fails on every row") for h in hints)


def test_runs_without_a_common_row_say_so() -> None:
    found = diff_runs(run("A"), run("B"), table([row("a")]), table([row("b")]))
    assert found.common == 0
    assert found.sentence == "no row is in both runs"
