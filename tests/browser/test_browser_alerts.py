"""Alerts, channels and probes in a real browser: any console error fails the test."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.support.alerts_past import have_past_alert
from tests.support.browser import BROWSER_MARKS, console_errors
from tests.support.channels_receiver import Receiver, receiving
from tests.support.plans_app import App, running_app
from tests.support.server import Server, serving, until

pytestmark = BROWSER_MARKS

HOSTILE = "<img src=x onerror=alert(1)> none"
ROW = {
    "row_id": "r1", "question": "Within how many days may I request a refund?",
    "status": "confirmed", "needs": [{"any_of": [{"chunk_id": "refunds#1"}]}],
}  # fmt: skip


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with receiving() as started:
        yield started


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("alerts") / "data"
    with serving(folder, STAGEWATCH_ALERT_NETWORKS="127.0.0.0/8") as started:
        have_past_alert(started)
        yield started


@pytest.fixture(scope="module")
def app() -> Iterator[App]:
    with running_app() as started:
        yield started


def test_a_channel_is_made_tested_changed_and_deleted(page: Page, receiver: Receiver) -> None:
    page.goto("/channels")
    page.get_by_label("Name", exact=True).fill("desk")
    page.get_by_label("Address").fill(f"{receiver.url}/ok?desk")
    page.get_by_label("ranking").check()
    page.get_by_role("button", name="Save").click()
    secret = page.get_by_text("shown this once: whsec_")
    expect(secret).to_be_visible()

    page.goto("/channels")
    row = page.get_by_role("row").filter(has_text="desk")
    expect(row).to_contain_text("ranking; every severity")
    expect(page.locator("body")).not_to_contain_text("?desk")
    row.get_by_role("button", name="Send a test").click()
    expect(page.get_by_text("desk took it: 200 thank you")).to_be_visible()
    assert any(item["path"] == "/ok?desk" for item in receiver.got)

    row.get_by_role("link", name="Change").click()
    expect(page.get_by_role("heading", name="Change desk")).to_be_visible()
    page.get_by_label("ranking").uncheck()
    page.get_by_label("no data").check()
    page.get_by_role("button", name="What would it have sent").click()
    expect(page.get_by_text(re.compile(r"\d messages? since"))).to_be_visible()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("row").filter(has_text="desk").first).to_contain_text("no data")

    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Really delete?").click()
    expect(page.get_by_text("No channel yet")).to_be_visible()


def test_an_alert_is_snoozed_taken_back_and_acknowledged_with_keys(page: Page) -> None:
    page.goto("/alerts")
    expect(page.get_by_role("heading", name="No data")).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("s")
    expect(page.get_by_text("snoozed by unverified")).to_be_visible()
    page.get_by_role("button", name="Take back").click()
    expect(page.get_by_role("button", name="Snooze")).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("a")
    expect(page.get_by_text("acked by unverified")).to_be_visible()
    page.get_by_role("link", name="acked 1").click()
    expect(page.get_by_role("heading", name="No data")).to_be_visible()
    page.get_by_role("link", name="open 0").click()
    expect(page.get_by_role("heading", name="No alert is open")).to_be_visible()


def test_a_probe_is_made_and_its_failing_row_is_found(page: Page, server: Server, app: App) -> None:
    server.call("POST", "/api/v1/datasets", {"name": "golden"})
    server.call("POST", "/api/v1/datasets/golden/import", raw=json.dumps(ROW).encode())
    app.reply = lambda _: (200, json.dumps({"answer": HOSTILE, "chunks": []}).encode(), {})
    page.goto("/probes")
    page.get_by_label("Name", exact=True).fill("hourly")
    page.get_by_label("Connector (JSON)").fill(json.dumps({"url": f"{app.url}/ask"}))
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("link", name="hourly")).to_be_visible()
    # The schedule starts the first pass by itself.
    until("the pass", lambda: (server.get("/probes/hourly")["last_pass"] or {}).get("ended_at"))
    page.get_by_role("link", name="hourly").click()
    expect(page.locator(".chart[data-drawn]").first).to_be_visible()
    row = page.get_by_role("row").filter(has_text="Within how many days")
    expect(row).to_contain_text("fail")
    row.get_by_text("answer", exact=True).click()
    expect(row.get_by_text(HOSTILE)).to_be_visible()
    row.get_by_role("link", name="Within how many days").click()
    expect(page).to_have_url(f"{server.api}/datasets/golden/rows/r1")

    page.goto("/probes")
    page.get_by_text("delete", exact=True).click()
    page.get_by_role("button", name="Delete hourly").click()
    expect(page.get_by_text("No probe yet.")).to_be_visible()


@pytest.mark.parametrize("path", ["/alerts", "/channels", "/probes", "/compare", "/calibration"])
def test_narrow_and_dark_pages_do_not_scroll_sideways(
    browser: Browser, server: Server, path: str
) -> None:
    context = browser.new_context(
        base_url=server.api, viewport={"width": 360, "height": 740}, color_scheme="dark"
    )
    page = context.new_page()
    errors = console_errors(page)
    page.goto(path)
    wide = page.evaluate("document.documentElement.scrollWidth")
    context.close()
    assert wide <= 360
    assert errors == []
