"""Plans, paths, templates and the check of columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stagewatch.core.errors import InvalidInputError
from stagewatch.core.model import DatasetRow, Need, Passage
from stagewatch.scorer.plans.columns import check_columns, chosen_rows
from stagewatch.scorer.plans.forecast import forecast
from stagewatch.scorer.plans.paths import NOTHING, find, parse_path
from stagewatch.scorer.plans.plan import load_plan, parse_plan, plan_body
from stagewatch.scorer.plans.template import fill, fill_headers

HTTP: dict[str, Any] = {"url": "http://127.0.0.1:9/ask"}


def plan(**fields: Any) -> dict[str, Any]:
    return {"name": "p", "connector": HTTP, **fields}


def labelled(row_id: str, kind: str = "happy_path", **fields: Any) -> DatasetRow:
    return DatasetRow(row_id, "d", 1, kind, "unknown", "what?", **fields)  # type: ignore[arg-type]


NEEDS = (Need((Passage("c"),)),)


def test_a_toml_plan_is_read_and_named_after_its_file(tmp_path: Path) -> None:
    path = tmp_path / "refunds.toml"
    path.write_text(
        'top_k = 4\n[connector]\nurl = "http://127.0.0.1:9"\n[thresholds]\ncontext_recall = 0.9\n'
        '[[gate.conditions]]\nname = "x"\nmetric = "faithfulness"\nrule = "max_fails"\nlimit = 2\n'
    )
    found = load_plan(path)
    assert (found.name, found.top_k, found.gate.conditions[0].limit) == ("refunds", 4, 2)
    limit = found.limits().of("context_recall")
    assert limit is not None
    assert limit.limit == 0.9
    assert parse_plan(plan_body(found)) == found


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (plan(metrics=["recall"]), "unknown metric 'recall'"),
        (plan(thresholds={"x": 1}), "unknown metric 'x'"),
        (plan(colour=1), "colour"),
        ({"name": "p", "connector": {"url": "ftp://x"}}, "http(s) address"),
        ({"name": "p", "connector": {"kind": "python", "call": "m"}}, "module:function"),
        (plan(connector={**HTTP, "headers": {"Authorization": "Bearer abc"}}), "name a variable"),
        (plan(connector={**HTTP, "headers": {"x-api-key": "abc"}}), "name a variable"),
        (plan(connector={**HTTP, "headers": {"x-api-key": "abc1${EMPTY}"}}), "name a variable"),
        (plan(connector={**HTTP, "headers": {"cookie": "a=${A}; sid=9f8e"}}), "name a variable"),
        (plan(connector={**HTTP, "headers": {"x-caller": "Bearer abc"}}), "STAGEWATCH_PLAN_ENV"),
        (plan(mode="fixed_context", metrics=["context_recall"]), "not measured in fixed_context"),
        (plan(judge="openai"), "judge_model"),
        (plan(gate={"conditions": [{"name": "n", "metric": "faithfulness",
                                    "rule": "min_pass_rate"}]}), "min_pass_rate needs limit"),
        (plan(connector={**HTTP, "concurrency": 0}), "concurrency"),
        ({"connector": HTTP}, "name"),
    ],
)  # fmt: skip
def test_a_plan_that_cannot_be_is_refused_by_name(body: object, says: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_plan(body)
    assert says in str(caught.value)
    assert "abc" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$.a.b[1].c", 2),
        ("a.b[0].c", 1),
        ('$["odd key"]', "x"),
        ("$.a.b[*].c", [1, 2]),
        ("$.a.b[9]", NOTHING),
        ("$.a.x", NOTHING),
        ("$.n", None),
        ("$", {"a": {"b": [{"c": 1}, {"c": 2}]}, "odd key": "x", "n": None}),
    ],
)
def test_paths(path: str, found: object) -> None:
    body = {"a": {"b": [{"c": 1}, {"c": 2}]}, "odd key": "x", "n": None}
    assert find(body, path) == found or find(body, path) is found


def test_a_path_that_cannot_be_read_says_where() -> None:
    with pytest.raises(InvalidInputError, match=r"cannot read '\?\(@'"):
        parse_path("$.a?(@")


def test_templates_keep_types_and_never_look_into_values() -> None:
    values = {
        "question": "{{row_id}}", "history": [{"role": "user", "content": "hi"}], "context": [],
        "standalone_question": None, "row_id": "r1",
    }  # fmt: skip
    template = {"q": "{{question}}", "h": "{{ history }}", "t": ["id {{row_id}}", 3], "n": None}
    assert fill(template, values) == {
        "q": "{{row_id}}", "h": values["history"], "t": ["id r1", 3], "n": None
    }  # fmt: skip
    with pytest.raises(InvalidInputError, match="nope"):
        fill("{{nope}}", values)


def test_headers_read_the_environment_and_nothing_that_is_not_allowed() -> None:
    headers = {"authorization": "Bearer ${TOKEN}"}
    assert fill_headers(headers, {"TOKEN": "t"}, None) == {"authorization": "Bearer t"}
    assert fill_headers(headers, {"TOKEN": "t"}, {"TOKEN"}) == {"authorization": "Bearer t"}
    with pytest.raises(InvalidInputError, match="STAGEWATCH_PLAN_ENV"):
        fill_headers(headers, {"TOKEN": "t"}, set())
    with pytest.raises(InvalidInputError, match="is not set"):
        fill_headers(headers, {}, None)
    with pytest.raises(InvalidInputError, match="line break"):
        fill_headers(headers, {"TOKEN": "t\r\nx: y"}, None)


def test_metrics_that_no_row_can_feed_are_refused_with_the_missing_columns() -> None:
    asked = parse_plan(plan(metrics=["context_recall", "answer_precision", "rewrite_fidelity"]))
    with pytest.raises(InvalidInputError) as caught:
        check_columns(asked, [labelled("a"), labelled("b", "unanswerable")])
    said = str(caught.value)
    assert "missing columns: needs, expected_output, history or standalone_question" in said
    assert "context_recall needs needs: no row has it" in said


def test_columns_that_some_rows_lack_are_a_warning() -> None:
    asked = parse_plan(plan(metrics=["context_recall"]))
    rows = [labelled("a", needs=NEEDS), labelled("b"), labelled("c", "unanswerable")]
    assert check_columns(asked, rows) == ["context_recall needs needs: 1 of 2 lack it"]
    assert check_columns(parse_plan(plan()), rows) == []


def test_fixed_context_needs_stored_passages() -> None:
    with pytest.raises(InvalidInputError, match=r"turn\.window"):
        check_columns(parse_plan(plan(mode="fixed_context")), [labelled("a")])


def test_tags_choose_rows_and_retired_ones_are_never_asked() -> None:
    rows = [labelled("a", tags=("x",)), labelled("b"), labelled("c", tags=("x",), status="retired")]
    assert [r.row_id for r in chosen_rows(parse_plan(plan(tags=["x"])), rows)] == ["a"]
    assert [r.row_id for r in chosen_rows(parse_plan(plan()), rows)] == ["a", "b"]
    with pytest.raises(InvalidInputError, match="no rows with tag y"):
        check_columns(parse_plan(plan(tags=["y"])), [])


def test_a_forecast_counts_what_each_row_asks_of_the_judge() -> None:
    rows = [labelled("a", needs=NEEDS, expected_output=("f",)), labelled("b")]
    asked = parse_plan(plan(metrics=["faithfulness", "answer_precision", "context_sufficiency"]))
    free = forecast(asked, rows, judge="embedded", input_usd=2.5, output_usd=10.0)
    # Row a: faithfulness and two of statements. Row b: faithfulness and sufficiency.
    assert (free.rows, free.judge_calls, free.cost_usd) == (2, 5, 0.0)
    paid = forecast(asked, rows, judge="openai", input_usd=2.5, output_usd=10.0, app_ms=10)
    assert 0 < paid.cost_usd < 1
    assert "up to 5 questions" in paid.sentence
