"""Stages around what you already have: retrievers, rerankers and clients of known shapes.

    retriever = watch_retriever(vector_store.as_retriever(), source="kb")
    client = watch_openai(OpenAI())

Each function gives back a stand-in that does what the object does, method by method, and tells
stagewatch about the calls that are stages. Your object is not changed, none of these libraries
is imported, and what has no such method is given back as it is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from stagewatch.sdk._guard import guarded
from stagewatch.sdk._stages import Generate, Rerank, Retrieve
from stagewatch.sdk._standin import LANGCHAIN_COMPOSED, Again, Later, is_stand_in, stand_in
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
    "asimilarity_search",
    "similarity_search_with_score",
    "asimilarity_search_with_score",
    "similarity_search_with_relevance_scores",
    "asimilarity_search_with_relevance_scores",
    "max_marginal_relevance_search",
    "amax_marginal_relevance_search",
    "search",
    "asearch",
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
_TOP_K = ("similarity_top_k", "_similarity_top_k", "top_k", "top_n")
_CALLING = ("create", "parse")
_COPYING = ("with_options", "copy")
_RAW = frozenset({"with_raw_response", "with_streaming_response"})
_CALLING_COMPOSED = _RAW | {"stream"}
"""openai's other ways to create an answer, which end in `create` itself."""


def _watch(inner: T, names: tuple[str, ...], make: Callable[[], Step], again: Again) -> T:
    # Watched already: twice would tell each call twice.
    made = None if is_stand_in(inner) else _stand_in(inner, names, make, again)
    return inner if made is None else cast("T", made)


@guarded("watch an object")
def _stand_in(
    inner: object, names: tuple[str, ...], make: Callable[[], Step], again: Again
) -> object | None:
    replaced = {}
    for name in names:
        method = getattr(inner, name, None)
        if callable(method):
            replaced[name] = make()(method)
    composed = LANGCHAIN_COMPOSED if "invoke" in replaced else frozenset()
    return stand_in(inner, replaced, again, composed) if replaced else None


@guarded("read an object's settings")
def _usual_top_k(inner: object) -> int | None:
    search = getattr(inner, "search_kwargs", None)
    found = [search.get("k")] if isinstance(search, Mapping) else []
    found += [getattr(inner, name, None) for name in _TOP_K]
    return next((value for value in found if type(value) is int), None)


def watch_retriever(
    retriever: T,
    *,
    source: str | None = None,
    top_k: int | None = None,
    score_kind: str | None = None,
) -> T:
    """A stand-in whose retrieving calls are `retrieve` stages: LangChain retrievers and vector
    stores (`invoke`, `similarity_search…`), LlamaIndex retrievers (`retrieve`), Haystack
    components (`run`), sync and async. Options as in `retrieve`; `top_k` else from the call, else
    from the object's own settings.
    """
    options = {"source": source, "top_k": top_k, "score_kind": score_kind}
    options["usual_top_k"] = _usual_top_k(retriever)
    again = functools.partial(watch_retriever, source=source, top_k=top_k, score_kind=score_kind)
    return _watch(retriever, _RETRIEVING, lambda: Retrieve(None, options), again)


def watch_reranker(reranker: T, *, model: str | None = None, top_k: int | None = None) -> T:
    """A stand-in whose reranking calls are `rerank` stages: LangChain compressors, LlamaIndex
    postprocessors, Haystack rankers. Options as in `rerank`.
    """
    options = {"model": model, "top_k": top_k, "usual_top_k": _usual_top_k(reranker)}
    again = functools.partial(watch_reranker, model=model, top_k=top_k)
    return _watch(reranker, _RERANKING, lambda: Rerank(None, None, options), again)


def watch_openai(client: T) -> T:
    """A stand-in for an openai client, sync or async: `create`, `parse` and `stream` of
    `chat.completions` (`beta` too), `responses` and `completions` are `generate` stages with model,
    messages, answer and token counts. Streams come back as streams, and copies of the client
    (`with_options`) are watched too. So are calls through `with_raw_response` and
    `with_streaming_response`: their answer is read along as the app reads the response.
    """
    made = None if is_stand_in(client) else _stand_in_openai(client)
    return client if made is None else cast("T", made)


@guarded("watch a client")
def _stand_in_openai(client: Any) -> object | None:  # noqa: ANN401
    found: dict[str, Any] = {}
    chat = getattr(client, "chat", None)
    if getattr(chat, "completions", None) is not None:
        found["chat"] = _watch_chat(chat)
    for name in ("responses", "completions"):
        resource = getattr(client, name, None)
        if resource is not None:
            found[name] = _watch_calls(resource)
    if not found:
        return None
    copying = {name: getattr(client, name, None) for name in _COPYING}
    found |= {name: _watching(method) for name, method in copying.items() if callable(method)}
    if hasattr(type(client), "beta"):
        found["beta"] = Later(lambda: _watch_beta(client.beta))
    return cast("object", stand_in(client, found, watch_openai, _RAW))


@guarded("watch a client")
def _watched_chat(chat: Any) -> object:  # noqa: ANN401
    found = {"completions": _watch_calls(chat.completions)}
    return cast("object", stand_in(chat, found, _watch_chat, _RAW))


def _watch_chat(chat: Any) -> Any:  # noqa: ANN401
    return _watched_chat(chat) or chat


def _watch_beta(beta: Any) -> Any:  # noqa: ANN401
    if getattr(beta, "chat", None) is None:
        return beta
    return stand_in(beta, {"chat": _watch_chat(beta.chat)}, _watch_beta, _RAW)


def _watch_calls(resource: Any) -> Any:  # noqa: ANN401
    if is_stand_in(resource):
        return resource
    return _watched_calls(resource) or resource


@guarded("watch a client")
def _watched_calls(resource: Any) -> object | None:  # noqa: ANN401
    methods = {name: getattr(resource, name, None) for name in _CALLING}
    replaced: dict[str, Any] = {
        name: Generate(None, {"provider": "openai"})(method)
        for name, method in methods.items()
        if callable(method)
    }
    if not replaced:
        return None
    return cast("object", stand_in(resource, replaced, _watch_calls, _CALLING_COMPOSED))


def _watching(method: Callable[..., Any]) -> Callable[..., Any]:
    def copied(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        return watch_openai(method(*args, **kwargs))

    return copied
