"""Rules and backfills in a real browser: previewed, saved, priced, started, finished."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from playwright.sync_api import Browser, Page, expect
from tests.support.browser import BROWSER_MARKS, console_errors
from tests.support.refund import send_turn
from tests.support.server import Server, serving

pytestmark = BROWSER_MARKS


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("scoring") / "data", STAGEWATCH_SAMPLE_RATE="0") as up:
        exporter = OTLPSpanExporter(endpoint=f"{up.otlp_http}/v1/traces")
        for number in range(4):
            send_turn(exporter, question=f"How many days for item {number}?", release="2.0")
        up.turns(4)
        yield up


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    opened = browser.new_page()
    yield opened
    opened.close()


def test_a_rule_is_previewed_saved_changed_and_deleted(server: Server, page: Page) -> None:
    errors = console_errors(page)
    page.goto(f"{server.api}/rules")
    page.get_by_label("Name", exact=True).fill("beta")
    page.get_by_label("Rate, 0 to 1").fill("0.5")
    page.get_by_label("Release", exact=True).fill("2.*, 3.*")
    page.get_by_label("Tags, as key=value").fill("no equals sign")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("[data-said]")).to_contain_text("is not key=value")
    page.get_by_label("Tags, as key=value").fill("")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("[data-said]")).to_contain_text("would match 4 of the last 4 turns")
    page.get_by_role("button", name="Save").click()
    row = page.get_by_role("row").filter(has_text="beta")
    expect(row).to_contain_text("50.0%")
    expect(row).to_contain_text("release 2.* or 3.*")
    row.get_by_role("link", name="Edit").click()
    expect(page.get_by_label("Release", exact=True)).to_have_value("2.*, 3.*")
    page.get_by_label("Rate, 0 to 1").fill("0.25")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("row").filter(has_text="beta")).to_contain_text("25.0%")
    page.get_by_role("button", name="Delete rule beta").click()
    expect(page.get_by_role("row").filter(has_text="beta")).to_have_count(0)
    assert errors == []


def test_a_rule_is_saved_as_it_was_whatever_its_patterns_hold(server: Server, page: Page) -> None:
    filters = {"release": ["1,2", 'a"b'], "service": ["x", "y"], "tags": {"k=1": "v,w", "p": "q"}}
    made = server.post("/rules", {"name": "odd", "filters": filters, "rate": 0.5})
    page.goto(f"{server.api}/rules?edit=odd")
    page.get_by_label("Rate, 0 to 1").fill("0.25")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("row").filter(has_text="odd")).to_contain_text("25.0%")
    (kept,) = [rule for rule in server.get("/rules")["items"] if rule["name"] == "odd"]
    assert kept["filters"] == made["filters"]
    assert kept["rate"] == 0.25
    assert server.call("DELETE", "/api/v1/rules/odd").status in {200, 204}


def test_a_backfill_is_priced_started_and_followed_to_its_end(server: Server, page: Page) -> None:
    errors = console_errors(page)
    page.goto(f"{server.api}/backfills")
    expect(page.get_by_role("button", name="Start")).to_be_hidden()
    page.get_by_role("button", name="Show the price").click()
    expect(page.locator("[data-sentence]")).to_contain_text("4 turns to read, no cost")
    page.get_by_role("button", name="Start").click()
    row = page.locator("[data-job]").first
    expect(row.locator("[data-says]")).to_contain_text("done: 4 of 4 turns", timeout=30_000)
    assert row.locator("progress").evaluate("bar => bar.value") == 1
    page.goto(f"{server.api}/backfills")
    page.get_by_role("button", name="Show the price").click()
    expect(page.locator("[data-sentence]")).to_contain_text("0 turns to read")
    expect(page.get_by_role("button", name="Start")).to_be_hidden()
    assert errors == []


@pytest.mark.parametrize("path", ["/rules", "/backfills", "/health"])
def test_pages_fit_a_narrow_screen(server: Server, page: Page, path: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{server.api}{path}")
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0
