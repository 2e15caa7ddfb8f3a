"""The root of everything: one question answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import Token
from typing import Any, ClassVar

from opentelemetry.context import Context

from stagewatch.sdk import semconv as key
from stagewatch.sdk._content import admit
from stagewatch.sdk._guard import guarded
from stagewatch.sdk._json import compact
from stagewatch.sdk._responses import read_reply, text_of
from stagewatch.sdk._runtime import runtime
from stagewatch.sdk._steps import Step, current_turn

Message = Mapping[str, Any] | tuple[str, str]


class Turn(Step):
    """One question answered. Stages opened inside it become its children."""

    _fixed: ClassVar[dict[str, Any]] = {
        key.STEP: "turn",
        key.OPERATION: "invoke_workflow",
        key.SPAN_KIND: "CHAIN",
    }

    def __init__(self, question: str | None, options: dict[str, Any]) -> None:
        app = options.get("app") or runtime.app_name
        super().__init__(f"invoke_workflow {app}")
        self._app = app
        self._question = question
        self._options = options
        self._turn_token: Token[Turn | None] | None = None
        self._answer: str | None = None
        self.shared: dict[str, Any] = {}

    @property
    def turn_id(self) -> str:
        """`{trace_id}-{span_id}`: the id of this turn in the UI and the API."""
        return f"{self.trace_id}-{self.span_id}"

    def refused(self, refused: bool = True) -> None:  # noqa: FBT001 - reads as a sentence
        """Say that the app declined to answer (or that it did not)."""
        self._attributes[key.REFUSED] = bool(refused)

    @guarded("tag a turn")
    def tag(self, **tags: object) -> None:
        """Add free tags: `t.tag(channel="email", shop="de")`."""
        for name, value in tags.items():
            self._attributes[key.TAG_PREFIX + name] = str(value)

    def _fresh(self, arguments: dict[str, Any]) -> Turn:
        question = self._question
        if question is None:
            question = first_text(arguments, ("question", "query", "message", "input", "text"))
        options = dict(self._options)
        for name in ("conversation_id", "user_id", "turn_index", "history"):
            if options.get(name) is None and arguments.get(name) is not None:
                options[name] = arguments[name]
        return Turn(question, options)

    def _begin(self) -> None:
        self._turn = None
        self._share()
        self._describe()

    def _attach(self, context: Context | None = None) -> None:
        super()._attach(context)
        if self._live:
            self._turn_token = current_turn.set(self)

    def _detach(self) -> None:
        super()._detach()
        token, self._turn_token = self._turn_token, None
        if token is not None:
            try:  # noqa: SIM105 - suppress() costs a microsecond on the app's thread
                current_turn.reset(token)
            except ValueError:
                # Finished in another context than it was opened in; that one is gone.
                pass

    def _share(self) -> None:
        conversation = self._options.get("conversation_id")
        user = self._options.get("user_id")
        if conversation is not None:
            self.shared[key.CONVERSATION_ID] = self.shared[key.SESSION_ID] = str(conversation)
        if user is not None:
            shown = admit(runtime.content, "user_id", key.USER_ID, str(user), self._notes)
            if shown is not None:
                self.shared[key.USER_ID] = shown

    def _describe(self) -> None:
        options = self._options
        self._attributes[key.WORKFLOW] = self._app
        self._attributes.update(self.shared)
        self._put_text("question", key.INPUT, self._question)
        self._put(key.TURN_INDEX, options.get("turn_index"))
        self._put(key.INDEX_VERSION, options.get("index_version"))
        self._put(key.PROMPT_VERSION, options.get("prompt_version"))
        self._put(key.RELEASE, options.get("release"))
        self._put(key.REUSED_FROM, options.get("reused_from"))
        if options.get("probe"):
            self._attributes[key.PROBE] = True
        history = options.get("history")
        if history:
            self._put(key.HISTORY, self._history(history))
        for name, value in (options.get("tags") or {}).items():
            self._attributes[key.TAG_PREFIX + str(name)] = str(value)

    def _history(self, history: Sequence[Message]) -> str | None:
        rows: list[dict[str, str]] = []
        left = runtime.content.max_json
        # The newest messages matter most: fill from the end, then turn around.
        for message in reversed(list(history)):
            role, text = read_message(message)
            shown = admit(runtime.content, "history", key.HISTORY, text, self._notes)
            if shown is None:
                return None
            left -= len(shown) + len(role) + 40
            if left < 0:
                self._notes.cut.append(f"{key.HISTORY}:{len(history)} messages")
                break
            rows.append({"role": role, "content": shown})
        rows.reverse()
        return compact(rows)

    @guarded("record an answer")
    def _take(self, result: object) -> None:
        text = read_reply(result).text
        if text is not None:
            self._answer = text

    def answered(self, text: str) -> None:
        """What a model call of this turn said: the answer, unless the app records another."""
        if key.OUTPUT not in self._attributes and self._live:
            self._attributes[key.OUTPUT] = text

    def rewritten(self, query: str) -> None:
        """The query a rewrite stage of this turn came to."""
        if self._live and query != self._question:
            self._put_text("question", key.REWRITTEN_QUERY, query)

    def _complete(self) -> None:
        if self._answer is not None:
            self._put_text("answer", key.OUTPUT, self._answer)


# LangChain's words for them.
_ROLES = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant"}


def read_message(message: object) -> tuple[str, str]:
    """(role, text) of one message: a mapping, a `(role, text)` pair or a library's object."""
    if isinstance(message, (tuple, list)) and len(message) == 2:
        role, content = message
        return _ROLES.get(role, str(role)), text_of(content) or ""
    if isinstance(message, Mapping):
        role, content = message.get("role"), message.get("content")
    else:
        role = getattr(message, "role", None) or getattr(message, "type", None)
        content = getattr(message, "content", None)
        if content is None:
            content = getattr(message, "text", None)
    # Enums of LlamaIndex and Haystack carry the word in `value`.
    role = str(getattr(role, "value", role) or "user")
    return _ROLES.get(role, role), text_of(content) or ""


def first_text(arguments: dict[str, Any], names: Sequence[str]) -> str | None:
    """The argument of one of these names that is text, else the first that is or holds text."""
    for name in names:
        if isinstance(arguments.get(name), str):
            return arguments[name]  # type: ignore[no-any-return]
    for value in arguments.values():
        # LlamaIndex wraps the query in a bundle.
        text = value if isinstance(value, str) else getattr(value, "query_str", None)
        if isinstance(text, str):
            return text
    # Varying arguments are one entry: a sequence or a mapping.
    for value in arguments.values():
        if isinstance(value, Mapping):
            return first_text(dict(value), names)
        if isinstance(value, tuple):
            return next((item for item in value if isinstance(item, str)), None)
    return None
