"""`demo`: the refund-policy bot, broken on purpose, and what stagewatch says of it."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the verb."""
    demo = verbs.add_parser(
        "demo",
        help="run a small RAG app through four phases and see which stage broke",
        description=(
            "Starts a server on free ports with a data folder of its own, replays captured OTLP "
            "requests, runs a support bot that is healthy first and then broken in three ways, "
            "says in plain words what was found, and lets a gate stop the re-index that does it "
            "again."
        ),
    )
    demo.add_argument("--data-dir", type=Path, default=Path("demo-data"))
    demo.add_argument("--once", action="store_true", help="stop after the summary")
    demo.add_argument("--turns", type=int, default=1100, help="turns of the healthy phase")
    demo.add_argument("--port", type=int, help="port of the UI (default: 8600, or a free one)")
    demo.add_argument("--json", action="store_true", help="print the findings as JSON at the end")
    demo.set_defaults(run=_demo)


def _demo(arguments: argparse.Namespace) -> int:
    return int(importlib.import_module("stagewatch.demo.story").run(arguments))
