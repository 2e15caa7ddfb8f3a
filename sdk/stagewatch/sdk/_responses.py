"""Reading a model's answer, name and token counts from whatever a client library returns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Reply:
    """What one model call said. Counts are tokens; None where the response does not tell.
    `length` is that of the whole answer in characters where `text` is only its beginning.
    """

    text: str | None = None
    length: int = 0
    model: str | None = None
    response_id: str | None = None
    finish_reasons: list[str] = field(default_factory=list)
    input_tokens: int | None = None
    output_tokens: int | None = None

    def merge(self, other: Reply) -> None:
        """Take over what `other` knows; texts are not joined here."""
        self.model = other.model or self.model
        self.response_id = other.response_id or self.response_id
        self.finish_reasons = other.finish_reasons or self.finish_reasons
        if other.input_tokens is not None:
            self.input_tokens = other.input_tokens
        if other.output_tokens is not None:
            self.output_tokens = other.output_tokens


def field_of(item: object, name: str) -> Any:  # noqa: ANN401 - the app's own objects
    """What `item` has under `name`, a mapping or an object; None for methods and for nothing."""
    if isinstance(item, Mapping):
        return item.get(name)
    try:
        value = getattr(item, name, None)
    except Exception:  # noqa: BLE001 - a property of the app's that raises says nothing
        return None
    return None if callable(value) else value


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _str(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def text_of(value: object) -> str | None:
    """The text in a message's content: a string, or a list of strings and text parts."""
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)):
        parts = [part if isinstance(part, str) else field_of(part, "text") for part in value]
        texts = [part for part in parts if isinstance(part, str)]
        return "".join(texts) if texts else None
    return None


def _usage(item: object, reply: Reply) -> None:
    # openai (both APIs), anthropic, LangChain (usage_metadata), plain dicts.
    for name in ("usage", "usage_metadata"):
        usage = field_of(item, name)
        if usage is None:
            continue
        for key in ("input_tokens", "prompt_tokens", "prompt_token_count"):
            reply.input_tokens = _first_count(reply.input_tokens, field_of(usage, key))
        for key in ("output_tokens", "completion_tokens", "candidates_token_count"):
            reply.output_tokens = _first_count(reply.output_tokens, field_of(usage, key))


def _first_count(known: int | None, value: object) -> int | None:
    return known if known is not None else _count(value)


def _choice(choice: object, reply: Reply) -> None:
    finish = _str(field_of(choice, "finish_reason"))
    if finish:
        reply.finish_reasons = [finish]
    for name in ("message", "delta"):
        message = field_of(choice, name)
        if message is not None:
            reply.text = text_of(field_of(message, "content"))
            return
    reply.text = _str(field_of(choice, "text"))


def _metadata(item: object, reply: Reply) -> None:
    # LangChain's AIMessage and Haystack's ChatMessage keep model and finish reason in a dict.
    for name in ("response_metadata", "meta"):
        meta = field_of(item, name)
        if not isinstance(meta, Mapping):
            continue
        reply.model = reply.model or _str(meta.get("model_name")) or _str(meta.get("model"))
        finish = _str(meta.get("finish_reason"))
        if finish and not reply.finish_reasons:
            reply.finish_reasons = [finish]
        _usage(meta, reply)


def read_reply(result: object) -> Reply:
    """What a finished response, or one piece of a streamed one, says.

    Knows strings and objects or mappings shaped like those of the openai client (chat, text and
    responses APIs, streamed pieces too), anthropic, LangChain messages, LlamaIndex responses and
    Haystack replies. Anything else gives an empty `Reply`.
    """
    reply = Reply()
    if isinstance(result, str):
        reply.text = result
        return reply
    reply.model = _str(field_of(result, "model"))
    reply.response_id = _str(field_of(result, "id"))
    _usage(result, reply)
    choices = field_of(result, "choices")
    if isinstance(choices, (list, tuple)):
        # Several answers at once, streamed in turns: the first is the answer.
        first = next((choice for choice in choices if not field_of(choice, "index")), None)
        if first is not None:
            _choice(first, reply)
        return reply
    event = _str(field_of(result, "type"))
    if event is not None and ("delta" in event or event.startswith(("response.", "message_"))):
        _event(event, result, reply)
        return reply
    raw = _raw(result)
    if raw is not None:
        return raw
    _metadata(result, reply)
    reply.text = _body(result, reply)
    return reply


def _raw(result: object) -> Reply | None:
    """The reply in a raw response of the openai client, when its body is in memory already."""
    response = field_of(result, "http_response")
    body = getattr(response, "_content", None)
    if not isinstance(body, bytes):
        return None
    try:
        parsed = json.loads(body)
    except ValueError:
        return None
    return read_reply(parsed) if isinstance(parsed, dict) else None


def _event(event: str, result: object, reply: Reply) -> None:
    """One event of a typed stream: openai's responses API or anthropic's messages."""
    # An event's own id is not the response's.
    reply.response_id = None
    delta = field_of(result, "delta")
    if event == "response.output_text.delta":
        reply.text = _str(delta)
    elif event == "content_block_delta":
        reply.text = _str(field_of(delta, "text"))
    for name in ("response", "message"):
        inner = field_of(result, name)
        if inner is not None:
            reply.model = _str(field_of(inner, "model"))
            reply.response_id = _str(field_of(inner, "id"))
            _usage(inner, reply)


def _body(result: object, reply: Reply) -> str | None:
    for name in ("output_text", "delta", "content", "text", "answer", "response", "completion"):
        text = text_of(field_of(result, name))
        if text is not None:
            return text
    message = field_of(result, "message")
    if message is not None:
        _usage(field_of(result, "raw"), reply)
        reply.model = reply.model or _str(field_of(field_of(result, "raw"), "model"))
        return text_of(field_of(message, "content"))
    output = field_of(result, "output")
    if isinstance(output, (list, tuple)):
        # openai's responses API as JSON: `output_text` is a property of its class only.
        texts = [text_of(field_of(item, "content")) for item in output]
        return "".join(text for text in texts if text) or None
    replies = field_of(result, "replies")
    if isinstance(replies, (list, tuple)) and replies:
        first = replies[0]
        if isinstance(first, str):
            return first
        _metadata(first, reply)
        return text_of(field_of(first, "text"))
    return None
