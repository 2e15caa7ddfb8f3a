"""A judge behind any OpenAI-compatible endpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import xxhash
from openai import OpenAI

from stagewatch.core.model import ClaimLabel, Message
from stagewatch.scorer.judges import guard, replies
from stagewatch.scorer.judges.asking import SEED, Asker, Price, TokenBucket
from stagewatch.scorer.judges.fence import fence
from stagewatch.scorer.judges.fuse import Fuse
from stagewatch.scorer.judges.ledger import Ledger
from stagewatch.scorer.judges.prompts import PROMPT_VERSION, prompts_hash
from stagewatch.scorer.judges.protocol import (
    ClaimReading,
    FaithfulnessReading,
    RelevanceReading,
    RelevancyReading,
    RewriteReading,
    SufficiencyReading,
)
from stagewatch.scorer.metrics.relevance import Mark
from stagewatch.scorer.metrics.sufficiency import SUFFICIENCY_VALUE
from stagewatch.scorer.results import Unscored
from stagewatch.scorer.text.sentences import VERSION as SPLITTER

BATCH_CHARS = 24_000
"""Characters of chunks in one call; a longer context is read in several, nothing is cut."""

_CALLERS_A_POOL = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAIOptions:
    """How to reach and pace the endpoint. Key and base URL are read by the openai library from
    OPENAI_API_KEY and OPENAI_BASE_URL unless given.
    """

    model: str
    api_key: str | None = None
    base_url: str | None = None
    timeout_s: float = 60.0
    retries: int = 4
    concurrency: int = 4
    calls_per_minute: float = 0.0
    price: Price = Price(2.5, 10.0)
    batch_chars: int = BATCH_CHARS


def fingerprint_of(model: str, batch_chars: int = BATCH_CHARS) -> str:
    """Fingerprint of the judge with this model; no key or server is needed to know it."""
    return "/".join(
        (
            "openai-1",
            model,
            f"prompts-{PROMPT_VERSION}-{prompts_hash()}",
            f"t0-s{SEED}-b{batch_chars}",
            replies.VERSION,
            SPLITTER,
            guard.VERSION,
        )
    )


class OpenAIJudge:
    """Asks a model task by task; every reply is checked before it counts."""

    name = "openai"

    def __init__(
        self, options: OpenAIOptions, ledger: Ledger | None = None, fuse: Fuse | None = None
    ) -> None:
        self.fingerprint = fingerprint_of(options.model, options.batch_chars)
        self.concurrency = options.concurrency
        self._batch_chars = options.batch_chars
        # The library repeats on 408, 409, 429 and 5xx with back-off and honours Retry-After. One
        # pool of connections slows down with many callers, so there is one for each few.
        clients = [
            OpenAI(
                api_key=options.api_key,
                base_url=options.base_url,
                timeout=options.timeout_s,
                max_retries=options.retries,
            )
            for _ in range(1 + (options.concurrency - 1) // _CALLERS_A_POOL)
        ]
        self._asker = Asker(
            clients, options.model, self.fingerprint, ledger,
            price=options.price, bucket=TokenBucket(options.calls_per_minute),
            concurrency=options.concurrency, fuse=fuse,
        )  # fmt: skip

    def faithfulness(
        self, question: str, answer: str, window: Sequence[str]
    ) -> FaithfulnessReading | Unscored:
        """Claims and labels; further batches of a long window only label the same claims."""
        batches = self._batches(window)
        first, numbers = (batches[0]) if batches else ([], [])
        material = (
            f"{fence('question', [question])}\n{fence('answer', [answer])}\n{fence('chunk', first)}"
        )
        found = self._asker.ask(
            "faithfulness", material, lambda reply: replies.read_claims(reply, answer, first)
        )
        if isinstance(found, Unscored):
            return found
        claims = [_renumber(claim, numbers) for claim in found[0]]
        for texts, places in batches[1:]:
            more = self._labels([claim.judged for claim in claims], texts)
            if isinstance(more, Unscored):
                return more
            claims = [
                _merge(claim, _renumber(other, places))
                for claim, other in zip(claims, more, strict=True)
            ]
        return FaithfulnessReading(tuple(claims), found[1])

    def relevance(self, question: str, chunks: Sequence[str]) -> RelevanceReading | Unscored:
        """Marks in an order that has nothing to do with rank: a judge favours what comes first."""
        order = sorted(
            range(len(chunks)), key=lambda i: (xxhash.xxh3_64_intdigest(chunks[i].encode()), i)
        )
        marks: list[Mark] = [None] * len(chunks)
        for texts, places in self._batches([chunks[i] for i in order]):
            material = f"{fence('question', [question])}\n{fence('chunk', texts)}"
            count = len(texts)
            found = self._asker.ask(
                "relevance",
                material,
                lambda reply, n=count: replies.read_marks(reply, n),  # type: ignore[misc]
            )
            if isinstance(found, Unscored):
                return found
            for place, mark in zip(places, found, strict=True):
                marks[order[place]] = mark
        return RelevanceReading(tuple(marks), tuple(None for _ in chunks))

    def sufficiency(self, question: str, window: Sequence[str]) -> SufficiencyReading | Unscored:
        """The best level over the batches: needs spread over two batches read as partial."""
        best: SufficiencyReading | None = None
        for texts, _ in self._batches(window):
            material = f"{fence('question', [question])}\n{fence('chunk', texts)}"
            found = self._asker.ask("sufficiency", material, replies.read_level)
            if isinstance(found, Unscored):
                return found
            if best is None or SUFFICIENCY_VALUE[found] > SUFFICIENCY_VALUE[best.level]:
                best = SufficiencyReading(found)
        return best or SufficiencyReading("insufficient")

    def relevancy(self, question: str, answer: str) -> RelevancyReading | Unscored:
        """Asked things and how many are addressed; the chunks are not shown."""
        material = f"{fence('question', [question])}\n{fence('answer', [answer])}"
        found = self._asker.ask("relevancy", material, replies.read_asked)
        if isinstance(found, Unscored):
            return found
        return RelevancyReading(found.asked, found.addressed)

    def rewrite(
        self, history: Sequence[Message], question: str, rewritten: str, standalone: str | None
    ) -> RewriteReading | Unscored:
        """Constraints of the conversation and what became of them."""
        parts = [
            fence("history", [f"{message.role}: {message.content}" for message in history]),
            fence("question", [question]),
            fence("rewritten", [rewritten]),
            fence("reference", [standalone] if standalone is not None else []),
        ]
        material = "\n".join(part for part in parts if part)
        found = self._asker.ask("rewrite", material, replies.read_constraints)
        return found if isinstance(found, Unscored) else RewriteReading(found)

    def statements(
        self, statements: Sequence[str], passages: Sequence[str]
    ) -> tuple[ClaimReading, ...] | Unscored:
        """One label a statement, merged over the batches of a long context."""
        merged: list[ClaimReading] | None = None
        for texts, places in self._batches(passages) or [([], [])]:
            found = self._labels(statements, texts)
            if isinstance(found, Unscored):
                return found
            here = [_renumber(reading, places) for reading in found]
            merged = (
                here
                if merged is None
                else [_merge(a, b) for a, b in zip(merged, here, strict=True)]
            )
        return tuple(merged or ())

    def _labels(
        self, statements: Sequence[str], texts: Sequence[str]
    ) -> tuple[ClaimReading, ...] | Unscored:
        if not statements:
            return ()
        material = f"{fence('statement', statements)}\n{fence('chunk', texts)}"
        return self._asker.ask(
            "statements", material, lambda reply: replies.read_labels(reply, statements, texts)
        )

    def _batches(self, texts: Sequence[str]) -> list[tuple[list[str], list[int]]]:
        """(texts, their indexes) of each call; a chunk is never split between two."""
        batches: list[tuple[list[str], list[int]]] = []
        size = 0
        for index, text in enumerate(texts):
            if not batches or size + len(text) > self._batch_chars:
                batches.append(([], []))
                size = 0
            batches[-1][0].append(text)
            batches[-1][1].append(index)
            size += len(text)
        return batches


_STRENGTH: dict[ClaimLabel, int] = {"ABSENT": 0, "CONTRADICTED": 1, "SUPPORTED": 2}


def _merge(one: ClaimReading, other: ClaimReading) -> ClaimReading:
    """Support anywhere wins, then a contradiction: a batch without a word on it proves nothing."""
    if _STRENGTH[other.label] <= _STRENGTH[one.label]:
        return one
    return replace(one, label=other.label, passage=other.passage, evidence=other.evidence)


def _renumber(claim: ClaimReading, places: Sequence[int]) -> ClaimReading:
    return claim if claim.passage is None else replace(claim, passage=places[claim.passage])
