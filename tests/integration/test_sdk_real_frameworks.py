"""The SDK around the real LangChain, LlamaIndex and Haystack: same results, and turns told.

The libraries live in an environment of their own (`make install-frameworks`, part of `make test`).
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-frameworks" / "bin" / "python"
QUESTION = "How many days do I have to request a refund?"

pytestmark = pytest.mark.skipif(
    not (ROOT / ".venv-frameworks" / "done").exists(),
    reason="the frameworks are not installed: make install-frameworks",
)


def run(app: str, *words: str) -> dict[str, Any]:
    """What the app printed."""
    done = subprocess.run(
        [PYTHON, ROOT / "tests" / "frameworks" / f"{app}_app.py", *words],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "sdk")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@functools.cache
def told(app: str) -> dict[str, Any]:
    """What was told of each turn, once it is sure that the app got the same as without us."""
    watched = run(app, "watched")
    assert watched["got"] == run(app)["got"]
    turns: dict[str, Any] = watched["told"]
    return turns


def ids(rows: list[dict[str, Any]]) -> list[str]:
    return [row["id"] for row in rows]


def test_langchain() -> None:
    turns = told("langchain")
    assert turns["searched"]["stages"] == ["retrieve", "retrieve"]
    assert turns["searched"]["top_k"] == [2, 2]
    for name in ("invoke", "ainvoke", "stream", "parallel", "configured", "typed", "tool"):
        assert turns[name]["stages"] == ["retrieve"], name
        assert (turns[name]["queries"], turns[name]["top_k"]) == ([QUESTION], [2])
        assert ids(turns[name]["documents"]) == ["refund#2", "refund#1"]
    first = turns["invoke"]["documents"][0]
    assert first["document_id"] == "refund.md"
    assert first["content"] == "A refund takes 5 days to arrive."
    assert turns["piped into"]["queries"] == [QUESTION.lower()]
    assert turns["batch"]["stages"] == ["retrieve", "retrieve"]
    assert sorted(turns["batch"]["queries"]) == sorted([QUESTION, "warranty"])
    assert turns["scored"]["top_k"] == [3]
    scores = [row["score"] for row in turns["scored"]["documents"]]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)


def test_langchain_reranking_and_answers() -> None:
    turns = told("langchain")
    assert turns["rerank"]["stages"] == ["retrieve", "rerank"]
    assert turns["rerank"]["queries"] == [QUESTION, QUESTION]
    assert turns["rerank"]["reranked_from"] == [["refund#2", "refund#1"]]
    assert ids(turns["rerank"]["reranked"]) == ["refund#1", "refund#2"]
    assert turns["messages"]["answer"] == turns["pieces"]["answer"] == "Within thirty days."
    assert turns["messages"]["models"] == ["fake-1"]
    assert turns["messages"]["tokens"] == [[7, 3]]
    assert turns["messages"]["prompts"] == [[["user", f"c\n{QUESTION}"]]]


def test_llamaindex() -> None:
    turns = told("llamaindex")
    for name in ("retrieve", "aretrieve"):
        assert turns[name]["stages"] == ["retrieve"]
    for name in ("engine", "aengine", "direct"):
        assert turns[name]["stages"] == ["retrieve", "rerank"], name
        assert turns[name]["queries"] == [QUESTION, QUESTION]
        assert ids(turns[name]["reranked"]) == ids(turns[name]["documents"])[::-1]
        assert turns[name]["reranked_from"] == [ids(turns[name]["documents"])]
    first = turns["retrieve"]["documents"][0]
    assert first["document_id"] == first["id"].partition("#")[0] + ".md"
    assert (first["version"], first["score"]) == ("v3", 1.0)
    assert turns["retrieve"]["top_k"] == [2]
    for name in ("chat", "complete", "pieces", "from sources"):
        assert turns[name]["answer"] == "text text text text", name
    assert turns["chat"]["prompts"] == [[["system", "Be brief."], ["user", QUESTION]]]


def test_haystack() -> None:
    turns = told("haystack")
    for name in ("pipeline", "again", "async"):
        assert turns[name]["stages"] == ["retrieve", "rerank"], name
        assert turns[name]["queries"] == [QUESTION, QUESTION]
        assert turns[name]["top_k"] == [2]
        assert ids(turns[name]["reranked"]) == ids(turns[name]["documents"])[::-1]
    first = turns["pipeline"]["documents"][0]
    assert (first["id"], first["document_id"]) == ("refund#2", "refund.md")
    assert first["score"] > 0
    assert turns["alone"]["top_k"] == [1]
    assert (turns["reply"]["models"], turns["reply"]["tokens"]) == (["fake-1"], [[7, 3]])
    assert turns["reply"]["answer"] == "Within thirty days."
