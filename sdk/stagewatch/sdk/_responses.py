"""Reading a model's answer, name and token counts from whatever a client library returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Reply:
    """What one model call said. Counts are tokens; None where the response does not tell."""

    text: str | None = None
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


def _get(item: object, name: str) -> Any:  # noqa: ANN401 - the app's own objects
    if isinstance(item, Mapping):
        return item.get(name)
    value = getattr(item, name, None)
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
        parts = [part if isinstance(part, str) else _get(part, "text") for part in value]
        texts = [part for part in parts if isinstance(part, str)]
        return "".join(texts) if texts else None
    return None


def _usage(item: object, reply: Reply) -> None:
    # openai (both APIs), anthropic, LangChain (usage_metadata), plain dicts.
    for name in ("usage", "usage_metadata"):
        usage = _get(item, name)
        if usage is None:
            continue
        for key in ("input_tokens", "prompt_tokens", "prompt_token_count"):
            reply.input_tokens = _first_count(reply.input_tokens, _get(usage, key))
        for key in ("output_tokens", "completion_tokens", "candidates_token_count"):
            reply.output_tokens = _first_count(reply.output_tokens, _get(usage, key))


def _first_count(known: int | None, value: object) -> int | None:
    return known if known is not None else _count(value)


def _choice(choice: object, reply: Reply) -> None:
    finish = _str(_get(choice, "finish_reason"))
    if finish:
        reply.finish_reasons = [finish]
    for name in ("message", "delta"):
        message = _get(choice, name)
        if message is not None:
            reply.text = text_of(_get(message, "content"))
            return
    reply.text = _str(_get(choice, "text"))


def _metadata(item: object, reply: Reply) -> None:
    # LangChain's AIMessage and Haystack's ChatMessage keep model and finish reason in a dict.
    for name in ("response_metadata", "meta"):
        meta = _get(item, name)
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
    reply.model = _str(_get(result, "model"))
    reply.response_id = _str(_get(result, "id"))
    _usage(result, reply)
    choices = _get(result, "choices")
    if isinstance(choices, (list, tuple)):
        if choices:
            _choice(choices[0], reply)
        return reply
    event = _str(_get(result, "type"))
    if event is not None and ("delta" in event or event.startswith(("response.", "message_"))):
        _event(event, result, reply)
        return reply
    _metadata(result, reply)
    reply.text = _body(result, reply)
    return reply


def _event(event: str, result: object, reply: Reply) -> None:
    """One event of a typed stream: openai's responses API or anthropic's messages."""
    # An event's own id is not the response's.
    reply.response_id = None
    delta = _get(result, "delta")
    if event == "response.output_text.delta":
        reply.text = _str(delta)
    elif event == "content_block_delta":
        reply.text = _str(_get(delta, "text"))
    for name in ("response", "message"):
        inner = _get(result, name)
        if inner is not None:
            reply.model = _str(_get(inner, "model"))
            reply.response_id = _str(_get(inner, "id"))
            _usage(inner, reply)


def _body(result: object, reply: Reply) -> str | None:
    for name in ("output_text", "delta", "content", "text", "answer", "response", "completion"):
        text = text_of(_get(result, name))
        if text is not None:
            return text
    message = _get(result, "message")
    if message is not None:
        _usage(_get(result, "raw"), reply)
        reply.model = reply.model or _str(_get(_get(result, "raw"), "model"))
        return text_of(_get(message, "content"))
    replies = _get(result, "replies")
    if isinstance(replies, (list, tuple)) and replies:
        first = replies[0]
        if isinstance(first, str):
            return first
        _metadata(first, reply)
        return text_of(_get(first, "text"))
    return None
