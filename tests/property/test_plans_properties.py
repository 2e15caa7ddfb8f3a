"""Laws of plans: paths, templates, paired changes and the gate, for any input."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.plans_runs import options, row, run, score, summaries, table

from stagewatch.core.errors import InvalidInputError
from stagewatch.scorer.plans.diff import diff_runs
from stagewatch.scorer.plans.gate import decide_gate
from stagewatch.scorer.plans.pairs import mcnemar, mean_change, pass_change
from stagewatch.scorer.plans.paths import NOTHING, find
from stagewatch.scorer.plans.results import RunRow
from stagewatch.scorer.plans.template import fill

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
kinds = st.sampled_from(["happy_path", "near_miss", "multi_hop", "stale_policy", "unanswerable"])


@given(json_values, st.text(max_size=12))
def test_any_path_over_any_answer_finds_something_nothing_or_is_refused(
    value: Any, path: str
) -> None:
    try:
        find(value, path)
    except InvalidInputError as error:
        assert "path" in str(error)


@given(st.lists(st.integers(0, 2), min_size=1, max_size=4))
def test_a_path_of_indexes_leads_where_it_says(steps: list[int]) -> None:
    value: Any = "here"
    for step in reversed(steps):
        value = [NOTHING] * step + [value]
    assert find(value, "$" + "".join(f"[{step}]" for step in steps)) == "here"


@given(json_values, st.text(max_size=20))
def test_a_value_goes_in_whole_and_is_never_read_as_a_template(value: Any, text: str) -> None:
    values = {"question": text, "history": value, "context": [], "row_id": "r",
              "standalone_question": None}  # fmt: skip
    assert fill({"a": "{{question}}", "b": ["{{history}}"]}, values) == {"a": text, "b": [value]}


scored = st.sampled_from([0.0, 0.5, 1.0])


@st.composite
def two_runs(draw: st.DrawFn) -> tuple[list[RunRow], list[RunRow]]:
    """Two runs over rows of any kind, some of them errored, some unconfirmed."""
    before: list[RunRow] = []
    after: list[RunRow] = []
    for number in range(draw(st.integers(0, 6))):
        kind, status = draw(kinds), draw(st.sampled_from(["confirmed", "needs_review"]))
        for rows in (before, after):
            if draw(st.integers(0, 5)) == 0:
                rows.append(row(f"r{number}", kind, error="no answer", status=status))
                continue
            found = [
                score("context_recall", draw(scored), basis=draw(st.sampled_from(["gold", "judge"]))),
                score("context_precision_at_k", draw(scored)),
            ]  # fmt: skip
            if kind == "unanswerable":
                refused = draw(st.booleans())
                found.append(score("refusal", float(refused), hard=not refused))
            rows.append(row(f"r{number}", kind, *found, status=status))
    return before, after


@given(two_runs())
@settings(max_examples=60, deadline=None)
def test_a_diff_read_backwards_mends_what_it_broke(runs: tuple[list[RunRow], list[RunRow]]) -> None:
    before, after = runs
    there = diff_runs(run("A"), run("B"), table(before), table(after))
    back = diff_runs(run("B"), run("A"), table(after), table(before))
    for one, other in zip(there.metrics, back.metrics, strict=True):
        if one.passes is not None and other.passes is not None:
            assert (one.passes.mended, one.passes.broken) == (
                other.passes.broken, other.passes.mended)  # fmt: skip
            assert one.passes.low <= one.passes.change <= one.passes.high
        if one.mean is not None:
            assert -1 <= one.mean.low <= one.mean.high <= 1
    assert sum(map(len, there.flipped.values())) == sum(map(len, back.flipped.values()))


@given(two_runs(), st.booleans(), st.booleans())
@settings(max_examples=80, deadline=None)
def test_a_gate_is_total_and_its_exit_code_is_that_of_its_worst_condition(
    runs: tuple[list[RunRow], list[RunRow]], strict: bool, calibrated: bool
) -> None:
    before, after = map(summaries, runs)
    found = decide_gate(
        run("A"), run("B"), before, after,
        options=options(require_second_reviewer=strict), calibrated=lambda *_: calibrated,
    )  # fmt: skip
    outcomes = {c.outcome for c in found.conditions}
    assert found.exit_code == (
        1 if "blocked" in outcomes else 2 if "cannot_tell" in outcomes else 0
    )
    for condition in found.conditions:
        assert condition.outcome == "pass" or condition.rows or condition.name == "rows to compare"
        if strict:
            named = set(condition.rows)
            assert not [r for r in after if r.row_id in named and not r.counts]
    # A run against itself drops nothing: only an invented answer blocks it.
    same = decide_gate(
        run("A"), run("A"), after, after, options=options(), calibrated=lambda *_: True
    )
    blocked = [c.name for c in same.conditions if c.outcome == "blocked"]
    assert blocked in ([], ["no invented answers on unanswerable rows"])


@given(st.integers(0, 300), st.integers(0, 300), st.integers(0, 300))
def test_pass_changes_are_probabilities_and_intervals(same: int, mended: int, broken: int) -> None:
    assert 0 <= mcnemar(mended, broken) <= 1
    assert mcnemar(mended, broken) == mcnemar(broken, mended)
    found = pass_change(same + mended + broken, mended, broken)
    if found is not None:
        assert -1 <= found.low <= found.high <= 1


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=60))
@settings(deadline=None)
def test_the_interval_of_a_mean_holds_the_mean(pairs: list[tuple[float, float]]) -> None:
    found = mean_change([a for a, _ in pairs], [b for _, b in pairs])
    assert found is not None
    assert found.low - 1e-9 <= found.change <= found.high + 1e-9
