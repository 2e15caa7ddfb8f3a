"""What the scripted openai server's answer has to look like in a turn."""

from __future__ import annotations

from typing import Any

from tests.support.sdk_openai_server import ANSWER, MODEL

from stagewatch.sdk import semconv
from stagewatch.sdk.testing import Captured


def told(captured: Captured) -> dict[str, Any]:
    """The attributes of the one call of the one turn."""
    turn = captured.turn()
    assert turn.stages == ["generate"]
    return dict(turn.spans[0].attributes or {})


def check_answer(captured: Captured, model: str) -> dict[str, Any]:
    """The call's attributes, once the answer, models, id and tokens are right."""
    attributes = told(captured)
    assert captured.turn().answer == ANSWER
    assert attributes[semconv.REQUEST_MODEL] == model
    assert attributes[semconv.RESPONSE_MODEL] == MODEL
    assert attributes[semconv.RESPONSE_ID] in {"chatcmpl-1", "resp-1"}
    assert (attributes[semconv.INPUT_TOKENS], attributes[semconv.OUTPUT_TOKENS]) == (7, 3)
    return attributes
