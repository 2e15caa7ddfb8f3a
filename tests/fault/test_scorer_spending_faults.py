"""A hard budget of calls holds although the scorer is killed, and a judge that never answers does not
keep the server from ending.
"""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from tests.support.refund import send_turn
from tests.support.scorer_openai_server import ScriptedServer, running_server
from tests.support.server import Server, until

pytestmark = [pytest.mark.integration, pytest.mark.fault]

LIMIT = 60
THREADS = 4


def _judged_by(url: str, model: str, **more: str) -> dict[str, str]:
    return {
        "STAGEWATCH_JUDGE": "openai",
        "STAGEWATCH_JUDGE_MODEL": model,
        "STAGEWATCH_JUDGE_CONCURRENCY": str(THREADS),
        "OPENAI_API_KEY": "k",
        "OPENAI_BASE_URL": url,
        **more,
    }


def _send(server: Server, turns: int) -> None:
    exporter = OTLPSpanExporter(endpoint=f"{server.otlp_http}/v1/traces")
    for number in range(turns):
        send_turn(exporter, question=f"How many days do I have, in case {number}?")
    exporter.shutdown()  # type: ignore[no-untyped-call] # none in the library


def _more_calls(judge: ScriptedServer, model: str, than: int) -> bool:
    return judge.calls(model) > than


def test_kills_spend_no_more_than_the_day_allows(tmp_path: Path) -> None:
    model = "slow-200"
    with running_server() as judge:
        environ = _judged_by(judge.base_url, model, STAGEWATCH_BUDGET_CALLS_PER_DAY=str(LIMIT))
        server = Server(tmp_path / "data", environ).start()
        try:
            _send(server, 60)
            for _ in range(3):
                before = judge.calls(model)
                until("some more calls", partial(_more_calls, judge, model, before + 2))
                server.kill()
                server.start()
            until("the budget", lambda: b"is spent" in server.call("GET", "/readyz").body)
            assert judge.calls(model) <= LIMIT
            assert b"calls under way are booked" in server.output().encode()
        finally:
            server.stop()


def test_a_judge_that_never_answers_does_not_hold_the_server(tmp_path: Path) -> None:
    with running_server() as judge:
        server = Server(tmp_path / "data", _judged_by(judge.base_url, "slow-600000")).start()
        _send(server, 3)
        until("a call", lambda: judge.calls("slow-600000") > 0)
        assert server.process is not None
        server.process.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
        assert "will be scored again" in server.output()
