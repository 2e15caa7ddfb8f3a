"""The recipe for Node in the docs, run with OpenTelemetry's own JavaScript SDK against a server.

Node itself comes with the frameworks' environment (`make install-frameworks`, part of `make test`).
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from tests.support.server import serving

ROOT = Path(__file__).parents[2]
NODE_FOLDER = ROOT / "tests" / "frameworks" / "node"
FRAMEWORKS = ROOT / ".venv-frameworks"

pytestmark = pytest.mark.skipif(
    not (FRAMEWORKS / "node-done").exists(),
    reason="OpenTelemetry's JavaScript SDK is not installed: make install-frameworks",
)


def recipe() -> str:
    text = (ROOT / "docs" / "sdk.md").read_text()
    found = re.search(r"^```js\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_the_printed_recipe_makes_a_whole_turn(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as server:
        done = subprocess.run(
            [FRAMEWORKS / "bin" / "node", NODE_FOLDER / "recipe.js", server.otlp_http],
            input=recipe(),
            env={"PATH": os.environ["PATH"], "NODE_MODULES_OF": str(FRAMEWORKS / "node")},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        (listed,) = server.turns(1)
        turn = server.get(f"/turns/{listed['turn_id']}")
    assert turn["trace_id"] == done.stdout.strip()
    assert turn["question"] == "And how long?"
    assert turn["answer"] == "Within 30 days."
    assert (turn["conversation_id"], turn["turn_index"]) == ("c-node", 2)
    assert (turn["service"], turn["release"]) == ("refund-bot", "1.4.2")
    assert turn["index_version"] == "kb-2026-11-01"
    assert turn["model"] == "gpt-4o-mini"
    (retrieval,) = turn["retrievals"]
    assert (retrieval["query"], retrieval["top_k"]) == ("How long is the refund window?", 10)
    told = [(c["rank"], c["chunk_id"], c["document_id"], c["version"]) for c in retrieval["chunks"]]
    assert told == [
        (1, "refund#1", "refund", "v7"),
        (2, "refund#2", "refund", "v6"),
        (3, "warranty#1", "warranty", "v1"),
        (4, "shipping#1", "shipping", "v1"),
    ]
    assert [c["score"] for c in retrieval["chunks"]] == [1.0, 0.5, 0.25, 0.125]
    assert retrieval["chunks"][0]["content"] == 'Refunds within "30" days.\nÄ'
    assert [c["chunk_id"] for c in turn["window"]] == ["refund#1", "refund#2", "warranty#1"]
    assert turn["conventions"] == ["stagewatch"]
