"""The Vercel AI SDK 7 with its OpenTelemetry integration: an agent that searches with a tool.

Runs `vercel_ai_7.js`; NODE names the program and NODE_MODULES_OF the folder with its packages:
ai, @ai-sdk/otel, @ai-sdk/openai, zod, and OpenTelemetry's as in tests/frameworks/node.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from common import Capture, Truth, record, rows
from kb import ANSWER_PROMPT, MODEL, RELEASE, WINDOW, Ask, search
from servers import Rig, with_tool_call

running: list[subprocess.Popen[str]] = []


def set_up(rig: Rig) -> Any:
    rig.model.chat = with_tool_call(rig.model, "searchKb")  # type: ignore[method-assign]
    settings = {
        "release": RELEASE,
        "receiver": rig.receiver.url,
        "model_url": rig.model.url,
        "model": MODEL,
        "prompt": ANSWER_PROMPT,
    }
    script = Path(__file__).with_suffix(".js")
    app = subprocess.Popen(
        [os.environ["NODE"], script, json.dumps(settings)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    running.append(app)

    def answer(ask: Ask, truth: Truth) -> str:
        hits = search(ask.query, WINDOW)
        shown = [{k: v for k, v in row.items() if k != "rank"} for row in rows(hits)]
        assert app.stdin is not None
        assert app.stdout is not None
        app.stdin.write(json.dumps({"question": ask.question, "hits": shown}) + "\n")
        app.stdin.flush()
        truth.found(hits)
        truth.window([hit.doc for hit in hits])
        return str(json.loads(app.stdout.readline()))

    return answer


def flush() -> None:
    running[0].communicate(timeout=30)


if __name__ == "__main__":
    record(
        Capture(
            name="vercel-ai-sdk-7",
            packages=(),
            notes=(
                "The search is a tool: its query and result are the tool call's arguments and result.",
                "rewrite_tokens are those of the call that chose the tool.",
            ),
            versions={"ai": "7.0.173", "@ai-sdk/otel": "1.0.173", "@ai-sdk/openai": "4.0.118"},
            absent={"conversation_id": "this app gives none"},
            tags={"release": RELEASE},
        ),
        set_up,
        flush,
    )
