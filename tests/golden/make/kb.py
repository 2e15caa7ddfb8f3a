"""The knowledge base, the two questions, and how the apps search and order."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

CONVERSATION = "conv-refund-001"

RELEASE = "2026.11.1"

MODEL = "gpt-4o-mini"

SERVED_MODEL = "gpt-4o-mini-2024-07-18"

TOP_K = 12

WINDOW = 3


@dataclass(frozen=True)
class Doc:
    id: str
    document_id: str
    version: str
    content: str


@dataclass(frozen=True)
class Hit:
    doc: Doc
    score: float


@dataclass(frozen=True)
class Ask:
    """One question, and what the model server will say to it."""

    turn: int
    question: str
    rewritten: str | None
    answer: str

    @property
    def query(self) -> str:
        return self.rewritten or self.question


KB = [
    Doc("refund-policy#v6#0", "refund-policy", "v6", "Customers may request a refund within 60 days of delivery (superseded text of the older policy)."),
    Doc("refund-policy#v7#0", "refund-policy", "v7", "Customers may request a refund within 30 days of delivery for physical items in original condition."),
    Doc("refund-policy#v7#1", "refund-policy", "v7", "Refunds are paid to the original payment method within 5 business days after the return is received."),
    Doc("refund-policy#v7#2", "refund-policy", "v7", "A refund request needs the order number and the reason for the return."),
    Doc("refund-policy#v7#3", "refund-policy", "v7", "Sale items marked final sale are not eligible for a refund: «Ausverkauf» – Größe S–XL, 50 % off."),
    Doc("shipping#v5#0", "shipping", "v5", "Return shipping is free for refund requests caused by a defect."),
    Doc("shipping#v5#1", "shipping", "v5", "For other refund requests the customer pays the return shipping of 4.90 EUR."),
    Doc("warranty#v4#0", "warranty", "v4", "The warranty lasts 24 months and is separate from the refund window."),
    Doc("warranty#v4#1", "warranty", "v4", "Warranty repairs take up to 10 days; a refund is offered when a repair fails twice."),
    Doc("digital-goods#v3#0", "digital-goods", "v3", "Digital items such as e-books and licence keys can be refunded within 14 days if they were not downloaded."),
    Doc("digital-goods#v3#1", "digital-goods", "v3", "Once a digital item is downloaded or a licence key is revealed, the refund window closes."),
    Doc("digital-goods#v3#2", "digital-goods", "v3", "Subscriptions to digital items are refunded pro rata for the unused days."),
    Doc("gift-cards#v2#0", "gift-cards", "v2", "Gift cards cannot be refunded, except where the law requires a refund."),
    Doc("orders#v1#0", "orders", "v1", "Orders can be changed until they are packed."),
]  # fmt: skip

BY_ID = {doc.id: doc for doc in KB}

BY_TEXT = {doc.content: doc for doc in KB}

ASKED = (
    Ask(
        1,
        "How many days do I have to request a refund?",
        None,
        "You can request a refund within 30 days of delivery [refund-policy#v7#0].",
    ),
    Ask(
        2,
        "And what about digital items?",
        "What is the refund window for digital items?",
        "Digital items can be refunded within 14 days if they were not downloaded [digital-goods#v3#0].",
    ),
)

REWRITE_PROMPT = "Rewrite the last question so that it stands alone. Reply with the question only."

ANSWER_PROMPT = "Answer from the passages only and cite them by id."


def words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+", text.lower()))


def search(query: str, k: int = TOP_K) -> list[Hit]:
    """The k passages that share most words with the query, best first."""
    asked = words(query)
    hits = []
    for doc in KB:
        found = words(doc.content)
        score = len(asked & found) / math.sqrt(len(asked) * len(found))
        hits.append(Hit(doc, round(score, 6)))
    return sorted(hits, key=lambda hit: -hit.score)[:k]


def rerank(query: str, docs: list[Doc], n: int = WINDOW) -> list[Hit]:
    """Another order: by the share of the query's words that a passage has."""
    asked = words(query)
    hits = [Hit(doc, round(len(asked & words(doc.content)) / len(asked), 6)) for doc in docs]
    return sorted(hits, key=lambda hit: -hit.score)[:n]


def passages(docs: list[Doc]) -> str:
    return "\n".join(f"[{doc.id}] {doc.content}" for doc in docs)


def answer_prompt(question: str, docs: list[Doc]) -> str:
    return f"Passages:\n{passages(docs)}\n\nQuestion: {question}"


VOCABULARY = sorted({word for doc in KB for word in words(doc.content)})


def vector(text: str) -> list[float]:
    """A unit vector with one dimension a word of the knowledge base."""
    found = words(text)
    size = math.sqrt(sum(word in found for word in VOCABULARY)) or 1.0
    return [round((word in found) / size, 6) for word in VOCABULARY]
