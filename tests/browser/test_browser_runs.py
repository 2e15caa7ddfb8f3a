"""Runs, their diff and the pages of a dataset in a real browser: any console error fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from playwright.sync_api import Dialog, Page, expect
from tests.support.browser import BROWSER_MARKS
from tests.support.plans_app import App, running_app
from tests.support.refund import send_turn
from tests.support.server import Server, serving, until

HOSTILE = '<img src=x onerror="alert(1)"></textarea><script>alert(2)</script>{{7*7}}\u202e'
IMAGE = "<svg/onload=alert(3)>"
ASKED = "Customers may request a refund within how many days?"
LONG = "x" * 3000

pytestmark = BROWSER_MARKS


def answer_of(text: str) -> tuple[int, bytes, dict[str, str]]:
    chunks = [
        {"id": "refunds#1", "document_id": HOSTILE, "version": "v7", "content": text},
        {"id": "odd", "document_id": "odd", "version": "v1", "content": HOSTILE + LONG},
    ]
    return 200, json.dumps({"answer": text, "chunks": chunks}).encode(), {}


def right(_: dict[str, Any]) -> tuple[int, bytes, dict[str, str]]:
    return answer_of("Customers may request a refund within 30 days of delivery.")


def wrong(body: dict[str, Any]) -> tuple[int, bytes, dict[str, str]]:
    status, data, headers = right(body)
    told = json.loads(data)
    told["chunks"].pop(0)
    told["answer"] += f" {HOSTILE}"
    return status, json.dumps(told).encode(), headers


@pytest.fixture(scope="module")
def app() -> Iterator[App]:
    with running_app() as started:
        yield started


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, app: App) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("runs") / "data") as started:
        exporter = OTLPSpanExporter(endpoint=f"{started.otlp_http}/v1/traces")
        send_turn(exporter, question=f"Gift cards {HOSTILE}")
        send_turn(exporter, question=f"Parking {IMAGE} {LONG}")
        for turn in started.turns(2):
            started.scored(turn["turn_id"])
        started.post("/datasets", {"name": "rows"}, 201)
        for question in (ASKED, f"A refund {HOSTILE}", f"A refund {LONG}"):
            row = {
                "question": question, "kind": "near_miss", "expected_output": ["The refund window is 30 days."],
                "needs": [{"any_of": [{"chunk_id": "refunds#1"}]}],
            }  # fmt: skip
            row_id = started.post("/datasets/rows/rows", row, 201)["row"]["row_id"]
            path = f"/api/v1/datasets/rows/rows/{row_id}/confirm"
            assert started.call("POST", path, {}, {"x-stagewatch-user": "Bea"}).status == 200
        started.post("/datasets/rows/versions", {}, 201)
        plan = {
            "name": "nightly", "dataset": "rows", "top_k": 2,
            "connector": {"url": app.url, "paths": {"chunk_id": "id"}},
        }  # fmt: skip
        started.post("/plans", plan, 201)
        for reply in (right, wrong):
            app.reply = reply
            ended(started, started.post("/plans/nightly/runs", {}, 202)["run_id"])
        yield started


def ended(server: Server, run_id: str) -> None:
    until("the run", lambda: server.get(f"/runs/{run_id}")["state"] == "finished")


@pytest.fixture
def page(page: Page) -> Iterator[Page]:
    """The page, on which no dialog may open either."""
    said: list[str] = []

    def refuse(dialog: Dialog) -> None:
        said.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", refuse)
    yield page
    assert said == []


def runs_of(server: Server) -> list[str]:
    """Ids of the two runs on the frozen version, the older first."""
    items = [run for run in server.get("/runs")["items"] if run["plan_id"] == "nightly"]
    return [run["run_id"] for run in items[::-1]][:2]


def test_from_the_list_through_a_run_to_a_row_and_the_diff(page: Page, server: Server) -> None:
    before, after = runs_of(server)
    page.goto("/")
    page.get_by_role("link", name="Runs", exact=True).click()
    plans = page.get_by_role("table").first
    expect(plans.get_by_role("row").filter(has_text="nightly")).to_be_visible()
    page.locator(f'input[name="a"][value="{before}"]').check()
    page.locator(f'input[name="b"][value="{after}"]').check()
    page.get_by_role("button", name="Compare").click()

    expect(page.get_by_text("Gate: blocked")).to_be_visible()
    flipped = page.locator("section", has=page.get_by_role("heading", name="Near miss: 3 flipped"))
    row = flipped.get_by_role("row").filter(has_text=ASKED)
    expect(row).to_contain_text("ok → memory")
    row.get_by_role("link").click()

    expect(page.get_by_role("heading", name=ASKED)).to_be_visible()
    expect(page.get_by_role("heading", name="The context the judge saw")).to_be_visible()
    page.get_by_role("link", name="Run of nightly").click()
    expect(page.get_by_role("heading", name="Metric by metric")).to_be_visible()
    expect(page.locator("svg.dist").first).to_be_visible()
    page.get_by_role("link", name="near miss", exact=True).click()
    expect(page.get_by_role("heading", name="Rows, near miss")).to_be_visible()


def test_a_plan_is_run_from_the_page(page: Page, server: Server, app: App) -> None:
    app.reply = right
    server.post("/plans", {
        "name": "by-hand", "dataset": "rows", "top_k": 2,
        "connector": {"url": app.url, "paths": {"chunk_id": "id"}},
    }, 201)  # fmt: skip
    page.goto("/runs")
    # The page reloads once the run is accepted; going elsewhere meanwhile would be cut off.
    with page.expect_navigation():
        page.get_by_role("row").filter(has_text="by-hand").get_by_role("button").click()

    def mine() -> list[dict[str, Any]] | None:
        items = server.get("/runs")["items"]
        return [run for run in items if run["plan_id"] == "by-hand"] or None

    run_id = until("the run", mine)[0]["run_id"]
    ended(server, run_id)
    page.goto(f"/runs/{run_id}")
    expect(page.get_by_text("3 pass, 0 fail")).to_be_visible()


def test_hostile_texts_are_shown_as_they_are(page: Page, server: Server) -> None:
    before, after = runs_of(server)
    row = next(
        item for item in server.get("/datasets/rows/rows")["items"] if "<img" in item["question"]
    )
    turn = next(item for item in server.get("/turns")["items"] if "<img" in item["question"])
    paths = [
        f"/runs/{after}", f"/runs/{after}/rows/{row['row_id']}", f"/runs/{before}/diff/{after}",
        "/datasets/rows", f"/datasets/rows/rows/{row['row_id']}", "/datasets/rows/check",
        "/promote?dataset=other", f"/turns/{turn['turn_id']}", "/datasets/rows/coverage",
    ]  # fmt: skip
    for path in paths:
        page.goto(path)
        shown = IMAGE if "coverage" in path else '<img src=x onerror="alert(1)">'
        expect(page.get_by_text(shown).first).to_be_attached()
        loaded = page.locator("main img, main script, main svg[onload]")
        expect(loaded).to_have_count(0)


def test_a_narrow_window_never_scrolls_sideways(page: Page, server: Server) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    before, after = runs_of(server)
    row_id = server.get("/datasets/rows/rows")["items"][-1]["row_id"]
    paths = [
        "/runs", f"/runs/{after}", f"/runs/{after}/rows/{row_id}", f"/runs/{before}/diff/{after}",
        "/datasets/rows", f"/datasets/rows/rows/{row_id}", "/datasets/rows/check",
        "/datasets/rows/coverage", "/promote?dataset=other",
    ]  # fmt: skip
    for path in paths:
        page.goto(path)
        expect(page.locator("h1")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path


def test_turns_of_a_filter_become_rows(page: Page, server: Server) -> None:
    page.goto("/turns?q=gift")
    page.get_by_role("link", name="Promote these 1 …").click()
    page.get_by_label("Into dataset").fill("from-filter")
    page.get_by_role("button", name="Look again").click()
    expect(page.get_by_text("new row", exact=True)).to_have_count(1)
    assert server.call("GET", "/api/v1/datasets/from-filter/rows").status == 404
    page.get_by_role("button", name="Promote these 1 into from-filter").click()
    expect(page.get_by_text("Nothing to promote")).to_be_visible()
    page.get_by_role("link", name="Open from-filter").click()
    expect(page.get_by_role("row").filter(has_text="Gift cards")).to_have_count(1)


def test_a_label_is_refused_with_a_reason(page: Page, server: Server) -> None:
    page.goto("/datasets/rows")
    page.get_by_label("name").first.fill("Cyd")
    page.get_by_label("name").first.press("Tab")
    page.get_by_role("link", name=ASKED).first.click()
    page.get_by_label("What is wrong with it").fill("Now 60 days.")
    page.get_by_role("button", name="Refuse the label").click()
    expect(page.get_by_text("Cyd disagrees")).to_be_visible()
    expect(page.get_by_role("listitem").filter(has_text="refused the label")).to_contain_text(
        "Now 60 days."
    )
    page.goto("/datasets/rows")
    expect(page.get_by_text("Cyd refused the label")).to_be_visible()


def test_odd_rows_and_uncovered_questions_lead_on(page: Page) -> None:
    page.goto("/datasets/rows")
    page.get_by_role("link", name="What is odd").click()
    odd = page.get_by_role("row").filter(has_text="needs name passages never seen")
    expect(odd.first).to_be_visible()
    page.get_by_role("link", name="rows", exact=True).click()
    page.get_by_role("link", name="Coverage").click()
    far = page.get_by_role("row").filter(has_text="Parking")
    far.get_by_role("link").click()
    expect(page.get_by_role("button", name="Promote")).to_be_visible()
