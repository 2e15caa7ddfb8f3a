"""The embedded judge says the same from many threads as from one."""

from __future__ import annotations

import subprocess
import sys

_SCRIPT = """
import sys
from concurrent.futures import ThreadPoolExecutor
from stagewatch.demo.corpus import FACTS, current_passages, superseded_passages
from stagewatch.scorer.judges.embedded import EmbeddedJudge
from stagewatch.scorer.stages.generation import guarded

sys.setswitchinterval(1e-6)
judge = EmbeddedJudge()
texts = [p.content for p in (*current_passages(), *superseded_passages())]
asked = [(f.asked[0], texts[i % len(texts)], texts[i : i + 4]) for i, f in enumerate(FACTS)]

def read(item):
    question, answer, window = item
    found = judge.faithfulness(question, answer, window)
    return (guarded(found.claims, window), judge.relevance(question, window),
            judge.relevancy(question, answer), judge.sufficiency(question, window))

def both(order):
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(read, order))

# Threads first: caches that are warm would hide a clash.
threaded = both(asked)
assert threaded == [read(item) for item in asked]
print("same")
"""


def test_threads_do_not_mix_their_words_up() -> None:
    # A process of its own: its caches are cold, and a cold cache is where threads meet.
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.strip() == "same", done.stderr[-2000:]
