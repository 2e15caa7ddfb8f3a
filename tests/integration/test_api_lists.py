"""Lists of a real server: long texts are cut, future times stand apart, numbers agree."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from tests.support.refund import send_turn
from tests.support.server import Server, serving

pytestmark = pytest.mark.integration

LONG = "How many days? " + "x" * 200_000
ANSWER = "y" * 499 + "é" + "tail" * 1000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("lists") / "data") as started:
        exporter = OTLPSpanExporter(endpoint=f"{started.otlp_http}/v1/traces")
        send_turn(exporter, question=LONG, answer=ANSWER, conversation="long one")
        send_turn(exporter, question="short?", answer="Short.")
        for turn in started.turns(2):
            started.scored(turn["turn_id"])
        post_future(started)
        yield started


def post_future(server: Server) -> None:
    """A turn that starts in a year, as a sender with a wrong clock makes it."""
    begin = time.time_ns() + 365 * 86_400 * 10**9

    def span(number: int, parent: str, **texts: str) -> dict[str, object]:
        attributes = [{"key": key.replace("__", "."), "value": {"stringValue": value}}
                      for key, value in texts.items()]  # fmt: skip
        return {
            "traceId": "f" * 31 + "1", "spanId": f"{number:016x}", "parentSpanId": parent,
            "name": f"step {number}", "startTimeUnixNano": str(begin + number),
            "endTimeUnixNano": str(begin + 10**9 - number), "attributes": attributes,
        }  # fmt: skip

    root = span(
        1,
        "",
        openinference__span__kind="CHAIN",
        input__value="from tomorrow?",
        output__value="Yes.",
    )
    call = span(
        2, "0" * 15 + "1", gen_ai__operation__name="chat", gen_ai__request__model="m",
        openinference__span__kind="LLM",
    )  # fmt: skip
    body = {"resourceSpans": [{"scopeSpans": [{"spans": [root, call]}]}]}
    otlp = Server(server.data_dir, addresses={"api": server.otlp_http})
    assert otlp.call("POST", "/v1/traces", body).status == 200
    server.turns(1, "future=true")


def test_a_list_cuts_long_texts_and_says_so(server: Server) -> None:
    items = {item["question"][:5]: item for item in server.get("/turns")["items"]}
    cut = items["How m"]
    assert (cut["question"], cut["question_cut"]) == (LONG[:500] + "…", True)
    assert (cut["answer"], cut["answer_cut"]) == (ANSWER[:500] + "…", True)
    short = items["short"]
    assert (short["question"], short["question_cut"]) == ("short?", False)
    assert (short["answer"], short["answer_cut"]) == ("Short.", False)
    assert server.get(f"/turns/{cut['turn_id']}")["question"] == LONG


def test_words_beyond_the_cut_are_still_found(server: Server) -> None:
    assert server.get("/turns?q=short")["total"] == 1


def test_no_page_of_lists_carries_a_whole_text(server: Server) -> None:
    turn_id = next(t for t in server.get("/turns")["items"] if t["question_cut"])["turn_id"]
    server.post(f"/review/{turn_id}", {"action": "flag"})
    for path in ("/", "/turns", "/review"):
        page = server.call("GET", path, headers={"accept": "text/html"})
        assert page.status == 200
        assert len(page.body) < 100_000, path
    assert server.get("/review")["items"][0]["question_cut"] is True


def test_turns_from_the_future_stand_apart(server: Server) -> None:
    found = server.get("/turns")
    assert "from tomorrow?" not in {item["question"] for item in found["items"]}
    assert found["future_total"] == 1
    ahead = server.get("/turns?future=true")
    assert [item["question"] for item in ahead["items"]] == ["from tomorrow?"]
    asked = server.get("/turns?until=2199-01-01T00:00:00Z")
    assert "from tomorrow?" in {item["question"] for item in asked["items"]}
    page = server.call("GET", "/turns", headers={"accept": "text/html"}).body.decode()
    assert "1 turn carries a time in the future" in page
    assert "from tomorrow?" not in page
    page = server.call("GET", "/turns?future=yes", headers={"accept": "text/html"}).body.decode()
    assert "from tomorrow?" in page


def test_the_turns_page_filters_by_conversation(server: Server) -> None:
    page = server.call("GET", "/turns?conversation_id=long+one", headers={"accept": "text/html"})
    text = page.body.decode()
    assert "1 match" in text
    assert 'name="conversation_id" value="long one"' in text


def test_a_wrong_query_in_a_browser_is_a_page(server: Server) -> None:
    page = server.call("GET", "/?span=9y", headers={"accept": "text/html,*/*"})
    assert page.status == 400
    assert page.headers["content-type"].startswith("text/html")
    assert b"span" in page.body
    lost = server.call("GET", "/no-such-page", headers={"accept": "text/html,*/*"})
    assert lost.status == 404
    assert lost.headers["content-type"].startswith("text/html")
    plain = server.call("GET", "/api/v1/turns?limit=0", headers={"accept": "text/html,*/*"})
    assert plain.headers["content-type"] == "application/problem+json"
