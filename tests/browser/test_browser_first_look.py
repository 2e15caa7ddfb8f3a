"""What somebody meets who has never seen the pages: links that keep the project, numbers and
attributes that can be read, and empty pages that say why they are empty.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from playwright.sync_api import Page, expect
from tests.support.alerts_past import have_past_alert
from tests.support.browser import BROWSER_MARKS
from tests.support.refund import CURRENT, OLD, QUESTION, SHIPPING, send_turn
from tests.support.server import Server, serving, until

from stagewatch.sdk import configure

pytestmark = BROWSER_MARKS

SHOP = "project=shop"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """An hour-old past with an alert in `default`; three fresh turns of two releases in `shop`."""
    with serving(tmp_path_factory.mktemp("first") / "data") as started:
        have_past_alert(started)
        exporter = OTLPSpanExporter(
            endpoint=f"{started.otlp_http}/v1/traces", headers={"x-stagewatch-project": "shop"}
        )
        send_turn(exporter)
        send_turn(exporter, release="1.5.0", index_version="kb-2")
        stale = send_turn(
            exporter, documents=[OLD, CURRENT, SHIPPING], release="1.5.0", index_version="kb-2"
        )
        for turn in started.turns(3, SHOP):
            scored(started, turn["turn_id"])
        started.post(f"/feedback?{SHOP}", {"trace_id": stale, "kind": "disputed"}, 201)
        yield started


def scored(server: Server, turn_id: str) -> None:
    until("a diagnosis", lambda: server.get(f"/turns/{turn_id}?{SHOP}")["diagnosis"])


def turn_of(server: Server, stage: str) -> dict[str, Any]:
    found: dict[str, Any] = next(
        t for t in server.turns(3, SHOP) if t["diagnosis"]["stage"] == stage
    )
    return found


def test_an_address_that_names_a_project_keeps_it(page: Page) -> None:
    page.goto(f"/?{SHOP}")
    page.get_by_role("link", name="Turns", exact=True).click()
    expect(page.get_by_label("Project")).to_have_value("shop")
    expect(page.get_by_text("3 match")).to_be_visible()


def test_a_turn_brings_its_own_project_along(page: Page, server: Server) -> None:
    turn = turn_of(server, "generation")
    page.goto(f"/turns/{turn['turn_id']}")
    expect(page.get_by_label("Project")).to_have_value("shop")
    expect(page).to_have_title(re.compile(f"^{re.escape(QUESTION)}"))
    expect(page.get_by_text(turn["started_at"][:10])).to_be_visible()
    page.get_by_role("link", name="Review", exact=True).click()
    expect(page.locator(".item")).to_have_count(1)


def test_the_overview_leads_to_the_alert_itself(page: Page, server: Server) -> None:
    alert = server.get("/alerts")["items"][0]
    page.goto("/")
    page.get_by_role("link", name="Open or acknowledge the alert").click()
    panel = page.locator(f"#alert-{alert['alert_id']}")
    expect(panel.get_by_role("button", name="Acknowledge")).to_be_in_viewport()
    said = panel.locator("p").first.inner_text()
    assert not said.lower().startswith("no data:")


def test_a_window_without_turns_says_when_the_newest_one_was(page: Page) -> None:
    page.goto("/?span=15m")
    expect(page.get_by_role("heading", name="No turn in the last 15m")).to_be_visible()
    expect(page.get_by_text("from stagewatch.sdk import")).to_have_count(0)
    page.get_by_role("link", name="Look at the last 30d").click()
    expect(page.get_by_text("Turns in this window", exact=True)).to_be_visible()


def test_a_project_without_turns_shows_the_ports_that_are_listened_on(
    page: Page, server: Server
) -> None:
    page.goto("/?project=nobody")
    expect(page.get_by_role("heading", name="No turn has arrived yet")).to_be_visible()
    sample = page.locator("pre").inner_text()
    assert f'configure("{server.otlp_http}"' in sample
    assert 'api_key="a key of project nobody"' in sample
    # The sample is what the SDK takes.
    names = {keyword.arg for call in ast.walk(ast.parse(sample)) if isinstance(call, ast.Call)
             and getattr(call.func, "id", "") == "configure" for keyword in call.keywords}  # fmt: skip
    assert names <= set(inspect.signature(configure).parameters)
    page.get_by_role("link", name="Runs", exact=True).click()
    expect(page.locator("pre")).to_contain_text("[connector.paths]")


def test_pages_without_a_place_of_their_own_stand_under_one(page: Page, server: Server) -> None:
    trace = server.turns(3, SHOP)[0]["trace_id"]
    for path, name in (
        (f"/traces/{trace}?{SHOP}", "Turns"),
        ("/promote", "Turns"),
        ("/compare", "Overview"),
        ("/channels", "Alerts"),
        ("/backfills", "Rules"),
    ):
        page.goto(path)
        here = page.locator("nav [aria-current]")
        expect(here).to_have_text(name)


def test_a_number_in_a_table_is_never_broken(page: Page) -> None:
    page.goto("/health")
    lines = page.evaluate(
        """() => {
          const box = document.createElement('div');
          box.style.width = '60px';
          box.innerHTML = '<table><tr><td class="num">0.431</td><td class="num">1028</td></tr></table>';
          document.querySelector('main').append(box);
          return [...box.querySelectorAll('td')].map((cell) => {
            const range = document.createRange();
            range.selectNodeContents(cell);
            return range.getClientRects().length;
          });
        }"""
    )
    assert lines == [1, 1]


def test_a_phone_shows_the_attributes_of_a_span_in_full_width(page: Page, server: Server) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(f"/traces/{server.turns(3, SHOP)[0]['trace_id']}?{SHOP}")
    page.get_by_text("chat bot-1").click()
    box = page.locator("details[open] dd").first.bounding_box()
    assert box is not None
    assert box["width"] > 250


def test_the_legend_stands_clear_of_the_numbers_of_the_breaks(page: Page) -> None:
    page.goto(f"/?{SHOP}")
    panel = page.locator("section", has=page.get_by_role("heading", name="First relevant rank"))
    expect(panel.locator(".breaks li")).not_to_have_count(0)
    legend = panel.locator("g.legend").bounding_box()
    assert legend is not None
    for mark in panel.locator("g.annotation").all():
        box = mark.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= legend["y"]


def test_the_numbers_of_close_breaks_do_not_run_together(page: Page) -> None:
    """Changes at 50, 51 and 55 % of an hour, seen in the first minutes of it."""

    def at(percent: float) -> str:
        return f"2026-11-30T12:{int(percent * 0.6):02}:{int(percent * 36) % 60:02}Z"

    point = {"at": at(2), "until": at(8), "n": 9, "estimate": 0.9, "low": 0.8, "high": 1.0,
             "few": "", "unscored": {}, "correction": None}  # fmt: skip
    body = {
        "metric": "faithfulness", "stat": "pass_rate", "signed": False,
        "since": at(0), "until": "2026-11-30T13:00:00Z", "items": [point],
        "breaks": [{"at": at(p), "what": f"release {p}"} for p in (50, 51, 55)],
    }  # fmt: skip
    page.route("**/api/v1/series*", lambda route: route.fulfill(json=body))
    page.goto(f"/?{SHOP}")
    panel = page.locator("section", has=page.get_by_role("heading", name="Faithful answers"))
    expect(panel.locator(".breaks li")).to_have_text(["1 release 50; release 51", "2 release 55"])
    boxes = [mark.bounding_box() for mark in panel.locator("g.annotation").all()]
    first, second = (box for box in boxes if box)
    apart = first["x"] + first["width"] <= second["x"]
    assert apart or second["y"] + second["height"] <= first["y"]
    date = panel.get_by_text("Nov 30, 2026").bounding_box()
    chart = panel.locator(".chart").bounding_box()
    assert date is not None
    assert chart is not None
    assert date["y"] + date["height"] <= chart["y"] + chart["height"]


def test_a_list_without_turns_leads_on(page: Page) -> None:
    page.goto("/turns?project=nobody")
    expect(page.get_by_text("The overview shows how to send some")).to_be_visible()
    page.goto("/turns?project=nobody&q=zebra")
    expect(page.get_by_text("No turn matches")).to_be_visible()


def test_a_reviewer_reads_the_passage_that_was_needed(page: Page) -> None:
    page.goto(f"/review?{SHOP}")
    needs = page.locator(".item dl.facts dd", has_text=str(CURRENT["id"]))
    expect(needs).to_contain_text(str(CURRENT["content"]))
    expect(page.get_by_role("heading", level=1)).to_have_text("Review 1 waiting")


def test_scores_say_where_they_pass(page: Page, server: Server) -> None:
    page.goto(f"/turns/{turn_of(server, 'generation')['turn_id']}")
    scores = page.locator("section", has=page.get_by_role("heading", name="Scores"))
    row = scores.get_by_role("row").filter(has_text="First relevant rank")
    expect(row).to_contain_text("passes at ≤ 3")
    expect(scores).not_to_contain_text("no_rewrite")


@pytest.mark.parametrize(
    "path", ["/", "/turns", "/review", "/rules", "/probes", "/channels", "/compare", "/health"]
)
def test_headers_have_words_and_links_in_text_a_line(page: Page, path: str) -> None:
    page.goto(f"{path}?{SHOP}")
    assert page.locator("th").evaluate_all("all => all.filter(th => !th.textContent.trim())") == []
    plain = page.locator("main :is(p, dd) a:not(.button)").evaluate_all(
        "all => all.filter(a => getComputedStyle(a).textDecorationLine !== 'underline')"
        ".map(a => a.outerHTML)"
    )
    assert plain == []
    unlike = page.locator("main a[aria-label]").evaluate_all(
        "all => all.filter(a => a.innerText.trim() && !a.ariaLabel.includes(a.innerText.trim()))"
        ".map(a => a.outerHTML)"
    )
    assert unlike == []


def test_paper_shows_the_page_and_no_controls(page: Page, server: Server) -> None:
    page.goto(f"/turns/{turn_of(server, 'generation')['turn_id']}")
    page.emulate_media(media="print", color_scheme="dark")
    ink = page.evaluate("getComputedStyle(document.body).color")
    assert ink == "rgb(27, 34, 48)"
    expect(page.get_by_role("navigation", name="Pages")).to_be_hidden()
    expect(page.get_by_role("button", name="Promote")).to_be_hidden()
    expect(page.get_by_role("heading", name="Promote to a dataset row")).to_be_hidden()
    expect(page.locator("mark.CONTRADICTED")).to_be_visible()
