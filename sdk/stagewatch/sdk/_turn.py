"""The root of everything: one question answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import Token
from typing import Any, ClassVar

from opentelemetry.context import Context

from stagewatch.sdk import semconv as key
from stagewatch.sdk._attributes import utf8
from stagewatch.sdk._content import Notes, admit
from stagewatch.sdk._guard import guarded
from stagewatch.sdk._json import compact
from stagewatch.sdk._messages import read_message
from stagewatch.sdk._plain import plain_text
from stagewatch.sdk._responses import Reply, field_of, read_reply
from stagewatch.sdk._runtime import runtime
from stagewatch.sdk._steps import Step, current_turn

_NOT_ASKED = frozenset(
    {"conversation_id", "user_id", "turn_index", "history", "session_id", "thread_id", "model"}
)
"""Arguments that are never the question, though they may be the first text."""

Message = Mapping[str, Any] | tuple[str, str]


class Turn(Step):
    """One question answered. Stages opened inside it become its children."""

    _fixed: ClassVar[dict[str, Any]] = {
        key.STEP: "turn",
        key.OPERATION: "invoke_workflow",
        key.SPAN_KIND: "CHAIN",
    }
    _told: ClassVar[Mapping[str, str]] = {
        "turn_index": key.TURN_INDEX,
        "index_version": key.INDEX_VERSION,
        "prompt_version": key.PROMPT_VERSION,
        "release": key.RELEASE,
        "reused_from": key.REUSED_FROM,
    }

    _turn_token: Token[Turn | None] | None = None
    _answer: Reply | None = None
    _said: tuple[str | None, Notes | None] | None = None

    def __init__(self, question: str | None, options: dict[str, Any]) -> None:
        app = options.get("app")
        self._app = (plain_text(app) if app is not None else "") or runtime.app_name
        super().__init__(f"invoke_workflow {self._app}", options)
        self._question = question
        self.shared: dict[str, Any] = {}

    @property
    def turn_id(self) -> str:
        """`{trace_id}-{span_id}`: the id of this turn in the UI and the API."""
        return f"{self.trace_id}-{self.span_id}"

    @guarded("note a refusal")
    def refused(self, refused: bool = True) -> None:  # noqa: FBT001 - reads as a sentence
        """Say that the app declined to answer (or that it did not)."""
        self._attributes[key.REFUSED] = bool(refused)

    @guarded("tag a turn")
    def tag(self, **tags: object) -> None:
        """Add free tags: `t.tag(channel="email", shop="de")`."""
        self._tag(tags)

    def _tag(self, tags: Mapping[str, object]) -> None:
        for name, value in tags.items():
            self._attributes[key.TAG_PREFIX + plain_text(name)] = plain_text(value)

    def _fresh(self, arguments: dict[str, Any]) -> Turn:
        question = self._question
        if question is None:
            asked = {name: value for name, value in arguments.items() if name not in _NOT_ASKED}
            question = first_text(asked, ("question", "query", "message", "input", "text"))
        options = dict(self._options)
        for name in ("conversation_id", "user_id", "turn_index", "history"):
            if options.get(name) is None and arguments.get(name) is not None:
                options[name] = arguments[name]
        return Turn(question, options)

    def _begin(self) -> None:
        # Inside another turn it is one of its own.
        self._turn, self._shared = None, self.shared
        self._share()
        self._attributes[key.WORKFLOW] = self._app
        self._put_text("question", key.INPUT, self._question)
        options = self._options
        if options.get("history") is not None:
            self._describe_history()
        if options.get("tags") is not None:
            self._describe_tags()
        if options.get("probe") is not None:
            self._describe_probe()

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
            told = utf8(plain_text(conversation))
            self.shared[key.CONVERSATION_ID] = self.shared[key.SESSION_ID] = told
        if user is not None:
            shown = admit(runtime.content, "user_id", key.USER_ID, user, self._notes)
            if shown is not None:
                self.shared[key.USER_ID] = utf8(shown)

    # One by one, so that a bad option costs that option only.
    @guarded("note a probe")
    def _describe_probe(self) -> None:
        if self._options["probe"]:
            self._attributes[key.PROBE] = True

    @guarded("note the history")
    def _describe_history(self) -> None:
        history = self._options["history"]
        if history:
            self._put(key.HISTORY, self._history(history))

    @guarded("tag a turn")
    def _describe_tags(self) -> None:
        tags = self._options["tags"]
        if tags:
            self._tag(tags)

    def _history(self, history: Sequence[Message]) -> str | None:
        rows: list[str] = []
        left = runtime.content.max_json - 2
        # The newest messages matter most: fill from the end, then turn around.
        for message in reversed(list(history)):
            role, text = read_message(message)
            shown = admit(runtime.content, "history", key.HISTORY, text, self._notes)
            if shown is None:
                return None
            row = compact({"role": role, "content": shown})
            left -= len(row) + 1
            if left < 0:
                self._notes.cut.append(f"{key.HISTORY}:{len(history)} messages")
                break
            rows.append(row)
        rows.reverse()
        return f"[{','.join(rows)}]" if rows else None

    @guarded("record an answer")
    def _take(self, result: object) -> None:
        self._take_reply(read_reply(result))

    def _take_reply(self, reply: Reply) -> None:
        if reply.text is not None:
            self._answer = reply

    def answered(self, text: str | None, notes: Notes | None) -> None:
        """What a model call of this turn said: the answer when it is the last and the app records
        none itself.

        Args:
            text: As it may be sent; None when it may not.
            notes: What was cut or withheld of it, if anything was.
        """
        if self._live:
            self._said = (text, notes)

    def rewritten(self, query: str) -> None:
        """The query a rewrite stage of this turn came to."""
        if self._live and query != self._question:
            self._put_text("question", key.REWRITTEN_QUERY, query)

    def _complete(self) -> None:
        if self._answer is not None:
            self._put_text("answer", key.OUTPUT, self._answer.text, self._answer.length)
        elif self._said is not None:
            text, notes = self._said
            self._put(key.OUTPUT, text)
            if notes is not None:
                self._notes.add(notes, key.OUTPUT_MESSAGES, key.OUTPUT)


def first_text(arguments: dict[str, Any], names: Sequence[str]) -> str | None:
    """The argument of one of these names that is text, else the first that is or holds text."""
    for name in names:
        if isinstance(arguments.get(name), str):
            return arguments[name]  # type: ignore[no-any-return]
    for value in arguments.values():
        # LlamaIndex wraps the query in a bundle.
        text = value if isinstance(value, str) else field_of(value, "query_str")
        if isinstance(text, str):
            return text
    # Varying arguments are one entry: a sequence or a mapping.
    for value in arguments.values():
        if isinstance(value, Mapping):
            return first_text(dict(value), names)
        if isinstance(value, tuple):
            return next((item for item in value if isinstance(item, str)), None)
    return None
