"""A person's way through the UI, in a real browser: any console error fails the test."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from playwright.sync_api import Browser, Page, expect
from tests.support.browser import BROWSER_MARKS
from tests.support.refund import CURRENT, OLD, QUESTION, SHIPPING, send_turn
from tests.support.server import Server, serving

pytestmark = BROWSER_MARKS


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("browser") / "data") as started:
        exporter = OTLPSpanExporter(endpoint=f"{started.otlp_http}/v1/traces")
        send_turn(exporter)
        send_turn(exporter, documents=[OLD, CURRENT, SHIPPING], conversation="conv-2")
        send_turn(exporter, answer="You can request a refund within 30 days of delivery.")
        for turn in started.turns(3):
            started.scored(turn["turn_id"])
        yield started


def test_from_a_wrong_answer_to_a_row_in_a_dataset(page: Page) -> None:
    page.goto("/")
    expect(page.get_by_role("heading", name="What your RAG app is doing")).to_be_visible()
    expect(page.locator(".chart[data-drawn]")).to_have_count(3)

    page.get_by_role("link", name="Turns", exact=True).click()
    page.get_by_label("Diagnosis").select_option("generation")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_text("1 match")).to_be_visible()
    page.get_by_role("link", name=QUESTION).click()

    expect(page.get_by_role("heading", name=QUESTION)).to_be_visible()
    rail = page.get_by_role("list", name="Stages")
    expect(rail.get_by_role("listitem").filter(has_text="Generation ✗")).to_be_visible()
    expect(page.locator("mark.CONTRADICTED")).to_have_text(
        "You can request a refund within 14 days of delivery."
    )
    expect(page.locator(".claim blockquote")).to_contain_text("within 30 days")

    page.get_by_label("Comment").fill("The policy says 30 days.")
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".claim", has_text="The policy says 30 days.")).to_be_visible()

    page.get_by_label("Dataset").fill("answers")
    page.get_by_label("Expected facts").fill("within 30 days of delivery")
    page.get_by_label("Search passages seen in traffic").fill("standard shipping")
    page.keyboard.press("Enter")
    expect(page.locator("[data-found]").get_by_text("Standard shipping takes")).to_be_visible()
    page.get_by_role("button", name="Promote").click()
    expect(page.get_by_role("status")).to_have_text("Promoted")

    page.get_by_role("link", name="Datasets").click()
    page.get_by_role("link", name="answers").click()
    row = page.get_by_role("row").filter(has_text=QUESTION)
    expect(row).to_contain_text("generation")
    expect(row).to_contain_text("within 30 days of delivery")
    expect(row).to_contain_text("refund-policy#v7#0 (v7)")
    page.get_by_role("button", name="Freeze a version").click()
    page.get_by_role("link", name="version 1").click()
    expect(page.get_by_text("version 1, as it was frozen")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="jsonl").click()
    assert '"failure":"generation"' in Path(str(download.value.path())).read_text()


def test_the_review_queue_by_keyboard(page: Page, server: Server, allowed: set[str]) -> None:
    allowed.add("Failed to load resource: the server responded with a status of 403 (Forbidden)")
    stale = next(
        t for t in server.turns(3) if t["diagnosis"] and t["diagnosis"]["stage"] == "stale_source"
    )
    server.post("/feedback", {"trace_id": stale["trace_id"], "kind": "disputed"}, 201)
    page.goto("/review")
    item = page.locator(".item", has_text="stale source")
    expect(item).to_be_visible()
    expect(page.locator(".item.here")).to_have_count(1)
    page.get_by_label("Promote into").fill("queued")
    page.get_by_role("heading", name="Review").click()
    page.keyboard.press("?")
    expect(page.get_by_text("promote as suggested")).to_be_visible()
    while "stale source" not in page.locator(".item.here").inner_text():
        page.keyboard.press("j")
    page.keyboard.press("p")
    expect(page.get_by_role("status")).to_have_text("Promoted as stale_policy (needs review)")
    expect(item).to_have_count(0)
    page.goto("/datasets/queued")
    row = page.get_by_role("row").filter(has_text="stale policy").first
    row.get_by_role("button", name="Confirm").click()
    expect(page.get_by_role("status")).to_contain_text("second person")


def test_a_trace_shows_its_spans(page: Page, server: Server) -> None:
    page.goto(f"/traces/{server.turns(3)[0]['trace_id']}")
    expect(page.get_by_role("row")).to_have_count(4)
    page.get_by_text("chat bot-1").click()
    expect(page.get_by_text("gen_ai.request.model")).to_be_visible()


@pytest.mark.parametrize("path", ["/alerts", "/calibration", "/health", "/datasets", "/login"])
def test_other_pages_open(page: Page, path: str) -> None:
    page.goto(path)
    expect(page.locator("h1")).to_be_visible()


def test_a_narrow_window_never_scrolls_sideways(page: Page, server: Server) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    turn_id = server.turns(3)[0]["turn_id"]
    for path in ("/", "/turns", f"/turns/{turn_id}", "/review", "/datasets", "/calibration"):
        page.goto(path)
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 390, path


def test_the_keyboard_reaches_the_content_first(page: Page) -> None:
    page.goto("/turns")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()


def test_a_page_that_is_not_there_says_so(page: Page, browser: Browser, server: Server) -> None:
    context = browser.new_context(base_url=server.api)
    lost = context.new_page()
    lost.goto("/turns/none")
    expect(lost.get_by_role("heading", name=re.compile("404"))).to_be_visible()
    context.close()
    page.goto("/")


def test_a_hand_label_is_kept_and_counts(page: Page, server: Server) -> None:
    turn_id = next(t for t in server.turns(3) if t["diagnosis"]["stage"] == "generation")["turn_id"]
    page.goto(f"/turns/{turn_id}")
    labels = page.locator(".claim").first.get_by_role("group", name="Your label")
    labels.get_by_role("button", name="contradicted").click()
    expect(page.get_by_role("status")).to_contain_text("calibration")
    page.reload()
    labels = page.locator(".claim").first.get_by_role("group", name="Your label")
    pressed = labels.get_by_role("button", name="contradicted")
    expect(pressed).to_have_attribute("aria-pressed", "true")
    report = next(r for r in server.get("/calibration")["items"] if r["metric"] == "faithfulness")
    assert report["n"] >= 1
    assert report["state"] == "uncalibrated"


def test_a_project_can_be_chosen(page: Page, server: Server) -> None:
    send_turn(
        OTLPSpanExporter(
            endpoint=f"{server.otlp_http}/v1/traces", headers={"x-stagewatch-project": "other"}
        ),
        question="Only in the other project?",
    )
    server.turns(1, "project=other")
    page.goto("/")
    page.get_by_label("Project").select_option("other")
    expect(page.get_by_label("Project")).to_have_value("other")
    page.get_by_role("link", name="Turns", exact=True).click()
    expect(page.get_by_role("link", name="Only in the other project?")).to_be_visible()
