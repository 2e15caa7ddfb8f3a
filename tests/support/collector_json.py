"""OTLP/JSON of a request, made with protobuf's own JSON mapping and mended where OTLP differs."""

from __future__ import annotations

import base64
import json
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

_IDS = {"traceId", "spanId", "parentSpanId"}


def _hex_ids(value: Any) -> Any:
    if isinstance(value, list):
        return [_hex_ids(item) for item in value]
    if isinstance(value, dict):
        return {
            key: base64.b64decode(inner).hex() if key in _IDS else _hex_ids(inner)
            for key, inner in value.items()
        }
    return value


def otlp_json(message: Message) -> bytes:
    """The request as an OTLP/JSON body: hex ids, integer enums, 64-bit integers as text."""
    return json.dumps(_hex_ids(MessageToDict(message, use_integers_for_enums=True))).encode()
