"""The words an app writes: turn, rewrite, retrieve, rerank, generate, feedback."""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar, overload

from opentelemetry import trace

from stagewatch.sdk._feedback import KINDS, FeedbackKind, feedback_body
from stagewatch.sdk._guard import guard, guarded, log
from stagewatch.sdk._setup import feedback_sender
from stagewatch.sdk._stages import Generate, Rerank, Retrieve, Rewrite
from stagewatch.sdk._turn import Message, Turn

P = ParamSpec("P")
R = TypeVar("R")


@overload
def turn(question: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def turn(
    question: str | None = None,
    /,
    *,
    conversation_id: str | None = None,
    user_id: str | None = None,
    turn_index: int | None = None,
    history: Sequence[Message] | None = None,
    index_version: str | None = None,
    prompt_version: str | None = None,
    release: str | None = None,
    app: str | None = None,
    reused_from: str | None = None,
    tags: Mapping[str, object] | None = None,
    probe: bool = False,
) -> Turn: ...
def turn(question: Any = None, /, **options: Any) -> Any:
    """One question answered: the root that the other stages go into.

    Record the answer with `.record(answer)`; when you do not, the last model call's answer counts.
    As a decorator the question is the argument named question, query, message, input or text,
    else the first string, and the return value is the answer.

    Args:
        question: What the user asked, word for word.
        **options: As follows.

    Options:
        conversation_id: Ties the turns of one dialogue together.
        user_id: Who asked, in whatever form you want to see it.
        turn_index: 1 for the first question of the conversation.
        history: The dialogue before the question: `{"role", "content"}` mappings or pairs.
        index_version: Which build of the index answered.
        prompt_version: Which prompt answered.
        release: Overrides the release given to `configure` for this turn.
        app: Name of the app, else the one given to `configure`.
        reused_from: Turn id whose retrieved context is used again instead of retrieving.
        tags: Free tags, shown and searchable.
        probe: True for a synthetic question that no user asked.
    """
    if callable(question):
        return Turn(None, {})(question)
    return Turn(question, known("turn", options))


@overload
def rewrite(question: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def rewrite(question: str | None = None, /, *, model: str | None = None) -> Rewrite: ...
def rewrite(question: Any = None, /, **options: Any) -> Any:
    """The question made self-contained. Record the resulting query, also when it is unchanged."""
    if callable(question):
        return Rewrite(None, {})(question)
    return Rewrite(question, known("rewrite", options))


@overload
def retrieve(query: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def retrieve(
    query: str | None = None,
    /,
    *,
    top_k: int | None = None,
    source: str | None = None,
    score_kind: str | None = None,
    index_version: str | None = None,
) -> Retrieve: ...
def retrieve(query: Any = None, /, **options: Any) -> Any:
    """One retriever call. Record what it returned, best first.

    Args:
        query: The text searched for.
        **options: As follows.

    Options:
        top_k: How many passages were asked for.
        source: Name of the index or store.
        score_kind: What scores mean: similarity, distance, rrf, bm25 or rerank.
        index_version: Which build of the index answered, when it differs from the turn's.
    """
    if callable(query):
        return Retrieve(None, {})(query)
    return Retrieve(query, known("retrieve", options))


@overload
def rerank(query: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def rerank(
    query: str | None = None,
    documents: object = None,
    /,
    *,
    model: str | None = None,
    top_k: int | None = None,
) -> Rerank: ...
def rerank(query: Any = None, documents: Any = None, /, **options: Any) -> Any:
    """A second opinion on the order. Give it the documents going in, record those coming out."""
    if callable(query):
        return Rerank(None, None, {})(query)
    return Rerank(query, documents, known("rerank", options))


@overload
def generate(model: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def generate(
    model: str | None = None,
    /,
    *,
    context: object = None,
    messages: object = None,
    provider: str | None = None,
    prompt_name: str | None = None,
    prompt_version: str | None = None,
) -> Generate: ...
def generate(model: Any = None, /, **options: Any) -> Any:
    """The model call that answers. Record its response: a string, a client's response or a stream.

    Args:
        model: Name of the model asked for.
        **options: As follows.

    Options:
        context: The documents put in the prompt, in order.
        messages: The prompt as sent: a string or a list of messages.
        provider: Who runs the model, e.g. "openai".
        prompt_name: Name of the prompt template.
        prompt_version: Version of the prompt template.
    """
    if callable(model):
        return Generate(None, {})(model)
    return Generate(model, known("generate", options))


@guarded("take feedback")
def feedback(
    trace_id: str,
    kind: FeedbackKind,
    *,
    comment: str | None = None,
    corrected_answer: str | None = None,
    turn_id: str | None = None,
    source: str = "sdk",
    external_id: str | None = None,
) -> None:
    """Say what a person thought of an answer; works from any process, at any later time.

    Posted in the background to STAGEWATCH_URL; never raises. Give `external_id` (your ticket's or
    message's id) so that saying the same thing twice counts once.

    Args:
        trace_id: `turn.trace_id`, or `current_trace_id()` inside the turn.
        kind: thumbs_up, thumbs_down, escalated, disputed or corrected.
        comment: In the person's words.
        corrected_answer: What the answer should have been.
        turn_id: Which turn, when the trace holds several; else its last.
        source: Where the feedback comes from, e.g. "helpdesk".
        external_id: Its id there.
    """
    if kind not in KINDS:
        log.warning("stagewatch feedback kind must be one of %s", ", ".join(sorted(KINDS)))
        return
    feedback_sender().send(
        feedback_body(
            trace_id,
            kind,
            comment=comment,
            corrected_answer=corrected_answer,
            turn_id=turn_id,
            source=source,
            external_id=external_id,
        )
    )


_OPTIONS: Mapping[str, frozenset[str]] = {
    "turn": frozenset(
        {
            "conversation_id",
            "user_id",
            "turn_index",
            "history",
            "index_version",
            "prompt_version",
            "release",
            "app",
            "reused_from",
            "tags",
            "probe",
        }
    ),
    "rewrite": frozenset({"model"}),
    "retrieve": frozenset({"top_k", "source", "score_kind", "index_version"}),
    "rerank": frozenset({"model", "top_k"}),
    "generate": frozenset({"context", "messages", "provider", "prompt_name", "prompt_version"}),
}


def known(stage: str, options: dict[str, Any]) -> dict[str, Any]:
    """`options`, with a warning for names that `stage` does not have: a misspelling must be seen,
    but not by breaking the app.
    """
    if not options.keys() <= _OPTIONS[stage]:
        strange = ", ".join(sorted(options.keys() - _OPTIONS[stage]))
        guard.count(f"option {stage}", "%s has no option %s; ignored", stage, strange)
    return options


def current_trace_id() -> str | None:
    """Trace id of the turn (or other span) that is running, to give to the user for feedback."""
    context = trace.get_current_span().get_span_context()
    return f"{context.trace_id:032x}" if context.is_valid else None


def carry(func: Callable[P, R]) -> Callable[P, R]:
    """`func` bound to the running turn, to be called on another thread:
    `pool.submit(carry(search), query)`. Threads of a pool do not inherit it by themselves.
    """
    context = contextvars.copy_context()

    @functools.wraps(func)
    def bound(*args: P.args, **kwargs: P.kwargs) -> R:
        # A copy for each call: one context cannot be entered by two threads at a time.
        return context.copy().run(func, *args, **kwargs)

    return bound
