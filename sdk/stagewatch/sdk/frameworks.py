"""Stages around what you already have: retrievers, rerankers and clients of known shapes.

    retriever = watch_retriever(vector_store.as_retriever(), source="kb")
    client = watch_openai(OpenAI())

Each function gives back a stand-in that does what the object does, method by method, and tells
stagewatch about the calls that are stages. Your object is not changed, none of these libraries
is imported, and what has no such method is given back as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from stagewatch.sdk._guard import guarded
from stagewatch.sdk._stages import Generate, Rerank, Retrieve
from stagewatch.sdk._steps import Step

T = TypeVar("T")

_RETRIEVING = (
    "invoke",
    "ainvoke",
    "get_relevant_documents",
    "retrieve",
    "aretrieve",
    "run",
    "run_async",
    "similarity_search",
    "similarity_search_with_score",
    "search",
    "query",
)
_RERANKING = (
    "compress_documents",
    "acompress_documents",
    "postprocess_nodes",
    "apostprocess_nodes",
    "run",
    "run_async",
    "rerank",
    "rank",
)
_CALLING = ("create",)


class Watched:
    """Stands for an object of the app's: same class to `isinstance`, same attributes."""

    def __init__(self, inner: Any, replaced: Mapping[str, Any]) -> None:  # noqa: ANN401
        self._stagewatch_inner = inner
        self._stagewatch_replaced = replaced

    @property  # type: ignore[misc]  # read-only is what is wanted here
    def __class__(self) -> type:
        """The object's own class, so that `isinstance` checks in frameworks hold."""
        return type(self._stagewatch_inner)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        """A watched method, else whatever the object has."""
        replaced = self.__dict__.get("_stagewatch_replaced", {})
        if name in replaced:
            return replaced[name]
        return getattr(self._stagewatch_inner, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401, D102
        return self._stagewatch_inner(*args, **kwargs)

    def __or__(self, other: Any) -> Any:  # noqa: ANN401
        # LangChain's pipes: the object's own operator, with the stand-in as its left side.
        operator: Any = getattr(type(self._stagewatch_inner), "__or__", None)
        return operator(self, other) if operator else NotImplemented

    def __ror__(self, other: Any) -> Any:  # noqa: ANN401
        operator: Any = getattr(type(self._stagewatch_inner), "__ror__", None)
        return operator(self, other) if operator else NotImplemented


def _watch(inner: T, names: tuple[str, ...], make: Callable[[], Step]) -> T:
    replaced = _replaced(inner, names, make)
    return cast("T", Watched(inner, replaced)) if replaced else inner


@guarded("watch an object")
def _replaced(inner: object, names: tuple[str, ...], make: Callable[[], Step]) -> dict[str, Any]:
    found = {}
    for name in names:
        method = getattr(inner, name, None)
        if callable(method):
            found[name] = make()(method)
    return found


def watch_retriever(
    retriever: T,
    *,
    source: str | None = None,
    top_k: int | None = None,
    score_kind: str | None = None,
) -> T:
    """A stand-in whose retrieving calls are `retrieve` stages: LangChain retrievers and vector
    stores (`invoke`, `similarity_search…`), LlamaIndex retrievers (`retrieve`), Haystack
    components (`run`), sync and async. Options as in `retrieve`.
    """
    options = {"source": source, "top_k": top_k, "score_kind": score_kind}
    return _watch(retriever, _RETRIEVING, lambda: Retrieve(None, options))


def watch_reranker(reranker: T, *, model: str | None = None, top_k: int | None = None) -> T:
    """A stand-in whose reranking calls are `rerank` stages: LangChain compressors, LlamaIndex
    postprocessors, Haystack rankers. Options as in `rerank`.
    """
    options = {"model": model, "top_k": top_k}
    return _watch(reranker, _RERANKING, lambda: Rerank(None, None, options))


def watch_openai(client: T) -> T:
    """A stand-in for an openai client, sync or async: `chat.completions.create` and
    `responses.create` are `generate` stages with model, messages, answer and token counts.
    Streams come back as streams.
    """
    replaced = _replaced_openai(client)
    return cast("T", Watched(client, replaced)) if replaced else client


@guarded("watch a client")
def _replaced_openai(client: Any) -> dict[str, Any]:  # noqa: ANN401
    options = {"provider": "openai"}

    def calls(resource: Any) -> Any:  # noqa: ANN401
        return _watch(resource, _CALLING, lambda: Generate(None, options))

    found: dict[str, Any] = {}
    chat = getattr(client, "chat", None)
    completions = getattr(chat, "completions", None)
    if completions is not None:
        found["chat"] = Watched(chat, {"completions": calls(completions)})
    responses = getattr(client, "responses", None)
    if responses is not None:
        found["responses"] = calls(responses)
    return found
