"""One question to an OpenAI-compatible server: cached, paid, limited, checked, once repaired."""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import openai
from openai import OpenAI
from openai.types.chat import ChatCompletion, ChatCompletionMessageParam
from opentelemetry import context

from stagewatch.scorer.judges.fuse import Fuse
from stagewatch.scorer.judges.ledger import Judgement, Ledger, input_hash
from stagewatch.scorer.judges.prompts import prompt
from stagewatch.scorer.judges.replies import SCHEMAS, BadReplyError, parse_object
from stagewatch.scorer.results import Unscored

log = logging.getLogger("stagewatch.scorer")
T = TypeVar("T")

SEED = 7
_SUPPRESS = (
    "suppress_instrumentation",
    "suppress_language_model_instrumentation",
    context._SUPPRESS_INSTRUMENTATION_KEY,  # noqa: SLF001 - the only name there is for it
    context._SUPPRESS_HTTP_INSTRUMENTATION_KEY,  # noqa: SLF001
)
_MODES = ("json_schema", "json_object", "text")


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens, in and out."""

    input_usd: float
    output_usd: float

    def of(self, input_tokens: int, output_tokens: int) -> float:
        """Cost of one call."""
        return (input_tokens * self.input_usd + output_tokens * self.output_usd) / 1e6


@dataclass(slots=True)
class TokenBucket:
    """At most `per_minute` calls a minute, evenly spread; 0 means no limit."""

    per_minute: float
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _next: float = 0.0
    # Guards `_next`: callers line up behind each other.
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self) -> None:
        """Wait for one's turn."""
        if self.per_minute <= 0:
            return
        with self._lock:
            now = self.monotonic()
            at = max(now, self._next)
            self._next = at + 60.0 / self.per_minute
        if at > now:
            self.sleep(at - now)


@contextlib.contextmanager
def unseen() -> Iterator[None]:
    """Instrumentation of the openai client or its HTTP library makes no span in this block.

    Else a process that is instrumented from outside would send its own judge calls to the
    collector, which would read them as turns of an app. The names are those that the
    instrumentations of OpenTelemetry, OpenInference and Traceloop look for.
    """
    quiet = context.get_current()
    for key in _SUPPRESS:
        quiet = context.set_value(key, True, quiet)
    token = context.attach(quiet)
    try:
        yield
    finally:
        context.detach(token)


class Asker:
    """Sends the tasks of one judge; safe from several threads."""

    def __init__(
        self,
        clients: Sequence[OpenAI],
        model: str,
        fingerprint: str,
        ledger: Ledger | None,
        *,
        price: Price,
        bucket: TokenBucket,
        concurrency: int,
        fuse: Fuse | None = None,
    ) -> None:
        self._clients = itertools.cycle(clients)
        self._model = model
        self._fingerprint = fingerprint
        self._ledger = ledger
        self._price = price
        self._bucket = bucket
        self._fuse = fuse
        self._slots = threading.BoundedSemaphore(concurrency)
        # The richest reply format the server has not refused; only ever moves on.
        self._mode = 0

    def ask(self, task: str, material: str, read: Callable[[dict[str, Any]], T]) -> T | Unscored:
        """The checked reply to `task` over the fenced `material`.

        A stored reply to the same input is used again. A reply that breaks its rules is sent back
        once with the rule it broke; then the result is unscored: `judge_incomplete` when an item
        was left out, else `judge_error`, which is also what a server that stays away gives.
        """
        key = input_hash(f"{task}\x00{material}")
        kept = self._ledger.find(self._fingerprint, key) if self._ledger is not None else None
        if kept is not None:
            try:
                return read(parse_object(kept.output))
            except BadReplyError:
                log.warning("a stored judgement no longer parses", extra={"task": task})
        messages: list[ChatCompletionMessageParam] = [
            {"role": "system", "content": f"{prompt('rules')}\n{prompt(task)}"},
            {"role": "user", "content": material},
        ]
        blown = self._fuse.enter() if self._fuse is not None else ""
        if blown:
            return Unscored("judge_error", blown)
        try:
            return self._checked(task, key, messages, read)
        except openai.OpenAIError as error:
            if self._fuse is not None:
                self._fuse.failed(type(error).__name__)
            log.warning("judge call failed", extra={"task": task, "error": type(error).__name__})
            return Unscored("judge_error", type(error).__name__)

    def _checked(
        self,
        task: str,
        key: str,
        messages: list[ChatCompletionMessageParam],
        read: Callable[[dict[str, Any]], T],
    ) -> T | Unscored:
        problem = BadReplyError("no reply")
        for again in (False, True):
            if again and self._ledger is not None and not self._ledger.budget.one_more():
                break
            reply = self._call(task, messages)
            if self._fuse is not None:
                self._fuse.worked()
            try:
                result = read(parse_object(reply.output))
            except BadReplyError as error:
                problem = error
                self._keep(f"{key}-rejected", reply)
                messages = [
                    *messages,
                    {"role": "assistant", "content": reply.output},
                    {"role": "user", "content": f"That reply breaks a rule: {error}. Reply again."},
                ]
                continue
            self._keep(key, reply)
            return result
        return Unscored("judge_incomplete" if problem.incomplete else "judge_error", str(problem))

    def _keep(self, key: str, reply: Judgement) -> None:
        if self._ledger is not None:
            self._ledger.keep(self._fingerprint, key, reply)

    def _call(self, task: str, messages: list[ChatCompletionMessageParam]) -> Judgement:
        while True:
            mode = self._mode
            try:
                with self._slots, unseen():
                    self._bucket.take()
                    return self._judgement(self._create(task, messages, _MODES[mode]))
            except (openai.BadRequestError, openai.UnprocessableEntityError):
                # Servers without structured output answer 400 or 422: step down, for good.
                if mode == len(_MODES) - 1:
                    raise
                self._mode = max(self._mode, mode + 1)

    def _create(
        self, task: str, messages: list[ChatCompletionMessageParam], mode: str
    ) -> ChatCompletion:
        # `next` of a cycle is one step of the interpreter, so threads need no lock for it.
        client = next(self._clients)
        if mode == "json_schema":
            return client.chat.completions.create(
                model=self._model,
                messages=messages,
                temperature=0,
                seed=SEED,
                response_format={
                    "type": "json_schema",
                    "json_schema": {"name": task, "schema": SCHEMAS[task], "strict": True},
                },
            )
        if mode == "json_object":
            return client.chat.completions.create(
                model=self._model,
                messages=messages,
                temperature=0,
                seed=SEED,
                response_format={"type": "json_object"},
            )
        return client.chat.completions.create(
            model=self._model, messages=messages, temperature=0, seed=SEED
        )

    def _judgement(self, reply: ChatCompletion) -> Judgement:
        usage = reply.usage
        tokens_in = usage.prompt_tokens if usage else 0
        tokens_out = usage.completion_tokens if usage else 0
        text = (reply.choices[0].message.content or "") if reply.choices else ""
        return Judgement(text, tokens_in, tokens_out, self._price.of(tokens_in, tokens_out))
