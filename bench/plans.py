"""A plan over a slow app and a slow judge, and the diff of two large runs.

    python -m bench.plans [--rows 300] [--diff-rows 10000]

The app answers in 100 ms and the scripted judge in 200 ms, each in a process of its own; every
row takes five questions to the judge. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.support.scorer_openai_server import running_server

from stagewatch.core.clock import SystemClock
from stagewatch.core.model import DatasetRow, Message, Need, Passage, Score
from stagewatch.core.settings import load_settings
from stagewatch.core.store.client import Store
from stagewatch.core.store.runs import put_run, put_run_rows
from stagewatch.scorer.plans.diff import diff_runs
from stagewatch.scorer.plans.launch import (
    Access,
    Source,
    load_table,
    need_run,
    prepare_run,
    store_start,
)
from stagewatch.scorer.plans.local import opened_store
from stagewatch.scorer.plans.plan import parse_plan, plan_body
from stagewatch.scorer.plans.results import Run, RunRow, run_body, summary_text
from stagewatch.scorer.plans.run import run_plan

METRICS = [
    "context_recall",
    "faithfulness",
    "answer_relevancy",
    "answer_precision",
    "rewrite_fidelity",
]
ANSWER = "You can request a refund within 30 days of delivery and need your order number."


def serve_app() -> None:
    """A local app: 100 ms, then a fixed answer."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            time.sleep(0.1)
            chunks = [
                {
                    "id": f"c{n}",
                    "document_id": "refunds",
                    "content": f"{ANSWER} {body['question']} {n}",
                }
                for n in range(5)
            ]
            answer = {
                "answer": f"{ANSWER} {body['question']}",
                "chunks": chunks,
                "query": body["question"],
            }
            data = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 64

    server = Server(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), server.shutdown()), daemon=True).start()
    server.serve_forever()


@contextlib.contextmanager
def running_app() -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.plans", "--serve-app"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/ask"
    finally:
        process.stdin.close()
        process.wait(timeout=20)


def dataset_rows(n: int) -> list[DatasetRow]:
    return [
        DatasetRow(
            f"r{i:05}",
            "bench",
            1,
            "happy_path",
            "unknown",
            f"What about case number {i} of delivery?",
            history=(Message("user", "hello there"),),
            needs=(Need((Passage("c0"),)),),
            expected_output=("The refund window is 30 days.", "The order number is needed."),
            status="confirmed",
        )
        for i in range(n)
    ]


def bench_run(store: Store, rows: int) -> dict[str, object]:
    clock = SystemClock()
    with running_app() as url, running_server() as judge:
        os.environ["OPENAI_API_KEY"] = "none"
        os.environ["OPENAI_BASE_URL"] = judge.base_url
        plan = parse_plan(
            {
                "name": "bench",
                "dataset": "bench",
                "metrics": METRICS,
                "top_k": 5,
                "judge": "openai",
                "judge_model": "slow-200",
                "connector": {"url": url, "concurrency": 16, "paths": {"rewritten_query": "query"}},
            }
        )
        settings = replace(store.settings, budget_usd_per_day=1000.0)
        began = time.monotonic()
        launch = prepare_run(
            store,
            settings,
            clock,
            plan,
            Source("bench", 1, dataset_rows(rows)),
            Access(os.environ),
            project="bench",
        )
        store_start(store, launch)
        cpu = time.process_time()
        run = run_plan(store, launch.run, launch.bench, launch.rows)
        return {
            "rows": rows,
            "seconds": round(time.monotonic() - began, 2),
            "state": run.state,
            "counts": run.counts,
            "judge_calls": judge.calls("slow-200"),
            "own_cpu_seconds": round(time.process_time() - cpu, 2),
            "forecast": launch.forecast.sentence,
        }


def stored_run(store: Store, run_id: str, rows: int, seed: int) -> None:
    """A run of made-up scores with whole bodies, as a real one has them."""
    plan = parse_plan({"name": "big", "connector": {"url": "http://127.0.0.1:9"}})
    kinds = ("happy_path", "near_miss", "multi_hop", "stale_policy", "unanswerable")
    chance, at = random.Random(seed), datetime.now(UTC)
    kept = []
    for i in range(rows):
        scores = []
        for metric in plan.measured:
            value = chance.choice((0.0, 0.5, 0.667, 0.8, 1.0))
            verdict = "pass" if value >= 0.7 else "fail"
            scores.append(
                Score(
                    metric, "scored", value, verdict, False, "judge", "j", "f", "a reason", at, 0.7
                )
            )
        row = RunRow(
            f"r{i:06}",
            kinds[i % 5],
            "confirmed",
            f"What about case {i}?",
            chance.choice(("pass", "fail")),
            "ok",
            "why",
            "",
            12.0,
            3.0,
            tuple(scores),
        )
        kept.append((row, summary_text(row)))
    for start in range(0, rows, 1000):
        put_run_rows(store, "bench", run_id, kept[start : start + 1000], at=at)
    run = Run(
        run_id, "bench", "big", plan_body(plan), "big", 1, "finished", at, rows, fingerprint="f"
    )
    put_run(store, "bench", run_id, "big", run_body(run), at=at)


def bench_diff(store: Store, rows: int) -> dict[str, object]:
    for run_id, seed in (("a", 1), ("b", 2)):
        stored_run(store, run_id, rows, seed)
    times = []
    for _ in range(5):
        began = time.monotonic()
        found = diff_runs(
            need_run(store, "bench", "a"),
            need_run(store, "bench", "b"),
            load_table(store, "bench", "a"),
            load_table(store, "bench", "b"),
        )
        times.append(round(time.monotonic() - began, 3))
    return {"rows": rows, "seconds": times, "metrics": len(found.metrics), "common": found.common}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--diff-rows", type=int, default=10_000)
    parser.add_argument("--serve-app", action="store_true")
    chosen = parser.parse_args()
    if chosen.serve_app:
        serve_app()
        return
    with tempfile.TemporaryDirectory() as folder:
        settings = load_settings({"STAGEWATCH_DATA_DIR": str(Path(folder) / "data")})
        with opened_store(settings) as store:
            result = {
                "run": bench_run(store, chosen.rows),
                "diff": bench_diff(store, chosen.diff_rows),
            }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
