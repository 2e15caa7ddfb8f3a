"""How fast turns are scored: judge calls a second with a remote judge of 500 ms, beside the bare
openai client, and turns a second end to end (read, score, write) with the embedded judge.

    python -m bench.scorer [--calls 2400] [--turns 3000] [--concurrency 64]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.support.scorer_openai_server import Script, task_of
from tests.support.scorer_turns import PASSAGES, turn

LATENCY_S = 0.5
ANSWER = (
    "You can return any item within 30 days from delivery for a full refund. Shipping is EUR 4.90."
)
FILLER = " ".join(PASSAGES.values())


def make_turns(n, project, chars):
    now = datetime.now(UTC)
    names = ["refund", "shipping", "warranty", "hours", "giftcard"]
    made = []
    for i in range(n):
        item = turn(
            f"Within how many days can I return item {i} for a refund?",
            ANSWER,
            names,
            project=project,
            turn_id=f"{project}{i:08x}-s",
        )
        text = (FILLER * (1 + chars // len(FILLER)))[:chars]
        window = tuple(replace(c, content=f"{c.content} {text}".strip()) for c in item.window)
        retrieval = replace(item.retrievals[0], chunks=window)
        made.append(
            replace(
                item, window=window, retrievals=(retrieval,), started_at=now - timedelta(seconds=30)
            )
        )
    return made


def canned():
    """The reply to each task about a turn of `make_turns`."""
    sentences = [part if part.endswith(".") else f"{part}." for part in ANSWER.split(". ")]
    claims = [
        {"quote": s, "statement": s, "label": "SUPPORTED", "evidence": n}
        for n, s in enumerate(sentences, start=1)
    ]
    marks = [{"chunk": n, "relevant": n == 1} for n in range(1, 6)]
    replies = {
        "faithfulness": {"refused": False, "claims": claims},
        "relevance": {"marks": marks},
        "sufficiency": {"level": "sufficient"},
        "relevancy": {"items": [{"asked": "it", "addressed": True}]},
    }
    body = {"model": "bench", "messages": [{"content": "x" * 3000}]}
    return {
        task: json.dumps(Script().completion(body, json.dumps(reply))).encode()
        for task, reply in replies.items()
    }


async def serve_judge():
    """A judge behind an event loop, with replies made beforehand: a remote one costs no CPU here."""
    replies = canned()

    async def handle(reader, writer):
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                size = next(
                    (
                        int(line.split(b":")[1])
                        for line in head.lower().split(b"\r\n")
                        if line.startswith(b"content-length")
                    ),
                    0,
                )
                body = json.loads(await reader.readexactly(size))
                began = time.monotonic()
                data = replies[task_of(body["messages"][0]["content"])]
                await asyncio.sleep(max(0.0, LATENCY_S - (time.monotonic() - began)))
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                    b"Content-Length: %d\r\n\r\n" % len(data) + data
                )
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def bare_client(base_url, calls, concurrency):
    """Calls a second of the openai client alone, with a prompt of the judge's size."""
    from openai import OpenAI

    from stagewatch.scorer.judges.fence import fence
    from stagewatch.scorer.judges.prompts import prompt

    client = OpenAI(api_key="k", base_url=base_url)
    system = f"{prompt('rules')}\n{prompt('sufficiency')}"
    material = f"{fence('question', ['q'])}\n{fence('chunk', list(PASSAGES.values())[:5])}"

    def ask(_):
        client.chat.completions.create(
            model="bare",
            temperature=0,
            messages=[{"role": "system", "content": system}, {"role": "user", "content": material}],
        )

    with ThreadPoolExecutor(concurrency) as pool:
        list(pool.map(ask, range(concurrency)))
        began = time.perf_counter()
        list(pool.map(ask, range(calls)))
        return calls / (time.perf_counter() - began)


def our_calls(store, settings, base_url, calls, concurrency):
    from stagewatch.core.clock import SystemClock
    from stagewatch.core.store.turns import put_turns
    from stagewatch.scorer.judges.asking import Price
    from stagewatch.scorer.judges.fuse import Fuse
    from stagewatch.scorer.judges.ledger import Ledger
    from stagewatch.scorer.judges.openai import OpenAIJudge, OpenAIOptions
    from stagewatch.scorer.work import Worker
    from stagewatch.scorer.work_hand import Duty
    from stagewatch.scorer.work_one import Reader

    clock = SystemClock()
    ledger = Ledger(store, 1e9, clock.now, behind=True)
    fuse = Fuse(clock.monotonic)
    judge = OpenAIJudge(
        OpenAIOptions(model="bench", api_key="k", base_url=base_url, concurrency=concurrency),
        ledger,
        fuse,
    )
    reader = Reader(judge, Price(2.5, 10), ledger.budget, fuse, ledger.flush, first_pass=True)
    turns = make_turns(calls // 4, "remote", 0)
    put_turns(store, turns, assembled_at=clock.now(), revision=1)
    worker = Worker(
        store, reader, clock, Duty(timedelta(days=1), threads=concurrency + concurrency // 4)
    )
    began = time.perf_counter()
    report = worker.run_pass()
    took = time.perf_counter() - began
    made = fuse.successes
    worker.close()
    assert report.outcomes["scored"] == len(turns), report
    return made / took, made


def embedded_turns(store, n, chars):
    from stagewatch.core.clock import SystemClock
    from stagewatch.core.store.turns import put_turns
    from stagewatch.scorer.judges.embedded import EmbeddedJudge
    from stagewatch.scorer.work import Worker
    from stagewatch.scorer.work_hand import Duty
    from stagewatch.scorer.work_one import Reader

    clock = SystemClock()
    turns = make_turns(n, f"embedded{chars}", chars)
    for start in range(0, n, 500):
        put_turns(store, turns[start : start + 500], assembled_at=clock.now(), revision=1)
    worker = Worker(store, Reader(EmbeddedJudge()), clock, Duty(timedelta(days=1)))
    began = time.perf_counter()
    report = worker.run_pass()
    took = time.perf_counter() - began
    assert report.outcomes["scored"] == n, report
    return n / took


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=3840)
    parser.add_argument("--turns", type=int, default=3000)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve_judge())
        return
    logging.getLogger("httpx").setLevel(logging.WARNING)
    from stagewatch.core.settings import load_settings
    from stagewatch.core.store import migrate, open_store

    judge = subprocess.Popen(
        [sys.executable, "-m", "bench.scorer", "--serve"], stdout=subprocess.PIPE, text=True
    )
    try:
        url = f"http://127.0.0.1:{int(judge.stdout.readline())}/v1"
        with tempfile.TemporaryDirectory() as folder:
            settings = load_settings({"STAGEWATCH_DATA_DIR": str(Path(folder) / "data")})
            store = open_store(settings)
            migrate(store)
            for chars in (0, 1000):
                rate = embedded_turns(store, options.turns, chars)
                size = 5 * (chars + 100) / 1000
                print(
                    f"embedded judge, about {size:.1f} kB of passages a turn: {rate:.0f} turns/s "
                    "read, scored, written (wanted: 300)"
                )
            bare = bare_client(url, options.calls, options.concurrency)
            ours, made = our_calls(store, settings, url, options.calls, options.concurrency)
            print(
                f"remote judge of {LATENCY_S * 1000:.0f} ms, {options.concurrency} side by side: "
                f"{ours:.0f} calls/s over {made} calls (wanted: 110); bare openai client: {bare:.0f}"
            )
            store.close()
    finally:
        judge.kill()
        judge.wait()


if __name__ == "__main__":
    main()
