"""Texts, messages and answers inside values of any shape: JSON of LangChain, Haystack, OpenAI, …

Everything here takes what telemetry holds (any type, hostile or cut) and never raises.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from stagewatch.collector.assemble.lenient import loaded
from stagewatch.collector.assemble.tables import names

_ROLES = {"human": "user", "ai": "assistant", "model": "assistant", "developer": "system"}
_MAX_DEPTH = 6
_TEXT_PARTS = frozenset({"text", "output_text", "input_text", "refusal", "message"})
"""Kinds of message parts whose text is said; the rest is thought, a picture or for a tool."""
_THOUGHT = frozenset({"reasoning", "thinking", "redacted_thinking"})
_TOOL_PARTS = frozenset({"tool_call_response", "tool_result", "tool_return"})
_RESULTS = ("result", "response", "content")
_MARKER = re.compile(r"\[\[ ## (\w+) ## \]\]")


def text_of(value: Any, depth: int = 0) -> str | None:  # noqa: ANN401
    """The text of a message's content: a string, one part, or a list of parts joined.

    Parts that call themselves something else than text (reasoning, blob, image) say nothing.
    """
    if isinstance(value, str):
        return value
    if depth > _MAX_DEPTH:
        return None
    if isinstance(value, Mapping):
        if not _is_text(value):
            return None
        for key in ("text", "content", "output_text"):
            if key in value:
                return text_of(value[key], depth + 1)
        return None
    if isinstance(value, (list, tuple)):
        texts = [text_of(part, depth + 1) for part in value]
        found = [text for text in texts if text is not None]
        return "".join(found) if found else None
    return None


def _is_text(part: Mapping[str, Any]) -> bool:
    kind = part.get("type") or part.get("block_type")
    return (not isinstance(kind, str) or kind in _TEXT_PARTS) and part.get("thought") is not True


def _is_parts(value: Sequence[Any]) -> bool:
    """Whether a list holds the parts of one message, not messages."""
    return any(
        isinstance(part, Mapping)
        and "role" not in part
        and part.get("type") in {"text", "output_text", "input_text"}
        for part in value
    )


def section(text: str) -> str:
    """The first field of an answer that holds DSPy's `[[ ## name ## ]]` markers, else `text`."""
    parts = _MARKER.split(text)
    if len(parts) < 3:
        return text
    for name, body in zip(parts[1::2], parts[2::2], strict=False):
        if name != "completed":
            return body.strip()
    return text


def scalar_text(value: Any) -> str | None:  # noqa: ANN401
    """A scalar as text; JSON-encoded text (`"kb"` with its quotes) is opened. None for the rest."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return str(value)
    if not isinstance(value, str) or not value:
        return None
    if value.startswith('"') and value.endswith('"'):
        parsed = loaded(value)[0]
        return parsed if isinstance(parsed, str) and parsed else None
    return value


def _unnumbered(value: Any) -> Any:  # noqa: ANN401
    """A flattened list, `{0: …, 1: …}`, as a list."""
    if isinstance(value, Mapping) and value and all(isinstance(key, int) for key in value):
        return [item for _, item in sorted(value.items())]
    return value


def _role(message: Mapping[str, Any]) -> str:
    kwargs = message.get("kwargs")
    inner = kwargs if isinstance(kwargs, Mapping) else message
    for key in ("role", "_role", "message.role", "type"):
        role = inner.get(key)
        if isinstance(role, str) and role:
            return _ROLES.get(role.lower(), role.lower())
    return "user"


def _content(message: Mapping[str, Any]) -> str | None:
    if message.get("type") in _THOUGHT:
        return None
    for key in ("kwargs", "data", "message"):
        inner = message.get(key)
        if isinstance(inner, Mapping) and inner is not message:
            return _content(inner)
    for key in ("content", "parts", "_content", "message.content", "text", "blocks"):
        if key in message:
            text = text_of(loaded(message[key])[0])
            if text is not None:
                return text
    # Flattened OpenInference messages of several parts.
    parts = sorted(
        (key for key in message if isinstance(key, str) and key.endswith(_PART_TEXT)),
        key=lambda key: [int(digits) for digits in re.findall(r"\d+", key)],
    )
    texts = [
        text
        for key in parts
        if message.get(key.removesuffix("text") + "type", "text") in _TEXT_PARTS
        and (text := text_of(message[key])) is not None
    ]
    return "".join(texts) if texts else None


_PART_TEXT = ".message_content.text"


def _without_tool_results(message: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[str]]:
    """(the message without the results of tools among its parts, the texts of those).

    Some emitters hand them over in the user's name; they are nothing the user said.
    """
    for key in ("parts", "content"):
        parts = loaded(message.get(key))[0]
        if not isinstance(parts, (list, tuple)):
            continue
        of_tools = [p for p in parts if isinstance(p, Mapping) and p.get("type") in _TOOL_PARTS]
        if of_tools:
            rest = [part for part in parts if not any(part is tool for tool in of_tools)]
            told = [next((t[k] for k in _RESULTS if k in t), None) for t in of_tools]
            return {**message, key: rest}, [text for r in told if (text := _all_text(r, 0))]
    return message, []


def _all_text(value: Any, depth: int) -> str:  # noqa: ANN401
    value = loaded(value)[0] if isinstance(value, str) and value[:1] in "[{" else value
    if depth > _MAX_DEPTH:
        return ""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return "\n".join(text for item in value if (text := _all_text(item, depth + 1)))
    return value if isinstance(value, str) else ""


def messages_of(value: Any, depth: int = 0) -> list[tuple[str, str]]:  # noqa: ANN401
    """(role, text) of each message in `value`, in order; system, user, assistant or tool."""
    value = _unnumbered(loaded(value)[0])
    if depth > _MAX_DEPTH:
        return []
    if isinstance(value, str):
        return [("user", value)] if value else []
    if isinstance(value, Mapping):
        found: list[tuple[str, str]] = []
        system = text_of(value.get("system"))
        if system and not isinstance(value.get("role"), str):
            found.append(("system", system))
        for key in ("messages", "prompts", "prompt"):
            if isinstance(value.get(key), (list, tuple, str, Mapping)):
                return found + messages_of(value[key], depth + 1)
        value, results = _without_tool_results(value)
        text = _content(value)
        if text is not None:
            found.append((_role(value), text))
        return found + [("tool", result) for result in results]
    if isinstance(value, (list, tuple)):
        if _is_parts(value):
            text = text_of(value)
            return [("user", text)] if text else []
        messages: list[tuple[str, str]] = []
        for item in value:
            messages += messages_of(item, depth + 1)
        return messages
    return []


def reply_of(value: Any) -> str | None:  # noqa: ANN401
    """The text of a model's reply, whatever wraps it, without what it thought aloud before."""
    text = answer_of(value)
    return _THOUGHT_ALOUD.sub("", text) or None if text and "<think" in text else text


_THOUGHT_ALOUD = re.compile(r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>\s*", re.DOTALL)


def said_nothing(value: Any) -> bool:  # noqa: ANN401
    """Whether a reply is there and empty: the model ended without a word, not to call a tool."""
    messages = messages_of(value)
    return (
        bool(messages)
        and not any(text.strip() for _, text in messages)
        and not _calls_tool(loaded(value)[0], 0)
    )


_SEVERAL = ("generations", "choices", "replies", "messages", "candidates")


def calls_tool(value: Any, depth: int = 0) -> bool:  # noqa: ANN401
    """Whether the last message of a model's reply calls a tool: then it is no answer yet."""
    value = _unnumbered(loaded(value)[0])
    if depth > _MAX_DEPTH:
        return False
    if isinstance(value, (list, tuple)):
        return bool(value) and calls_tool(value[-1], depth + 1)
    if not isinstance(value, Mapping):
        return False
    for key in _SEVERAL:
        inner = value.get(key)
        if isinstance(inner, (list, tuple)) and inner:
            return calls_tool(inner, depth + 1)
    return _calls_tool(value, 0)


def _calls_tool(value: Any, depth: int) -> bool:  # noqa: ANN401
    if depth > _MAX_DEPTH:
        return False
    if isinstance(value, Mapping):
        return value.get("type") in {"tool_call", "tool_use", "function_call"} or any(
            (isinstance(key, str) and "tool_calls" in key and bool(inner))
            or _calls_tool(inner, depth + 1)
            for key, inner in value.items()
        )
    if isinstance(value, (list, tuple)):
        return any(_calls_tool(inner, depth + 1) for inner in value)
    return False


def _reply(value: Any, depth: int) -> str | None:  # noqa: ANN401
    if isinstance(value, str):
        return value
    if depth > _MAX_DEPTH:
        return None
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        if _is_parts(value):
            return text_of(value)
        # Several candidates or messages: the last one that says something.
        said = (_reply(loaded(item)[0], depth + 1) for item in reversed(value))
        return next((text for text in said if text), None)
    if not isinstance(value, Mapping) or value.get("type") in _THOUGHT:
        return None
    for key in _SEVERAL:
        inner = value.get(key)
        if isinstance(inner, (list, tuple)) and inner:
            return _reply(inner, depth + 1)
    text = _content(value)
    if text:
        return text
    for key in (*names().answer["keys"], *names().answer["open"]):
        inner = value.get(key)
        if inner is not None:
            text = _reply(loaded(inner)[0], depth + 1)
            if text:
                return text
    return None


def answer_of(value: Any) -> str | None:  # noqa: ANN401
    """The answer in a workflow's output: plain text, or a well-known key of its JSON."""
    text = _reply(_unnumbered(loaded(value)[0]), 0)
    return section(text) if text else None


def question_of(value: Any) -> str | None:  # noqa: ANN401
    """The question in a workflow's input: plain text, a well-known key of its JSON, the first
    call argument, or the last user message.
    """
    return _question(loaded(value)[0], 0)


def _question(value: Any, depth: int) -> str | None:  # noqa: ANN401
    if isinstance(value, str):
        return value.strip() or None
    if depth > _MAX_DEPTH:
        return None
    if isinstance(value, (list, tuple)):
        return last_user(messages_of(value))
    if not isinstance(value, Mapping):
        return None
    arguments = value.get("args")
    if isinstance(arguments, (list, tuple)) and arguments and isinstance(arguments[0], str):
        return arguments[0].strip() or None
    if isinstance(value.get("messages"), (list, tuple)):
        found = last_user(messages_of(value["messages"]))
        if found:
            return found
    for key in names().question["keys"]:
        inner = value.get(key)
        if isinstance(inner, (str, Mapping)):
            found = _question(inner, depth + 1)
            if found:
                return found
    for key in names().question["open"]:
        found = _question(value.get(key), depth + 1)
        if found:
            return found
    return _component_question(value)


def _component_question(value: Mapping[str, Any]) -> str | None:
    """Inputs named by component: `{"prompt": {"question": …}, "embedder": {"text": …}}`."""
    parts = [inner for inner in value.values() if isinstance(inner, Mapping)]
    for key in names().question["keys"]:
        for inner in parts:
            if isinstance(inner.get(key), str) and inner[key].strip():
                return str(inner[key]).strip()
    return None


def last_user(messages: Sequence[tuple[str, str]]) -> str | None:
    """Text of the last user message that is not empty."""
    for role, text in reversed(messages):
        if role == "user" and text.strip():
            return text.strip()
    return None


def squash(text: str) -> str:
    """`text` with runs of white space made one blank, for comparing texts that were re-wrapped."""
    return " ".join(text.split())
