"""Spans and feedback over real sockets: what a collector and an API would get."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.support.sdk_receiver import Receiver, receiver

from stagewatch.collector.assemble import assemble_turns
from stagewatch.collector.assemble.otlp_file import read_otlp_spans

pytestmark = pytest.mark.integration

TELL = """
from stagewatch import sdk
with sdk.turn("how long?", conversation_id="c1") as turn:
    with sdk.retrieve("how long?") as step:
        step.record([{"id": "a", "content": "Thirty days."}])
    with sdk.generate("m", context=["a"]) as step:
        step.record("30 days")
"""


def clean() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "STAGEWATCH_"))}


def run(code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=clean() | environ,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def traces(collector: Receiver) -> list[bytes]:
    return collector.bodies.get("/v1/traces", [])


def test_configure_alone_sends_at_exit_with_release_and_key() -> None:
    with receiver() as collector:
        run(
            "from stagewatch.sdk import configure\n"
            f"configure({collector.url!r}, service='bot', release='1.4', environment='test',"
            " api_key='k1')\n" + TELL
        )
        (body,) = traces(collector)
        headers = collector.headers["/v1/traces"][0]
    assert headers["authorization"] == "Bearer k1"
    (turn,) = assemble_turns(read_otlp_spans(body))
    assert (turn.service, turn.release, turn.environment) == ("bot", "1.4", "test")
    assert (turn.question, turn.answer) == ("how long?", "30 days")


def test_otel_variables_are_honoured_and_get_no_key_of_ours() -> None:
    with receiver() as collector:
        run(
            "from stagewatch.sdk import configure\nconfigure()\n" + TELL,
            OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
            OTEL_EXPORTER_OTLP_HEADERS="x-team=blue",
            OTEL_SERVICE_NAME="named",
            OTEL_RESOURCE_ATTRIBUTES="service.version=9",
            STAGEWATCH_API_KEY="secret",
        )
        (body,) = traces(collector)
        headers = collector.headers["/v1/traces"][0]
    assert headers["x-team"] == "blue"
    assert "authorization" not in headers
    (turn,) = assemble_turns(read_otlp_spans(body))
    assert (turn.service, turn.release) == ("named", "9")


VENDOR = {"OTEL_EXPORTER_OTLP_HEADERS": "x-vendor-key=theirs"}
LOCAL = "http://localhost:4318/v1/traces"


@pytest.mark.parametrize("key", [None, "k1"])
@pytest.mark.parametrize("source", ["argument", "variable"])
def test_headers_for_an_otel_endpoint_do_not_go_to_ours(source: str, key: str | None) -> None:
    with receiver() as vendor, receiver() as collector:
        given = repr(collector.url) if source == "argument" else ""
        environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": vendor.url, **VENDOR}
        if source == "variable":
            environ["STAGEWATCH_ENDPOINT"] = collector.url
        if key is not None:
            environ["STAGEWATCH_API_KEY"] = key
        run(f"from stagewatch.sdk import configure\nconfigure({given})\n" + TELL, **environ)
        (headers,) = collector.headers["/v1/traces"]
        assert vendor.headers == {}
    assert "theirs" not in str(headers)
    assert headers.get("authorization") == (key and f"Bearer {key}")


def test_headers_of_the_environment_go_to_the_local_collector_that_nobody_named() -> None:
    # A proxy sees what would go to port 4318, which may be taken here.
    with receiver() as proxy:
        run(
            "from stagewatch.sdk import configure\nconfigure()\n" + TELL,
            **{"http_proxy": proxy.url, "no_proxy": "", **VENDOR},
        )
        assert [headers["x-vendor-key"] for headers in proxy.headers[LOCAL]] == ["theirs"]


def test_an_existing_provider_keeps_its_exporter_and_resource() -> None:
    with receiver() as theirs, receiver() as ours:
        run(
            "from opentelemetry import trace\n"
            "from opentelemetry.sdk.resources import Resource\n"
            "from opentelemetry.sdk.trace import TracerProvider\n"
            "from opentelemetry.sdk.trace.export import BatchSpanProcessor\n"
            "from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter\n"
            "provider = TracerProvider(resource=Resource.create({'service.name': 'their-app'}))\n"
            f"exporter = OTLPSpanExporter({theirs.url + '/v1/traces'!r})\n"
            "provider.add_span_processor(BatchSpanProcessor(exporter))\n"
            "trace.set_tracer_provider(provider)\n"
            "from stagewatch.sdk import configure\n"
            f"configure({ours.url!r}, service='ignored')\n"
            "assert trace.get_tracer_provider() is provider\n" + TELL
        )
        for collector in (theirs, ours):
            (body,) = traces(collector)
            (turn,) = assemble_turns(read_otlp_spans(body))
            assert turn.service == "their-app"


def test_the_sdk_can_be_switched_off_by_the_otel_variable() -> None:
    with receiver() as collector:
        run(
            f"from stagewatch.sdk import configure\nconfigure({collector.url!r})\n" + TELL,
            OTEL_SDK_DISABLED="true",
        )
        assert collector.bodies == {}


def test_unconfigured_code_sends_nothing_and_runs() -> None:
    done = run(TELL + "print(turn.record('x'))")
    assert (done.stdout, done.stderr) == ("x\n", "")


def test_flush_and_forked_children_send_each_span_once() -> None:
    code = (
        "import os\nfrom stagewatch import sdk\nsdk.configure({url!r})\n"
        "def tell(q):\n"
        "    with sdk.turn(q): pass\n"
        "tell('parent before')\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    tell('child')\n"
        "    assert sdk.flush(10)\n"
        "    os._exit(0)\n"
        "os.waitpid(pid, 0)\n"
        "tell('parent after')\n"
        "assert sdk.flush(10)\n"
    )
    with receiver() as collector:
        run(code.replace("{url!r}", repr(collector.url)))
        rows = [row for body in traces(collector) for row in read_otlp_spans(body)]
    asked = sorted(row.attributes["input.value"] for row in rows)
    assert asked == ["child", "parent after", "parent before"]


def test_a_pools_worker_sends_a_turn_when_it_ends() -> None:
    # It is terminated when the block is left, and what still waits is lost then.
    code = (
        "import multiprocessing\nfrom stagewatch import sdk\nfrom stagewatch.sdk import _setup\n"
        "sdk.configure({url!r})\n"
        "_setup._installed.processor._send_every_s = 3_600\n"
        "def tell(q):\n"
        "    with sdk.turn(q): pass\n"
        "with multiprocessing.get_context('fork').Pool(1) as pool:\n"
        "    pool.apply(tell, ('asked',))\n"
        "    input()\n"
    )
    with receiver() as collector:
        app = subprocess.Popen(
            [sys.executable, "-c", code.replace("{url!r}", repr(collector.url))],
            env=clean(),
            stdin=subprocess.PIPE,
        )
        try:
            (body,) = collector.wait_for("/v1/traces")
        finally:
            app.communicate(b"\n", timeout=30)
    assert app.returncode == 0
    (row,) = read_otlp_spans(body)
    assert row.attributes["input.value"] == "asked"


def test_feedback_is_posted_from_a_process_that_saw_no_turn() -> None:
    with receiver() as api:
        run(
            "from stagewatch.sdk import feedback\n"
            "feedback('ab' * 16, 'disputed', comment='wrong number', source='helpdesk',"
            " external_id='t-17')\n"
            "from stagewatch.sdk import flush\nassert flush(10)\n",
            STAGEWATCH_URL=api.url,
            STAGEWATCH_API_KEY="k2",
        )
        (body,) = api.bodies["/api/v1/feedback"]
        headers = api.headers["/api/v1/feedback"][0]
    assert json.loads(body) == {
        "trace_id": "ab" * 16,
        "kind": "disputed",
        "comment": "wrong number",
        "source": "helpdesk",
        "external_id": "t-17",
    }
    assert headers["authorization"] == "Bearer k2"


def test_feedback_is_sent_at_exit_without_a_flush() -> None:
    with receiver() as api:
        run(
            "from stagewatch.sdk import feedback\nfeedback('ab' * 16, 'thumbs_up')\n",
            STAGEWATCH_URL=api.url,
        )
        (body,) = api.wait_for("/api/v1/feedback")
    assert json.loads(body)["external_id"]


def test_feedback_of_an_unknown_kind_or_to_nobody_breaks_nothing() -> None:
    with receiver() as gone:
        url = gone.url
    done = run(
        "from stagewatch.sdk import feedback, shutdown\n"
        "feedback('ab' * 16, 'meh')\nfeedback('ab' * 16, 'thumbs_up')\nshutdown()\nprint('ok')\n",
        STAGEWATCH_URL=url,
    )
    assert done.stdout == "ok\n"
    assert "feedback kind must be one of" in done.stderr


def test_the_bare_sdk_loads_nothing_heavy() -> None:
    done = run(
        "import sys\nfrom stagewatch import sdk\nsdk.configure()\n"
        "heavy = {'grpc', 'fastapi', 'pydantic', 'orjson', 'chdb', 'pandas', 'numpy', 'requests',"
        " 'opentelemetry.exporter.otlp.proto.http.trace_exporter'}\n"
        "print(sorted(heavy & sys.modules.keys()))\n"
    )
    assert done.stdout == "[]\n"


def questions(collector: Receiver) -> list[str]:
    rows = [row for body in traces(collector) for row in read_otlp_spans(body)]
    return sorted(str(turn.question) for turn in assemble_turns(rows))


def test_children_of_multiprocessing_send_what_they_told() -> None:
    code = (
        "import multiprocessing\nfrom stagewatch import sdk\n"
        "def work(name):\n    with sdk.turn(name): pass\n"
        "sdk.configure()\nfork = multiprocessing.get_context('fork')\n"
        "child = fork.Process(target=work, args=('child',))\nchild.start(); child.join()\n"
        "pool = fork.Pool(1)\npool.map(work, ['pool']); pool.close(); pool.join()\n"
        "work('parent')\n"
    )
    with receiver() as collector:
        run(code, STAGEWATCH_ENDPOINT=collector.url)
        assert questions(collector) == ["child", "parent", "pool"]


def test_an_empty_address_is_none() -> None:
    with receiver() as collector:
        run(
            "from stagewatch import sdk\nsdk.configure()\n" + TELL,
            STAGEWATCH_ENDPOINT=" ",
            OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
        )
        assert questions(collector) == ["how long?"]


def test_a_redirected_feedback_is_lost_and_its_key_stays_with_us() -> None:
    asked: list[str] = []

    class Redirecting(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(f"{self.command} {self.path}")
            self.send_response(301)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self) -> None:
            self.do_POST()

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Redirecting)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        done = run(
            "from stagewatch import sdk\nsdk.feedback('1' * 32, 'disputed')\nsdk.flush()\n",
            STAGEWATCH_URL=f"http://127.0.0.1:{server.server_port}",
            STAGEWATCH_API_KEY="secret",
        )
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert asked == ["POST /api/v1/feedback"]
    assert "HTTP 301" in done.stderr


def totals(stderr: str) -> dict[str, int]:
    """What is known of each kind of loss at the end: its last word."""
    words = {"dropped a span": "queue_full", "lost ": "not_sent", "ended with ": "exit"}
    found = {
        reason: int(number)
        for line, number in re.findall(r"stagewatch (.*) \[(\d+) so far\]", stderr)
        for word, reason in words.items()
        if line.startswith(word)
    }
    in_all = re.findall(r"losses in all: (.*)", stderr)
    return found | {
        name: int(number) for line in in_all for name, number in re.findall(r"(\w+) (\d+)", line)
    }


def test_every_loss_is_in_the_totals_at_the_end() -> None:
    with receiver() as gone:
        endpoint = gone.url
    done = run(
        "from stagewatch import sdk\nsdk.configure()\n"
        "for n in range(4500):\n    with sdk.turn('q'): pass\n",
        STAGEWATCH_ENDPOINT=endpoint,
    )
    assert sum(totals(done.stderr).values()) == 4500, done.stderr


def test_a_loss_is_told_with_its_reason() -> None:
    with receiver() as gone:
        endpoint = gone.url
    done = run(
        "from stagewatch import sdk\nsdk.configure()\nwith sdk.turn('q'): pass\nsdk.flush()\n",
        STAGEWATCH_ENDPOINT=endpoint,
        OTEL_EXPORTER_OTLP_TIMEOUT="1",
    )
    assert "lost 1 spans: the collector did not take them (ConnectionRefusedError)" in done.stderr
