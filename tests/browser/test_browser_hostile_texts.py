"""Pages with texts that nobody would write on purpose: no page scrolls sideways."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from playwright.sync_api import Browser, Page, expect
from tests.support.browser import BROWSER_MARKS
from tests.support.refund import CURRENT, SHIPPING, send_turn
from tests.support.server import Server, serving

pytestmark = BROWSER_MARKS

WORD = "unbreakable" * 400
ARABIC = "\u202eكم يومًا لدي لطلب استرداد الأموال " * 60
WIDE = "\U0001f468\u200d\U0001f469\u200d\U0001f467" * 300 + "ｗｉｄｅ" * 300
ANSWER = f"You can request a refund within 14 days of delivery. {WORD}"


BEYOND = """[...document.querySelectorAll('main *')].filter(
    (e) => e.getBoundingClientRect().right > innerWidth + 1).slice(0, 4).map(
    (e) => `${e.tagName}.${e.className} in ${e.parentElement.className}`)"""
"""What reaches beyond the window, for the message of a failure."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("hostile") / "data") as started:
        exporter = OTLPSpanExporter(endpoint=f"{started.otlp_http}/v1/traces")
        document = {**CURRENT, "id": WORD, "document_id": WORD, "version": WORD, "score_kind": WORD}
        for question, answer in (
            (WORD, ANSWER), (ARABIC, ARABIC), (WIDE, WIDE),
            ("How many days do I have to request a refund?", ANSWER),
        ):  # fmt: skip
            send_turn(
                exporter, question=question, answer=answer, conversation="c" * 300,
                release="r" * 200, index_version="i" * 200, documents=[CURRENT, document, SHIPPING],
            )  # fmt: skip
        for turn in started.turns(4):
            started.scored(turn["turn_id"])
            started.post(
                "/feedback",
                {"trace_id": turn["trace_id"], "kind": "corrected", "comment": WORD,
                 "corrected_answer": ARABIC},
            )  # fmt: skip
            started.post(f"/turns/{turn['turn_id']}/promote", {"dataset": "hostile"})
            started.post(f"/review/{turn['turn_id']}", {"action": "flag"})
        yield started


@pytest.fixture
def page(browser: Browser, server: Server) -> Iterator[Page]:
    context = browser.new_context(base_url=server.api, viewport={"width": 1360, "height": 900})
    opened = context.new_page()
    opened.set_default_timeout(15_000)
    yield opened
    context.close()


@pytest.mark.parametrize("width", [390, 1360])
def test_no_page_scrolls_sideways(page: Page, server: Server, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    turns = [f"/turns/{turn['turn_id']}" for turn in server.turns(4)]
    wide = {}
    for path in ("/", "/turns", "/review", "/datasets/hostile", *turns):
        page.goto(path)
        size = page.evaluate("document.documentElement.scrollWidth")
        inside = page.evaluate(
            "[...document.querySelectorAll('.scroll')].map((e) => e.scrollWidth - e.clientWidth)"
        )
        if size > width or any(extra > 0 for extra in inside if width > 1000):
            wide[path] = (size, inside)
    assert wide == {}


def test_a_chart_point_stands_in_the_middle_of_its_step(page: Page, server: Server) -> None:
    page.goto("/")
    chart = page.locator(".chart[data-drawn]").first
    expect(chart).to_be_visible()
    drawn = chart.evaluate("(el) => [el.data[2].x, el.layout.xaxis.range, el.dataset.series]")
    x, (left, right), source = drawn
    body = server.get(source.removeprefix("/api/v1"))
    points = [point for point in body["items"] if point["n"]]
    assert len(x) == len(points) > 0
    for at, point in zip(x, points, strict=True):
        begin, end = datetime.fromisoformat(point["at"]), datetime.fromisoformat(point["until"])
        end = min(end, datetime.fromisoformat(body["until"]))
        middle = datetime.fromisoformat(at)
        assert abs((middle - begin) - (end - middle)).total_seconds() < 0.01
    shown = [datetime.fromisoformat(edge).replace(tzinfo=None) for edge in (left, right)]
    assert shown[0] <= datetime.fromisoformat(x[0]).replace(tzinfo=None) <= shown[1]
    assert (shown[1] - shown[0]).total_seconds() >= 1
