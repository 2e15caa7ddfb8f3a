"""Prompts are files with a version in their name; what a judge is asked is part of what it is."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources

import xxhash

from stagewatch.scorer.judges.replies import SCHEMAS

TASKS = ("faithfulness", "statements", "relevance", "sufficiency", "relevancy", "rewrite")
PROMPT_VERSION = "v1"


@cache
def prompt(name: str) -> str:
    """The text of `prompts/{name}.{version}.md`."""
    folder = resources.files("stagewatch.scorer").joinpath("prompts")
    return folder.joinpath(f"{name}.{PROMPT_VERSION}.md").read_text(encoding="utf-8")


@cache
def prompts_hash() -> str:
    """XXH3-64 over every prompt and every reply schema."""
    parts = [prompt("rules"), *(prompt(task) for task in TASKS)]
    parts.append(json.dumps(SCHEMAS, sort_keys=True))
    return xxhash.xxh3_64_hexdigest("\x00".join(parts).encode())
