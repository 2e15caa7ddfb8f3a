"""A small RAG app: BM25 retrieval, a rule-based answerer, rewriting of follow-ups.

Instrumented with `stagewatch.sdk` the way a user's app would be. Its faults are of the kinds
that happen in production and are switched on by `Faults`; nothing downstream knows of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import bm25s

from stagewatch.demo.corpus import Passage
from stagewatch.sdk import generate, retrieve, rewrite, turn

TOP_K = 10
WINDOW = 4
_WORD = re.compile(r"[a-z0-9]+")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_STOP = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "by",
        "can",
        "do",
        "does",
        "for",
        "from",
        "how",
        "i",
        "if",
        "in",
        "is",
        "it",
        "my",
        "of",
        "on",
        "or",
        "the",
        "to",
        "what",
        "when",
        "with",
        "within",
        "you",
        "your",
        "we",
        "long",
        "many",
        "much",
        "after",
    ]
)
REFUSAL = "I'm sorry, I could not find that in our policies. Please contact support."


@dataclass(frozen=True, slots=True)
class Faults:
    """What is broken in this deployment.

    `worst_first`: the re-index stores distances and the code still sorts them as similarities,
    so the best passage comes last. `wrong_numbers`: a formatting bug changes the numbers of the
    answer. `boost_old`: a popularity boost ranks pages with more past clicks first, and the old
    ones have more.
    """

    worst_first: bool = False
    wrong_numbers: bool = False
    boost_old: bool = False


@dataclass(frozen=True, slots=True)
class Deployment:
    """One state of the app: its versions, its index and its faults."""

    release: str
    index_version: str
    prompt_version: str
    passages: Sequence[Passage]
    old: frozenset[str] = frozenset()
    faults: Faults = Faults()


@dataclass(slots=True)
class Conversation:
    """A dialogue so far: (role, text) pairs."""

    conversation_id: str
    said: list[tuple[str, str]] = field(default_factory=list)


class Bot:
    """Answers questions about policies. One instance per deployment."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self._passages = list(deployment.passages)
        self._index = bm25s.BM25()
        texts = [passage.content for passage in self._passages]
        self._index.index(
            bm25s.tokenize(texts, stopwords="en", show_progress=False), show_progress=False
        )

    def ask(
        self,
        question: str,
        conversation: Conversation,
        *,
        standalone: str | None = None,
        probe: bool = False,
    ) -> tuple[str, str]:
        """Answer, and remember both sides; (answer, trace id).

        Args:
            question: what the customer typed.
            conversation: the dialogue so far.
            standalone: what a rewriter makes of a follow-up; None asks the question as it is.
            probe: whether a schedule asks, and no customer.
        """
        made = self.deployment
        with turn(
            question,
            conversation_id=conversation.conversation_id,
            turn_index=len(conversation.said) // 2 + 1,
            history=conversation.said,
            release=made.release,
            index_version=made.index_version,
            prompt_version=made.prompt_version,
            probe=probe,
        ) as asked:
            query = question
            if standalone is not None:
                with rewrite(question) as step:
                    query = step.record(standalone)
            with retrieve(query, top_k=TOP_K, source="policies", score_kind="bm25") as step:
                found = step.record(self._search(query))
            window = found[:WINDOW]
            with generate("policy-rules-1", context=window) as step:
                answer = step.record(self._answer(query, window))
            asked.record(answer)
            if answer == REFUSAL:
                asked.refused(True)
            trace_id = asked.trace_id
        conversation.said += [("user", question), ("assistant", answer)]
        return answer, trace_id

    def _search(self, query: str) -> list[dict[str, Any]]:
        tokens = bm25s.tokenize([query], stopwords="en", show_progress=False)
        k = min(TOP_K, len(self._passages))
        numbers, scores = self._index.retrieve(tokens, k=k, show_progress=False)
        hits = [
            (self._passages[int(n)], float(s)) for n, s in zip(numbers[0], scores[0], strict=True)
        ]
        if self.deployment.faults.boost_old:
            hits.sort(key=lambda hit: (hit[0].chunk_id not in self.deployment.old, -hit[1]))
            hits = [h for h in hits if h[1] > 0] + [h for h in hits if h[1] <= 0]
        if self.deployment.faults.worst_first:
            hits.reverse()
        return [
            {
                "id": passage.chunk_id,
                "document_id": passage.document_id,
                "version": passage.version,
                "content": passage.content,
                "score": round(score, 4),
            }
            for passage, score in hits
        ]

    def _answer(self, query: str, window: Sequence[dict[str, Any]]) -> str:
        """The window's passage that shares most words with the question, said to the customer."""
        wanted = _content_words(query)
        best = max(window, key=lambda d: len(wanted & _content_words(d["content"])), default=None)
        if best is None or len(wanted & _content_words(best["content"])) < 1:
            return REFUSAL
        said = str(best["content"]).replace("Customers may", "You can").replace("customers", "you")
        if self.deployment.faults.wrong_numbers:
            said = _NUMBER.sub(_misformat, said)
        return said


def _misformat(found: re.Match[str]) -> str:
    number = found.group()
    return f"{float(number) * 2:.2f}" if "." in number else str(int(number) * 2 + 1)


def _content_words(text: str) -> set[str]:
    return {word.rstrip("s") for word in _WORD.findall(text.lower()) if word not in _STOP}
