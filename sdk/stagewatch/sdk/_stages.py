"""The four stages inside a turn: rewrite, retrieve, rerank, generate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from opentelemetry.trace import SpanKind

from stagewatch.sdk import semconv as key
from stagewatch.sdk._bodies import Body, read_along, unread_response
from stagewatch.sdk._content import admit
from stagewatch.sdk._documents import ids_of, read_documents
from stagewatch.sdk._guard import guarded
from stagewatch.sdk._json import compact
from stagewatch.sdk._messages import fitting_messages, read_message
from stagewatch.sdk._passages import documents_json, untouched_json
from stagewatch.sdk._responses import Reply, read_reply
from stagewatch.sdk._runtime import runtime
from stagewatch.sdk._steps import Step, named
from stagewatch.sdk._streams import Collecting, Passages, Reading
from stagewatch.sdk._turn import first_text

_QUERY_NAMES = ("query", "question", "text", "input", "message")


class Rewrite(Step):
    """The question made self-contained. Record the query it came to, even when unchanged."""

    _fixed: ClassVar[dict[str, Any]] = {
        key.STEP: "rewrite",
        key.SPAN_KIND: "CHAIN",
    }
    _told: ClassVar[Mapping[str, str]] = {"model": key.REQUEST_MODEL}

    def __init__(self, question: str | None, options: dict[str, Any]) -> None:
        super().__init__("rewrite", options)
        self._question = question

    def _fresh(self, arguments: dict[str, Any]) -> Rewrite:
        return Rewrite(self._question or first_text(arguments, _QUERY_NAMES), self._options)

    @guarded("record a rewrite")
    def _take(self, result: object) -> None:
        reply = read_reply(result)
        if reply.text is None:
            return
        self._put(key.RESPONSE_MODEL, reply.model)
        self._put(key.INPUT_TOKENS, reply.input_tokens)
        self._put(key.OUTPUT_TOKENS, reply.output_tokens)
        self._put_text("question", key.OUTPUT, reply.text)
        self._attributes[key.REWRITE_APPLIED] = reply.text != self._question
        if self._turn is not None:
            self._turn.rewritten(reply.text)

    def _complete(self) -> None:
        self._put_text("question", key.INPUT, self._question)


class _Ranking(Step):
    """A stage whose result is a list of documents, best first."""

    _documents_key: ClassVar[str]
    _top_k_names: ClassVar[tuple[str, ...]]

    def __init__(self, name: str, query: Any, options: dict[str, Any]) -> None:  # noqa: ANN401
        super().__init__(name, options)
        self._query = query

    def _options_of(self, arguments: dict[str, Any]) -> dict[str, Any]:
        options = dict(self._options)
        if options.get("top_k") is None:
            found = (arguments.get(name) for name in self._top_k_names)
            asked = next((n for n in found if type(n) is int), None)
            options["top_k"] = asked or options.get("usual_top_k")
        return options

    def _query_of(self, arguments: dict[str, Any]) -> str | None:
        return first_text(arguments, _QUERY_NAMES) if self._query is None else self._query

    def _collecting(self) -> Collecting:
        return Passages()

    def _take_collected(self, collected: Collecting, error: BaseException | None) -> None:
        # A stream that nobody began to read says nothing about what was found.
        if isinstance(collected, Passages) and (collected.rows or error is None):
            self._take_rows(collected.rows)

    @guarded("record documents")
    def _take(self, result: object) -> None:
        written = untouched_json(result, runtime.content)
        if written is not None:
            self._attributes[self._documents_key] = written
            return
        rows = read_documents(result)
        if rows is not None:
            self._take_rows(rows)

    def _take_rows(self, rows: list[dict[str, Any]]) -> None:
        name = self._documents_key
        self._put(name, documents_json(rows, name, runtime.content, self._notes))


class Retrieve(_Ranking):
    """One retriever call: a query and its ranked passages."""

    _kind = SpanKind.CLIENT
    _fixed: ClassVar[dict[str, Any]] = {
        key.STEP: "retrieve",
        key.OPERATION: "retrieval",
        key.SPAN_KIND: "RETRIEVER",
    }
    _told: ClassVar[Mapping[str, str]] = {
        "top_k": key.RETRIEVAL_TOP_K,
        "source": key.DATA_SOURCE,
        # The app's own word counts before its documents'.
        "score_kind": key.SCORE_KIND,
        "index_version": key.INDEX_VERSION,
    }
    _documents_key = key.DOCUMENTS
    _top_k_names = ("top_k", "k", "limit", "n_results")

    def __init__(self, query: str | None, options: dict[str, Any]) -> None:
        super().__init__(named("retrieval", options.get("source")), query, options)

    def _fresh(self, arguments: dict[str, Any]) -> Retrieve:
        return Retrieve(self._query_of(arguments), self._options_of(arguments))

    def _take_rows(self, rows: list[dict[str, Any]]) -> None:
        kind = next((row["score_kind"] for row in rows if "score_kind" in row), None)
        self._put(key.SCORE_KIND, kind)
        super()._take_rows(rows)

    def _complete(self) -> None:
        self._put_text("question", key.RETRIEVAL_QUERY, self._query)


class Rerank(_Ranking):
    """A second opinion on the order: documents in, documents out."""

    _fixed: ClassVar[dict[str, Any]] = {
        key.STEP: "rerank",
        key.OPERATION: "rerank",
        key.SPAN_KIND: "RERANKER",
    }
    _told: ClassVar[Mapping[str, str]] = {"model": key.RERANK_MODEL, "top_k": key.RERANK_TOP_K}
    _documents_key = key.RERANK_DOCUMENTS
    _top_k_names = ("top_k", "top_n", "k")

    def __init__(self, query: str | None, documents: object, options: dict[str, Any]) -> None:
        super().__init__(named("rerank", options.get("model")), query, options)
        self._documents = documents

    def _fresh(self, arguments: dict[str, Any]) -> Rerank:
        documents = self._documents
        if documents is None:
            documents = next((v for v in arguments.values() if isinstance(v, (list, tuple))), None)
        return Rerank(self._query_of(arguments), documents, self._options_of(arguments))

    @guarded("record a reranker's input")
    def _begin(self) -> None:
        # Now, not at the end: rerankers like to sort the list in place.
        rows = read_documents(self._documents)
        ids = ids_of(rows) if rows else None
        if ids:
            self._attributes[key.RERANK_INPUT_IDS] = ids

    def _complete(self) -> None:
        self._put_text("question", key.RERANK_QUERY, self._query)


class Generate(Step):
    """The model call that answers."""

    _kind = SpanKind.CLIENT
    _fixed: ClassVar[dict[str, Any]] = {
        key.STEP: "generate",
        key.OPERATION: "chat",
        key.SPAN_KIND: "LLM",
    }
    _told: ClassVar[Mapping[str, str]] = {
        "provider": key.PROVIDER,
        "prompt_name": key.PROMPT_NAME,
        "prompt_version": key.PROMPT_VERSION,
    }

    def __init__(self, model: str | None, options: dict[str, Any]) -> None:
        super().__init__(named("chat", model), options)
        self._model = model

    def _fresh(self, arguments: dict[str, Any]) -> Generate:
        options = dict(self._options)
        for name in ("context", "documents", "docs", "chunks", "passages"):
            if options.get("context") is None and isinstance(arguments.get(name), (list, tuple)):
                options["context"] = arguments[name]
        for name in ("messages", "input", "prompt"):
            if options.get("messages") is None and isinstance(
                arguments.get(name), (list, tuple, str)
            ):
                options["messages"] = arguments[name]
        model = self._model
        if model is None and isinstance(arguments.get("model"), str):
            model = arguments["model"]
        return Generate(model, options)

    @guarded("record the context")
    def context(self, documents: object) -> None:
        """The documents that were put in the prompt, in their order there."""
        if not self._live:
            return
        rows = read_documents(documents)
        if rows is None:
            return
        ids = self._attributes[key.CONTEXT_IDS] = [row["id"] for row in rows if "id" in row]
        if len(ids) < len(rows):
            name = key.CONTEXT_DOCUMENTS
            self._put(name, documents_json(rows, name, runtime.content, self._notes))

    @guarded("record messages")
    def messages(self, messages: object) -> None:
        """The prompt as sent: a string, or a list of messages."""
        if self._live and isinstance(messages, (str, list, tuple)) and messages:
            self._put(key.INPUT_MESSAGES, self._messages_json(messages))

    @guarded("record usage")
    def usage(
        self,
        *,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        cost_usd: float | None = None,
    ) -> None:
        """Tokens and cost in US dollars, where the response itself does not tell them."""
        self._put(key.INPUT_TOKENS, input_tokens)
        self._put(key.OUTPUT_TOKENS, output_tokens)
        self._put(key.COST_USD, cost_usd)

    def _begin(self) -> None:
        if self._options.get("context") is not None:
            self.context(self._options["context"])
        if self._options.get("messages") is not None:
            self.messages(self._options["messages"])

    def _messages_json(self, messages: str | Sequence[object]) -> str | None:
        if isinstance(messages, str):
            read = [("user", messages)]
        else:
            read = [read_message(message) for message in messages]
        rows = []
        for role, text in read:
            shown = admit(runtime.content, "messages", key.INPUT_MESSAGES, text, self._notes)
            if shown is None:
                return None
            rows.append((role, shown))
        return fitting_messages(rows, key.INPUT_MESSAGES, runtime.content.max_json, self._notes)

    @guarded("record a reply")
    def _take(self, result: object) -> None:
        if type(result) is str:
            self._take_answer(result)
            return
        response = unread_response(result)
        if response is not None:
            body = Body(self._answer_cap(), response)
            reading = Reading(self._streamed, body)
            self._reading = reading if read_along(response, reading) else None
            return
        reply = read_reply(result)
        if reply.text is None and isinstance(result, Mapping):
            reply.text = compact(result)
        self._take_reply(reply)

    def _take_reply(self, reply: Reply) -> None:
        self._put(key.RESPONSE_MODEL, reply.model)
        self._put(key.RESPONSE_ID, reply.response_id)
        self._put(key.INPUT_TOKENS, reply.input_tokens)
        self._put(key.OUTPUT_TOKENS, reply.output_tokens)
        self._put(key.FINISH_REASONS, reply.finish_reasons or None)
        if reply.text is not None:
            finish = reply.finish_reasons[0] if reply.finish_reasons else None
            self._take_answer(reply.text, reply.length, finish)

    def _take_answer(self, text: str, length: int = 0, finish: str | None = None) -> None:
        name, content, notes = key.OUTPUT_MESSAGES, runtime.content, self._notes
        before = notes.size()
        shown = admit(content, "answer", name, text, notes, length=length)
        if self._turn is not None:
            self._turn.answered(shown, notes.since(before) if notes.size() != before else None)
        if shown is None:
            return
        rows = [("assistant", shown)]
        self._put(name, fitting_messages(rows, name, content.max_json, notes, finish))

    def _complete(self) -> None:
        self._put(key.REQUEST_MODEL, self._model)
